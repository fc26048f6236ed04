"""The training step of 2017's encoder-decoder as stages and rules, forward, backward and update.

Names are the package's record's; `d:` before a name marks a gradient, `new:` a weight after Adam's first step. The letters:
s, r  positions of the source (r where a second one is needed) · t, p  positions of the target · c, e  columns of a row, of the heads side by
side · h, k  head, its columns · f  hidden units · v, u  words of the target's and of the source's vocabulary.
"""

from dataclasses import dataclass, field

import numpy as np

from .. import numpy as bn
from ..config import Config
from ..parameters import encoder_decoder_shapes
from ..toy import Case
from .formulas import Arrays, Stage, evaluate

MASKED_SOFTMAX = 'when("masked", mask, exp(z - top(@: when("masked", mask, z))) / sum(@: when("masked", mask, exp(z - top(@: when("masked", mask, z))))))'

# name: (in words, formula, the formula as readers see it where that differs). "+" adds all operands.
RULES = {
    "copy": ("the same number, handed on", "a"),
    "add": ("what arrives here by each way, added", "+"),
    "look up": ("the word's row of the table, times the root of the width", "root * table"),
    "collect": (
        "what arrives at every place where the word stands, added, times the root of the width",
        'root * sum(@: when("not looked up there", token = #0, d))',
    ),
    "product": ("products, added", "sum(@: a * b)"),
    "product and bias": ("products, added, plus a bias", "sum(@: a * b) + bias"),
    "product over root": ("products, added, divided by the root of the head's width", "sum(@: a * b) / root"),
    "total": ("what arrives in each row, added", "sum(@: d)"),
    "mean": ("the mean of the row", "mean(@: x)"),
    "variance": ("the mean squared distance from the row's mean", "mean(@: sq(x - mu))"),
    "standardise": ("the distance from the row's mean, in units of the row's spread", "(x - mu) / sqrt(var + eps)"),
    "scale and shift": ("times γ, plus β", "gamma * n + beta"),
    "times gamma": ("the gradient of what the norm made, times γ", "gamma * d"),
    "into the mean": ("every normalised number of the row falls when the mean rises", "-sum(@: d) / sqrt(var + eps)"),
    "into the variance": ("every normalised number of the row shrinks when the variance grows", "-sum(@: d * n) / (2 * (var + eps))"),
    "norm backward": (
        "three uses: in the normalised number itself, in the mean of its row, in the variance of its row",
        "d / sqrt(var + eps) + dmean / size(c) + dvar * 2 * (x - mu) / size(c)",
    ),
    "softmax": (
        "its share of the row: e to the number, divided by the sum of these",
        "exp(z - top(@: z)) / sum(@: exp(z - top(@: z)))",
        "exp(z) / sum(@: exp(z))",
    ),
    "masked softmax": (
        "its share of what may be seen: e to the number, divided by the sum of these",
        MASKED_SOFTMAX,
        'when("masked", mask, exp(z) / sum(@: when("masked", mask, exp(z))))',
    ),
    "softmax backward": ("its share, times how far its gradient lies above the row's weighted mean", "p * (d - sum(@: p * d))"),
    "relu": ("itself if above 0, else 0", 'when("not above 0", x > 0, x)'),
    "gate": ("let through where the unit was above 0", 'when("gate closed", x > 0, d)'),
    "smoothed target": ("1 for the wanted word, with a little for all", "(1 - s) * is(y = #1) + s / size(v)"),
    "p minus q": ("the probability minus the target, times the weight of the position", "w * (p - q)"),
    "cross-entropy": (
        "minus ln p, averaged with the target's shares, over the scored positions",
        "sum(t: w * (log(sum(v: exp(z - top(v: z)))) - sum(v: q * (z - top(v: z)))))",
        "-sum(t: w * sum(v: q * log(p)))",
    ),
    "adam": ("one step of length lr against the sign of the gradient (Adam's first)", "w - lr * g / (abs(g) + 1e-9)"),
    "cut": ("this way is switched off", "0"),
}  # fmt: skip

VIA = {
    "via_residual": "straight past (residual)", "via_query": "as a query", "via_key": "as a key", "via_value": "as a value",
    "via_feed_forward": "through the feed-forward", "dmean": "through the mean of its row", "dvar": "through the variance of its row",
    "d": "through itself, normalised",
}  # fmt: skip
ZERO = {"scored": "not scored", "source_mask": "masked", "causal_mask": "masked", "not looked up there": "never looked up"}
NORMS = {"encoder": 2, "decoder": 3}
RESIDUALS = tuple(f"{side}.0.residual_{i}" for side, n in NORMS.items() for i in range(1, n + 1))


@dataclass(frozen=True)
class Switches:
    """Parts of the model that can be taken away, forward and backward alike; the package's Config has none of these."""

    relu: bool = True
    norms: bool = True
    residuals: tuple[str, ...] = field(default=RESIDUALS)  # those that are kept


def stages(switches: Switches = Switches()) -> list[Stage]:
    """Every stage of the step in the order of computing."""
    builder = _Builder(switches)
    builder.forward()
    builder.backward()
    for name, axes in weight_axes().items():
        builder.emit(f"new:{name}", axes, "adam", w=f"{name}[{axes}]", lr="lr[]", g=f"d:{name}[{axes}]")
    return builder.stages


def rules() -> dict[str, dict]:
    """RULES with names for the parts."""
    return {name: dict(zip(("words", "formula", "show"), rule)) for name, rule in RULES.items()}


class _Builder:
    def __init__(self, switches):
        self.switches, self.stages = switches, []

    def emit(self, name, axes, rule, over="", **operands):
        """operands: name="stage[pattern]"."""
        self.stages.append(Stage(name, axes, rule, over, {key: tuple(value[:-1].split("[")) for key, value in operands.items()}))

    def add(self, name, axes, *sources):
        self.emit(name, axes, "add" if len(sources) > 1 else "copy", **{"abcd"[i]: f"{source}[{axes}]" for i, source in enumerate(sources)})

    # ---- attention ----

    def attend(self, n, x, t, memory, r, mask):
        """Queries from x at the letter t, keys and values from memory at the letter r."""
        for w, source, at in (("q", x, t), ("k", memory, r), ("v", memory, r)):
            self.emit(f"{n}.{w}", f"h,{at},k", "product", "c", a=f"{source}[{at},c]", b=f"{n}.w_{w}[c,hk]")
        self.emit(f"{n}.scores", f"h,{t},{r}", "product over root", "k", a=f"{n}.q[h,{t},k]", b=f"{n}.k[h,{r},k]", root="root_d_k[]")
        self.emit(f"{n}.weights", f"h,{t},{r}", "masked softmax", r, z=f"{n}.scores[h,{t},{r}]", mask=mask)
        self.emit(f"{n}.mixed", f"h,{t},k", "product", r, a=f"{n}.weights[h,{t},{r}]", b=f"{n}.v[h,{r},k]")
        self.emit(f"{n}.concat", f"{t},hk", "copy", a=f"{n}.mixed[h,{t},k]")
        self.emit(f"{n}.out", f"{t},c", "product", "e", a=f"{n}.concat[{t},e]", b=f"{n}.w_o[e,c]")

    def attend_backward(self, n, d, x, t, memory, r, ways):
        self.emit(f"d:{n}.out", f"{t},c", "copy", a=f"{d}[{t},c]")
        self.emit(f"d:{n}.concat", f"{t},e", "product", "c", a=f"d:{n}.out[{t},c]", b=f"{n}.w_o[e,c]")
        self.emit(f"d:{n}.mixed", f"h,{t},k", "copy", a=f"d:{n}.concat[{t},hk]")
        self.emit(f"d:{n}.weights", f"h,{t},{r}", "product", "k", a=f"d:{n}.mixed[h,{t},k]", b=f"{n}.v[h,{r},k]")
        self.emit(f"d:{n}.scores", f"h,{t},{r}", "softmax backward", r, p=f"{n}.weights[h,{t},{r}]", d=f"d:{n}.weights[h,{t},{r}]")
        self.emit(f"d:{n}.q", f"h,{t},k", "product over root", r, a=f"d:{n}.scores[h,{t},{r}]", b=f"{n}.k[h,{r},k]", root="root_d_k[]")
        self.emit(f"d:{n}.k", f"h,{r},k", "product over root", t, a=f"d:{n}.scores[h,{t},{r}]", b=f"{n}.q[h,{t},k]", root="root_d_k[]")
        self.emit(f"d:{n}.v", f"h,{r},k", "product", t, a=f"{n}.weights[h,{t},{r}]", b=f"d:{n}.mixed[h,{t},k]")
        for w, way, source, at in (("q", ways[0], x, t), ("k", ways[1], memory, r), ("v", ways[2], memory, r)):
            self.emit(f"d:{way}", f"{at},c", "product", "hk", a=f"d:{n}.{w}[h,{at},k]", b=f"{n}.w_{w}[c,hk]")
            self.emit(f"d:{n}.w_{w}", "c,hk", "product", at, a=f"{source}[{at},c]", b=f"d:{n}.{w}[h,{at},k]")
        self.emit(f"d:{n}.w_o", "e,c", "product", t, a=f"{n}.concat[{t},e]", b=f"d:{n}.out[{t},c]")

    # ---- add and norm ----

    def residual(self, name, t, past, through):
        kept = (past, through) if name in self.switches.residuals else (through,)
        self.add(name, f"{t},c", *kept)

    def residual_backward(self, name, t, way):
        """What goes straight past, in the gradient."""
        if name in self.switches.residuals:
            self.add(f"d:{way}", f"{t},c", f"d:{name}")
        else:
            self.emit(f"d:{way}", f"{t},c", "cut")

    def norm(self, n, x, t):
        self.emit(f"{n}.mean", t, "mean", "c", x=f"{x}[{t},c]")
        self.emit(f"{n}.var", t, "variance", "c", x=f"{x}[{t},c]", mu=f"{n}.mean[{t}]")
        if not self.switches.norms:
            self.emit(f"{n}.normalised", f"{t},c", "copy", a=f"{x}[{t},c]")
            self.add(f"{n}.out", f"{t},c", f"{n}.normalised")
            return
        self.emit(f"{n}.normalised", f"{t},c", "standardise", x=f"{x}[{t},c]", mu=f"{n}.mean[{t}]", var=f"{n}.var[{t}]", eps="eps[]")
        self.emit(f"{n}.out", f"{t},c", "scale and shift", gamma=f"{n}.gamma[c]", n=f"{n}.normalised[{t},c]", beta=f"{n}.beta[c]")

    def norm_backward(self, n, x, t):
        """Each number of a row is used three times: where it is normalised, in the mean, and in the variance."""
        d, hat, var = f"d:{n}.out[{t},c]", f"{n}.normalised[{t},c]", f"{n}.var[{t}]"
        dhat = f"d:{n}.normalised[{t},c]"
        if not self.switches.norms:
            self.emit(f"d:{n}.normalised", f"{t},c", "copy", a=d)
            for name, axes in (("mean", t), ("var", t), ("gamma", "c"), ("beta", "c")):
                self.emit(f"d:{n}.{name}", axes, "cut")
            self.emit(f"d:{x}", f"{t},c", "copy", a=dhat)
            return
        self.emit(f"d:{n}.normalised", f"{t},c", "times gamma", gamma=f"{n}.gamma[c]", d=d)
        self.emit(f"d:{n}.mean", t, "into the mean", "c", d=dhat, var=var, eps="eps[]")
        self.emit(f"d:{n}.var", t, "into the variance", "c", d=dhat, n=hat, var=var, eps="eps[]")
        means = dict(dmean=f"d:{n}.mean[{t}]", dvar=f"d:{n}.var[{t}]")
        self.emit(f"d:{x}", f"{t},c", "norm backward", "", d=dhat, var=var, eps="eps[]", **means, x=f"{x}[{t},c]", mu=f"{n}.mean[{t}]")
        self.emit(f"d:{n}.gamma", "c", "product", t, a=d, b=hat)
        self.emit(f"d:{n}.beta", "c", "total", t, d=d)

    # ---- feed-forward ----

    def feed(self, n, x, t):
        self.emit(f"{n}.hidden", f"{t},f", "product and bias", "c", a=f"{x}[{t},c]", b=f"{n}.w_1[c,f]", bias=f"{n}.b_1[f]")
        rule, operand = ("relu", "x") if self.switches.relu else ("copy", "a")
        self.emit(f"{n}.active", f"{t},f", rule, **{operand: f"{n}.hidden[{t},f]"})
        self.emit(f"{n}.out", f"{t},c", "product and bias", "f", a=f"{n}.active[{t},f]", b=f"{n}.w_2[f,c]", bias=f"{n}.b_2[c]")

    def feed_backward(self, n, d, x, t, way):
        self.emit(f"d:{n}.out", f"{t},c", "copy", a=f"{d}[{t},c]")
        self.emit(f"d:{n}.active", f"{t},f", "product", "c", a=f"d:{n}.out[{t},c]", b=f"{n}.w_2[f,c]")
        if self.switches.relu:
            self.emit(f"d:{n}.hidden", f"{t},f", "gate", x=f"{n}.hidden[{t},f]", d=f"d:{n}.active[{t},f]")
        else:
            self.emit(f"d:{n}.hidden", f"{t},f", "copy", a=f"d:{n}.active[{t},f]")
        self.emit(f"d:{way}", f"{t},c", "product", "f", a=f"d:{n}.hidden[{t},f]", b=f"{n}.w_1[c,f]")
        self.emit(f"d:{n}.w_2", "f,c", "product", t, a=f"{n}.active[{t},f]", b=f"d:{n}.out[{t},c]")
        self.emit(f"d:{n}.b_2", "c", "total", t, d=f"d:{n}.out[{t},c]")
        self.emit(f"d:{n}.w_1", "c,f", "product", t, a=f"{x}[{t},c]", b=f"d:{n}.hidden[{t},f]")
        self.emit(f"d:{n}.b_1", "f", "total", t, d=f"d:{n}.hidden[{t},f]")

    # ---- the whole ----

    def forward(self):
        for side, tokens, table, t, r in (("encoder", "source", "source_embedding", "s", "r"), ("decoder", "decoder_input", "target_embedding", "t", "p")):
            layer = f"{side}.0"
            self.emit(f"{side}.embedded", f"{t},c", "look up", root="root_d_model[]", table=f"{table}[{tokens}@{t},c]")
            self.add(f"{side}.input", f"{t},c", f"{side}.embedded", f"{side}.positions")
            mask = "source_mask[r]" if side == "encoder" else "causal_mask[t,p]"
            self.attend(f"{layer}.self_attention", f"{side}.input", t, f"{side}.input", r, mask)
            self.residual(f"{layer}.residual_1", t, f"{side}.input", f"{layer}.self_attention.out")
            self.norm(f"{layer}.norm_1", f"{layer}.residual_1", t)
            last = f"{layer}.norm_1.out"
            if side == "decoder":
                self.attend(f"{layer}.cross_attention", last, "t", "encoder.memory", "r", "source_mask[r]")
                self.residual(f"{layer}.residual_2", "t", last, f"{layer}.cross_attention.out")
                self.norm(f"{layer}.norm_2", f"{layer}.residual_2", "t")
                last = f"{layer}.norm_2.out"
            self.feed(f"{layer}.feed_forward", last, t)
            n = NORMS[side]
            self.residual(f"{layer}.residual_{n}", t, last, f"{layer}.feed_forward.out")
            self.norm(f"{layer}.norm_{n}", f"{layer}.residual_{n}", t)
            self.add("decoder.out" if side == "decoder" else "encoder.memory", f"{t},c", f"{layer}.norm_{n}.out")
        self.emit("logits", "t,v", "product and bias", "c", a="decoder.out[t,c]", b="output.w[c,v]", bias="output.b[v]")
        self.emit("probabilities", "t,v", "softmax", "v", z="logits[t,v]")
        self.emit("q", "t,v", "smoothed target", s="smoothing[]", y="targets[t]")
        self.emit("loss", "", "cross-entropy", w="scored[t]", z="logits[t,v]", q="q[t,v]", p="probabilities[t,v]")

    def backward(self):
        self.emit("d:logits", "t,v", "p minus q", w="scored[t]", p="probabilities[t,v]", q="q[t,v]")
        self.emit("d:decoder.out", "t,c", "product", "v", a="d:logits[t,v]", b="output.w[c,v]")
        self.emit("d:output.w", "c,v", "product", "t", a="decoder.out[t,c]", b="d:logits[t,v]")
        self.emit("d:output.b", "v", "total", "t", d="d:logits[t,v]")
        for side, tokens, table, t, r, word in (
            ("decoder", "decoder_input", "target_embedding", "t", "p", "v"),
            ("encoder", "source", "source_embedding", "s", "r", "u"),
        ):
            layer, n, x = f"{side}.0", NORMS[side], f"{side}.0.input"
            self.add(f"d:{layer}.norm_{n}.out", f"{t},c", "d:decoder.out" if side == "decoder" else "d:encoder.memory")
            self.norm_backward(f"{layer}.norm_{n}", f"{layer}.residual_{n}", t)
            below = f"{layer}.norm_{n - 1}.out"
            self.feed_backward(f"{layer}.feed_forward", f"d:{layer}.residual_{n}", below, t, f"{below}.via_feed_forward")
            self.residual_backward(f"{layer}.residual_{n}", t, f"{below}.via_residual")
            self.add(f"d:{below}", f"{t},c", f"d:{below}.via_residual", f"d:{below}.via_feed_forward")
            if side == "decoder":
                self.norm_backward(f"{layer}.norm_2", f"{layer}.residual_2", "t")
                below, memory = f"{layer}.norm_1.out", f"{layer}.memory"
                ways = f"{below}.via_query", f"{memory}.via_key", f"{memory}.via_value"
                self.attend_backward(f"{layer}.cross_attention", f"d:{layer}.residual_2", below, "t", "encoder.memory", "r", ways)
                self.residual_backward(f"{layer}.residual_2", "t", f"{below}.via_residual")
                self.add(f"d:{below}", "t,c", f"d:{below}.via_residual", f"d:{below}.via_query")
                self.add("d:encoder.memory", "r,c", f"d:{memory}.via_key", f"d:{memory}.via_value")
            self.norm_backward(f"{layer}.norm_1", f"{layer}.residual_1", t)
            ways = [f"{x}.via_{way}" for way in ("query", "key", "value")]
            self.attend_backward(f"{layer}.self_attention", f"d:{layer}.residual_1", f"{side}.input", t, f"{side}.input", r, ways)
            self.residual_backward(f"{layer}.residual_1", t, f"{x}.via_residual")
            self.add(f"d:{x}", f"{t},c", *(f"d:{x}.via_{way}" for way in ("residual", "query", "key", "value")))
            self.add(f"d:{side}.input", f"{t},c", f"d:{x}")
            self.emit(f"d:{table}", f"{word},c", "collect", t, root="root_d_model[]", token=f"{tokens}[{t}]", d=f"d:{side}.input[{t},c]")


# ---- what is given ------------------------------------------------------------------------------

_LAST = dict(w_q="c,hk", w_k="c,hk", w_v="c,hk", w_o="e,c", gamma="c", beta="c", w_1="c,f", b_1="f", w_2="f,c", b_2="c")
_WHOLE = {"source_embedding": "u,c", "target_embedding": "v,c", "output.w": "c,v", "output.b": "v"}
GIVEN = {
    "source": "s", "decoder_input": "t", "targets": "t", "scored": "t", "source_mask": "r", "causal_mask": "t,p",
    "encoder.positions": "s,c", "decoder.positions": "t,c", "root_d_model": "", "root_d_k": "", "eps": "", "smoothing": "", "lr": "",
}  # fmt: skip


def weight_axes() -> dict[str, str]:
    """The axes of every weight."""
    from ..config import Config

    names = encoder_decoder_shapes(Config(d_model=2, n_heads=1, d_ff=2, n_layers=1, source_vocab=2, target_vocab=2))
    return {name: _WHOLE.get(name) or _LAST[name.rsplit(".", 1)[1]] for name in names}


def leaf_axes() -> dict[str, str]:
    """The axes of everything that is given: weights, tokens, masks, positions, and single numbers."""
    return weight_axes() | GIVEN


def sizes(case: Case) -> dict[str, int]:
    """How many values each letter has."""
    config, source, target = case.config, case.source.shape[1], case.decoder_input.shape[1]
    return dict(
        s=source, r=source, t=target, p=target, c=config.d_model, e=config.n_heads * config.d_v, h=config.n_heads, k=config.d_k,
        f=config.d_ff, v=config.target_vocab, u=config.source_vocab,
    )  # fmt: skip


def leaves(case: Case, lr: float) -> Arrays:
    """Everything that is given in a worked example.

    Raises ValueError for an example that the stages do not describe: one sentence pair, one layer, d_v = d_k, an output layer of its own,
    and of tied, biases, scaled, pairing and shared what a Config has without being asked.
    """
    config, (batch, source), target = case.config, case.source.shape, case.decoder_input.shape[1]
    other = [name for name in ("tied", "biases", "scaled", "pairing", "shared") if getattr(config, name) != getattr(Config, name)]
    if batch != 1 or config.n_layers != 1 or config.d_k != config.d_v or config.positions == "learned" or other or case.target_lengths is not None:
        raise ValueError(
            "case must hold one sentence pair without padding in the target, one layer, d_v = d_k, no learned positions"
            f"{''.join(f', and {name} = {getattr(Config, name)}' for name in other)}"
        )
    length = source if case.source_lengths is None else int(case.source_lengths[0])
    on = config.positions == "sinusoidal"
    weights = bn.loss.position_weights(case.targets, lengths=case.target_lengths, reduction=case.reduction)
    return dict(case.params) | {
        "source": case.source[0], "decoder_input": case.decoder_input[0], "targets": case.targets[0], "scored": weights[0],
        "source_mask": np.arange(source) < length, "causal_mask": np.tri(target),
        "encoder.positions": on * bn.position.sinusoidal(source, config.d_model),
        "decoder.positions": on * bn.position.sinusoidal(target, config.d_model),
        "root_d_model": np.sqrt(config.d_model), "root_d_k": np.sqrt(config.d_k),
        "eps": config.eps, "smoothing": case.smoothing, "lr": lr,
    }  # fmt: skip


def run(case: Case, lr: float, switches: Switches = Switches(), edits: Arrays | None = None, shown: bool = False) -> Arrays:
    """Every number of the step by the stored formulas. edits replaces leaves."""
    return evaluate(rules(), stages(switches), leaf_axes(), sizes(case), leaves(case, lr) | (edits or {}), shown)


def recorded(case: Case, lr: float) -> Arrays:
    """The same numbers as the package computes them: its record, its gradients, its loss and its Adam, without the axis of the batch."""
    step = bn.step.run(case)
    new, _ = bn.optimizer.adam(case.params, step.gradients.params, lr=lr)
    forward = dict(step.output.activations)
    backward = {f"d:{name}": value for name, value in step.gradients.stages.items()}
    positions = {f"{side}.positions" for side in ("encoder", "decoder")}
    kept = {name: np.asarray(value)[0] for name, value in (forward | backward).items() if name not in positions}
    kept = {name: value[..., 0] if name.endswith((".mean", ".var")) else value for name, value in kept.items()}
    grads = {f"d:{name}": value for name, value in step.gradients.params.items()}
    p, _ = bn.softmax.softmax(step.output.logits[0])
    q = bn.loss.smoothed_targets(case.targets[0], case.config.target_vocab, case.smoothing)
    return kept | {"probabilities": p, "q": q, "loss": np.array(step.loss)} | grads | {f"new:{name}": value for name, value in new.items()}
