"""check.mine: a stranger's training step, right and wrong, in this process and in one of its own."""

import ast
import copy
import inspect
import json
import re
import subprocess
import sys
import textwrap
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ledger import kill

from byhand import Config, toy
from byhand.check import mine
from byhand.check.mistakes import MISTAKES
from byhand.check.plant import Change, Mistake
from byhand.check.reference import Batch, Reference
from byhand.numpy import attention, embedding, feed_forward, layers, linear, loss, norm, optimizer, softmax, step
from byhand.parameters import decoder_shapes, encoder_decoder_shapes

GPT = Path(__file__).parents[2] / "book" / "workshop" / "my_gpt.py"
NOTHING = Mistake("", "", ())
STEP = [mistake for mistake in MISTAKES.values() if mistake.part in ("step", "stack")]


def models(seed=0):
    """The last has a source as long as its target: some mistakes run nowhere else."""
    uneven = kill.uneven(seed=seed)
    even = replace(uneven, source=uneven.source[:, :3].copy(), source_lengths=np.minimum(uneven.source_lengths, 3))
    return [uneven, kill.uneven(tied=True, seed=seed), toy.decoder(seed), kill.tied_stack(seed), even]


def shows(case, mistake):
    """Whether the mistake runs on this model and moves a gradient, or the update."""
    right = step.run(case).gradients.params
    with mistake.planted():
        try:
            wrong = step.run(case).gradients.params
        except (ValueError, IndexError):
            return False
    return mistake.kind == "optimizer" or any(wrong[n].shape != right[n].shape or not np.allclose(wrong[n], right[n], 1e-7, 1e-9) for n in right)


def gpt(*changes):
    """The reader's GPT, some of its lines replaced."""
    source = GPT.read_text("utf-8")
    for right, wrong in changes:
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    module = types.ModuleType("theirs")
    exec(source, vars(module))
    return module


# ---- the catalogue: named from the arrays alone -------------------------------------------------


def first_guess(mistake, seed):
    """Named first, alone or in a group that the arrays cannot tell apart, on the first model that shows it; which comes first changes with the seed."""
    cases = models(seed)
    case = next(case for case in cases[seed % 5 :] + cases[: seed % 5] if shows(case, mistake))
    stated = {"pairing": "interleaved"} if mistake.name == "RoPE pairs the halves" else {}  # or it is a convention
    verdict = mine(kill.planted_step(case, mistake), seed=seed, **stated)
    assert not verdict and verdict.findings, f"{mistake.name} was called right"
    return mistake.name in verdict.findings[0].cause


# Some of each room, so that every kind is looked for in each run; the weekly one takes all, on twenty seeds.
SAMPLE = STEP[::8]


@pytest.mark.parametrize("mistake", SAMPLE, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_from_the_arrays_alone(mistake):
    assert first_guess(mistake, seed=0)


@pytest.fixture
def computed_once(monkeypatch):
    """What the book's step gives with each mistake is the same for every check on one model and batch; a sweep asks for it a hundred times."""
    kept = {}

    def content(value):
        if isinstance(value, dict):
            return tuple((name, array.tobytes()) for name, array in value.items())
        if isinstance(value, (Reference, Batch)):
            return tuple(map(content, value))
        return value.tobytes() if isinstance(value, np.ndarray) else value.changes if isinstance(value, Mistake) else value

    for name in ("run", "forward", "backward"):

        def once(*args, own=getattr(Reference, name), **kwargs):
            asked = own.__name__, tuple(map(content, args)), tuple((key, content(value)) for key, value in kwargs.items())
            if asked not in kept:
                if len(kept) > 4000:  # pairs of mistakes are many, and seldom asked for again
                    kept.clear()
                kept[asked] = own(*args, **kwargs)
            return kept[asked]

        monkeypatch.setattr(Reference, name, once)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_mistake_is_named_on_twenty_seeds(computed_once, seed):
    missed = [mistake.name for mistake in STEP if not first_guess(mistake, seed)]
    assert len(missed) <= 3, missed


def test_with_activations_the_first_stage_is_named():
    case = kill.uneven()
    verdict = mine(kill.planted_step(case, MISTAKES["the mask applied after the softmax"], stages=True))
    assert verdict.findings[0].cause[0] == "the mask applied after the softmax"
    assert verdict.findings[0].stage == "encoder.0.self_attention.weights"
    assert mine(kill.planted_step(case, NOTHING, stages=True))


def at_some_calls(case, mistake, only):
    """A step with the mistake at these calls alone, and two updates."""

    def run(**batch):
        params, state, found = case.params, None, {}
        for number in (1, 2):
            with mistake.planted(only=only):
                now = step.run(replace(case, params=params, **batch))
            found = found or dict(params=params, logits=now.output.logits, loss=now.loss, gradients=now.gradients.params)
            params, state = optimizer.adam(params, now.gradients.params, state, lr=0.01)
            found[f"params_{number}"] = params
        return found

    if case.source is None:
        return lambda tokens, targets, lengths=None: run(decoder_input=tokens, targets=targets, target_lengths=lengths)
    return lambda source, decoder_input, targets: run(source=source, decoder_input=decoder_input, targets=targets, source_lengths=None, target_lengths=None)


@pytest.mark.parametrize(
    "case, cause, only, site",
    [
        (kill.tied_stack(), "1/√d_k missing in dK", (1,), "block.0.attention.w_k"),  # on the way back the second attention is the first block's
        # and the second is no cross-attention, where this mistake does not even run
        (kill.uneven(), "dS for dSᵀ in dK", (1,), "decoder.1.self_attention.w_k"),
        # the queries turned back the wrong way, the keys not; each layer has both
        (toy.decoder(), "RoPE not turned back", range(0, 4, 2), "block.*.attention.w_q"),
    ],
    ids=["one of the first block", "one that runs there alone", "one of every layer"],
)
def test_a_mistake_at_some_places_alone_is_found(case, cause, only, site):
    verdict = mine(at_some_calls(case, MISTAKES[cause], only))
    (finding,) = verdict.findings
    assert finding.cause[0] == cause and finding.site == f"the gradient of {site}"
    assert finding.stage == finding.site.replace("*", "1")
    assert [row.holds for row in verdict.rows if row.name.startswith("parameters after")] == [True, True]


def test_a_mistake_going_forward_is_named_beside_another_eps():
    verdict = mine(kill.planted_step(drawn(norm="pre", eps=1e-6), MISTAKES["no residual path around attention"]))
    assert verdict.findings[0].cause == ("no residual path around attention",) and "ε = 1e-06" in str(verdict)


def test_two_mistakes_together_are_both_named():
    case, names = kill.tied_stack(), ["γ outside the two means", "1/√d_k missing in dK"]
    both = Mistake("both", "", sum((MISTAKES[name].changes for name in names), ()))
    verdict = mine(kill.planted_step(case, both))
    assert {cause for finding in verdict.findings for cause in finding.cause} == set(names)


# ---- a stranger's mistakes ----------------------------------------------------------------------

_SCALE = "/ (D // HEADS) ** 0.5\n    d"
STRANGERS = {
    "softmax backward entry by entry": ("a * (da - (da * a).sum(-1, keepdims=True))", "a * (1 - a) * da"),
    "softmax backward without its sum": ("(da - (da * a).sum(-1, keepdims=True))", "da"),
    "γ outside the two means": ("d = dy * g\n    dx = r * (d", "d = dy\n    dx = g * r * (d"),
    "the mean of dx̂ not taken away": ("(d - d.mean(-1, keepdims=True) - hat", "(d - hat"),
    "rows flattened before a norm's backward": (
        "d.mean(-1, keepdims=True) - hat * (d * hat).mean(-1, keepdims=True)", "d.mean() - hat * (d * hat).mean()",
    ),
    "the variance divided by n − 1": ("((x - mean) ** 2).mean(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)"),
    "dγ averaged over the rows": ("(dy * hat).sum((0, 1))", "(dy * hat).mean((0, 1))"),
    "1/√d_k missing in dK": ('np.einsum("bhts,tbhd->sbhd", ds, q)', 'np.einsum("bhts,tbhd->sbhd", ds, q) * (D // HEADS) ** 0.5'),
    "1/√d_k applied twice": (_SCALE, "/ (D // HEADS)\n    d"),
    "dS for dSᵀ in dK": ('np.einsum("bhts,tbhd->sbhd", ds, q)', 'np.einsum("bhts,sbhd->tbhd", ds, q)'),
    "the causal mask one place too late": ("np.tri(T, dtype=bool)", "np.tri(T, k=1, dtype=bool)"),
    "the causal mask forgotten": ("np.tri(T, dtype=bool)", "np.ones((T, T), dtype=bool)"),
    "pre-norm: the residual path around attention dropped": ("gb, s2), s1)\n        dx = dx + d", "gb, s2), s1)\n        dx = d"),
    "a repeated token's gradient overwritten, time first": ('np.add.at(g["wte"], tokens, dx)', 'g["wte"][tokens] += dx'),
    "p for p − q": ("    dz[right] -= 1\n", ""),
    "the loss's mean forgotten": ("dz / targets.size", "dz"),
    "GELU's slope taken for Φ(x)": (" + 0.5 * x * (1 - t**2) * 0.7978845608 * (1 + 3 * 0.044715 * x**2)", ""),
    "Adam without bias correction": ("(m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)", "m / (np.sqrt(v) + 1e-8)"),
    "Adam: t stays at 1": ("m, v, 2)\n", "m, v, 1)\n"),
}  # fmt: skip


@pytest.mark.parametrize("cause", STRANGERS)
def test_a_strangers_mistake_is_named_in_float32(cause):
    verdict = mine(gpt(STRANGERS[cause]).step)
    assert not verdict and cause in verdict.findings[0].cause, verdict


def test_what_is_in_no_catalogue_is_placed_and_not_called_right():
    """A sum that leaves out half of the numbers: the stage is the right one, and no more than that is said."""
    verdict = mine(gpt(("dh.sum((0, 1))", "dh[::2].sum((0, 1))")).step)
    assert not verdict and verdict.findings[0].stage == "the gradient of block.1.feed_forward.b_1" and not verdict.findings[0].mistake


def test_a_loss_divided_by_something_else_is_told_as_a_multiple():
    double = ".astype(np.float32)", ""
    finding = mine(gpt(double, ("-np.log(p[right]).mean()", "-np.log(p[right]).sum() / targets.shape[1]")).step).findings[0]  # time first: 15 words, 3 rows
    assert finding.stage == "the loss" and finding.how == "5 times what it should be"


# ---- right in another way -----------------------------------------------------------------------


def drawn(**choices):
    """A stack of random weights of these choices."""
    config = Config(d_model=6, n_heads=2, d_ff=5, n_layers=2, source_vocab=1, target_vocab=7, **choices)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(1.2 if name.endswith("gamma") else 0, 0.5, shape) for name, shape in decoder_shapes(config).items()}
    return replace(kill.tied_stack(), config=config, params=params)


def plain_descent(case):
    whole = kill.planted_step(case, NOTHING)
    return lambda tokens, targets: (found := whole(tokens, targets)) | dict(
        params_1={n: found["params"][n] - 0.1 * found["gradients"][n] for n in found["params"]}, params_2={}
    )


def turned(case):
    """Matrices as (out, in), logits time first, names as in PyTorch, in lists, norms counted from 0."""
    whole = kill.planted_step(case, NOTHING)

    def theirs(arrays):
        blocks = []
        for i in range(case.config.n_layers):
            own = {n.removeprefix(f"block.{i}."): a for n, a in arrays.items() if n.startswith(f"block.{i}.")}
            attn = {f"{x}_proj": {"weight": own[f"attention.w_{x[0]}"].T} for x in "qkvo"}
            mlp = {f"fc{k}": {"weight": own[f"feed_forward.w_{k}"].T, "bias": own[f"feed_forward.b_{k}"]} for k in (1, 2)}
            norms = {f"ln{k - 1}": {"weight": own[f"norm_{k}.gamma"], "bias": own[f"norm_{k}.beta"]} for k in (1, 2)}
            blocks.append(dict(self_attn=attn, mlp=mlp, **norms))
        ends = {"head": {"weight": arrays["output.w"].T, "bias": arrays["output.b"]}, "ln_f": {"weight": arrays["norm.gamma"], "bias": arrays["norm.beta"]}}
        return {"tok_emb": arrays["embedding"], "layers": blocks, **ends}

    def run(tokens, targets):
        found = whole(tokens, targets)
        named = {part: theirs(found[part]) for part in ("params", "gradients", "params_1", "params_2")}
        return found | named | dict(logits=found["logits"].swapaxes(0, 1))

    return run


class Model:
    """Keeps its parameters, and changes them as it learns."""

    def __init__(self, case):
        self.params, self.whole = copy.deepcopy(case.params), kill.planted_step(case, NOTHING)

    def __call__(self, tokens):
        raise NotImplementedError("a model can be called too; what is asked is its step")

    def step(self, tokens, targets):
        before, found = copy.deepcopy(self.params), self.whole(tokens, targets)
        for name in self.params:
            self.params[name] -= 0.1 * found["gradients"][name]
        return dict(params=before, logits=found["logits"], grads=found["gradients"], after_1=self.params)


def by_pytorch(decoder=True):
    """The torch floor, by autograd and torch.optim."""
    import torch

    from byhand.torch.decoder import Decoder
    from byhand.torch.loss import cross_entropy

    case = drawn(norm="pre", tied=False)

    def run(tokens, targets):
        module = Decoder(case.config).double()
        module.load_params(case.params)
        adam = torch.optim.Adam(module.parameters(), lr=3e-3)
        found = {"params": copy.deepcopy(dict(module.named_parameters()))}
        for number in (1, 2):
            adam.zero_grad()
            logits = module(tokens)
            value = cross_entropy(logits, torch.as_tensor(targets))
            value.backward()
            if number == 1:
                found |= dict(logits=logits, loss=value, gradients={n: p.grad.clone() for n, p in module.named_parameters()})
            adam.step()
            found[f"params_{number}"] = copy.deepcopy(dict(module.named_parameters()))
        return found

    return run


def torchs_own():
    """nn.Transformer between two tables and an output layer, ten lines of glue: packed projections, biases, (out, in), time first or not."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    table, target, output = nn.Embedding(7, 8), nn.Embedding(9, 8), nn.Linear(8, 9)
    model = nn.Transformer(8, 2, 2, 2, 12, dropout=0.0, batch_first=True)
    model.encoder.norm = model.decoder.norm = None
    whole = nn.ModuleDict(dict(source=table, target=target, transformer=model, output=output)).double()

    def run(source, decoder_input, targets):
        whole.zero_grad()
        causal = nn.Transformer.generate_square_subsequent_mask(decoder_input.shape[1], dtype=torch.float64)
        z = output(model(table(torch.tensor(source)), target(torch.tensor(decoder_input)), tgt_mask=causal))
        value = nn.functional.cross_entropy(z.flatten(0, 1), torch.tensor(targets).flatten(), label_smoothing=0.1)
        value.backward()
        return dict(params=whole, logits=z, loss=value)

    return run


def published(kind):
    """A tiny GPT-2, Llama or Marian of transformers, with random weights."""
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=11, n_positions=12, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        model = transformers.GPT2LMHeadModel(config).double()
    elif kind == "marian":
        config = transformers.MarianConfig(
            vocab_size=11, d_model=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=12,
            decoder_ffn_dim=12, activation_function="relu", scale_embedding=True, dropout=0, pad_token_id=0, eos_token_id=0, decoder_start_token_id=0,
        )  # fmt: skip
        model = transformers.MarianMTModel(config).double()
        model.model.shared.padding_idx = model.model.encoder.embed_tokens.padding_idx = model.model.decoder.embed_tokens.padding_idx = None
    else:
        config = transformers.LlamaConfig(
            vocab_size=11, hidden_size=8, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
        )
        model = transformers.LlamaForCausalLM(config)  # in float64 its norms and angles stay in float32
    with torch.no_grad():
        for p in filter(lambda p: p.requires_grad, model.parameters()):
            p.add_(0.3 * torch.randn_like(p))

    def run(tokens, targets, **more):
        model.zero_grad()
        z = model(torch.tensor(tokens), **more).logits
        value = torch.nn.functional.cross_entropy(z.flatten(0, 1), torch.tensor(targets).flatten())
        value.backward()
        return dict(params=model, logits=z, loss=value)

    if kind != "marian":
        return lambda tokens, targets: run(tokens, targets)
    return lambda source, decoder_input, targets: run(source, targets, decoder_input_ids=torch.tensor(decoder_input))


def whole(**choices):
    return kill.planted_step(drawn(**choices), NOTHING)


def pair(**choices):
    """An encoder-decoder of these choices."""
    case = kill.uneven()
    config = replace(case.config, **dict(target_vocab=8) | choices)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(1.2 if name.endswith("gamma") else 0, 0.5, shape) for name, shape in encoder_decoder_shapes(config).items()}
    return kill.planted_step(replace(case, config=config, params=params), NOTHING)


def single(case, lr=0.01):
    return kill.planted_step(replace(case, params={n: a.astype(np.float32) for n, a in case.params.items()}), NOTHING, lr=lr)


RIGHT = {
    "encoder-decoder": lambda: kill.planted_step(kill.uneven(), NOTHING),
    "encoder-decoder, tied": lambda: kill.planted_step(kill.uneven(tied=True), NOTHING),
    "encoder-decoder, float32": lambda: single(kill.uneven()),
    "Llama's choices": lambda: kill.planted_step(toy.decoder(), NOTHING),
    "Llama's choices, float32": lambda: single(toy.decoder()),
    "RoPE by halves": lambda: whole(norm="pre", positions="rope", pairing="half", d_k=4),
    "float32, moves hardly larger than rounding": lambda: single(kill.tied_stack(), lr=1e-6),
    "embedding not scaled": lambda: whole(norm="pre", scaled=False),
    "sines by halves": lambda: whole(norm="pre", pairing="half"),
    "learned positions, biases everywhere": lambda: whole(
        norm="pre", positions="learned", max_length=6, biases=("attention", "feed_forward", "output"), tied=True),
    "no biases": lambda: whole(norm="pre", biases=()),
    "one table for both languages, and the output": lambda: pair(shared=True, tied=True, source_vocab=8, pairing="half", biases=("attention",)),
    "learned positions on both sides": lambda: pair(positions="learned", max_length=7, scaled=False),
    "GPT-2's choices": lambda: kill.planted_step(kill.tied_stack(), NOTHING),
    "post-norm, ReLU": lambda: whole(norm="post", activation="relu"),
    "exact GELU": lambda: whole(norm="pre", activation="gelu"),
    "no positions": lambda: whole(norm="pre", positions="none"),
    "another ε": lambda: whole(norm="pre", eps=1e-6),
    "three layers of RMS norm": lambda: whole(norm="pre", norm_kind="rms", activation="swiglu"),
    "turned, time first, in lists": lambda: turned(drawn(norm="pre")),
    "plain descent": lambda: plain_descent(drawn(norm="pre")),
    "an object that learns": lambda: Model(drawn(norm="pre")),
    "a stranger's GPT": lambda: gpt().step,
    "a stranger's GPT in float64": lambda: gpt((".astype(np.float32)", "")).step,
    "the torch floor": by_pytorch,
    "nn.Transformer": torchs_own,
    "a published GPT-2": lambda: published("gpt2"),
    "a published Llama": lambda: published("llama"),
    "a published Marian": lambda: published("marian"),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_right_in_another_way_is_called_right(kind):
    verdict = mine(RIGHT[kind]())
    assert verdict and not verdict.findings, verdict
    assert "0 of" not in verdict.coverage


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
def test_no_false_alarm_on_twenty_seeds(seed):
    wrong = [kind for kind, make in RIGHT.items() if not mine(make(), seed=seed)]
    assert not wrong


def test_activations_under_other_names_in_any_layout_are_found():
    """Time first; the features first, before the batch or before the time; the last two the other way round."""
    case, layouts = drawn(norm="pre"), ((1, 0), (2, 0, 1), (1, 2, 0), (0, 2, 1))
    theirs = kill.planted_step(case, NOTHING, stages=True)

    def run(tokens, targets):
        found, laid_out = theirs(tokens, targets), {}
        for i, (name, array) in enumerate(found["activations"].items()):
            order = layouts[i % 4] if array.ndim > 2 else ()
            laid_out[f"mine {i}" if i % 2 else name] = np.moveaxis(array, order, range(len(order)))
        return found | dict(activations=laid_out)

    verdict = mine(run)
    assert verdict and "50 of 50 activations" in verdict.coverage and "your logits." in verdict.coverage, verdict.coverage


# ---- mutations outside the catalogue ------------------------------------------------------------

ROOMS = (norm, softmax, attention, linear, feed_forward, embedding, layers, loss, optimizer)
_OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.MatMult: ast.Mult}


def mutation(rng):
    """One operator or one number of a random function of the step, changed."""
    functions = [f for room in ROOMS for f in vars(room).values() if inspect.isfunction(f) and f.__module__ == room.__name__ and "check" not in f.__name__]
    while True:
        function = functions[rng.integers(len(functions))]
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
        body = tree.body[0].body
        nodes = [n for part in body for n in ast.walk(part) if isinstance(n, (ast.BinOp, ast.Compare)) or type(getattr(n, "value", "")) in (int, float)]
        if not nodes:
            continue
        node = nodes[rng.integers(len(nodes))]
        if isinstance(node, ast.Constant):
            node.value = node.value + 1
        else:
            operator = node.op if isinstance(node, ast.BinOp) else node.ops[0]
            other = _OTHER.get(type(operator))
            if other is None:
                continue
            if isinstance(node, ast.BinOp):
                node.op = other()
            else:
                node.ops[0] = other()
        return Mistake(f"a mutation of {function.__name__}", ast.unparse(tree), (Change(function, source, ast.unparse(tree) + "\n"),))


def is_called_right_without_being_so(mutant, case):
    """False, too, where the mutant does not run."""
    seen = []
    wrong, right = kill.planted_step(case, mutant), kill.planted_step(case, NOTHING)

    def of_tokens(tokens, targets):
        seen.append((tokens, targets))
        return wrong(tokens, targets)

    def of_pairs(source, decoder_input, targets):
        seen.append((source, decoder_input, targets))
        return wrong(source, decoder_input, targets)

    theirs = of_tokens if case.source is None else of_pairs
    stated = {name: getattr(case.config, name) for name in ("n_heads", "norm", "norm_kind", "activation", "positions", "eps")}
    stated |= dict(scaled=True, pairing="interleaved", reduction="mean", smoothing=case.smoothing)
    if not mine(theirs, optimizer=dict(lr=0.01, betas=(0.9, 0.98), eps=1e-9), **stated):
        return False
    found, wanted = wrong(*seen[-1]), right(*seen[-1])
    pairs = [(found[part][n], wanted[part][n]) for part in ("gradients", "params_1", "params_2") for n in wanted[part]]
    return not all(np.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in [*pairs, (found["logits"], wanted["logits"])])


def mutants(first, count):
    rng = np.random.default_rng(first)
    for i in range(count):
        case = (kill.uneven(), toy.decoder(), kill.tied_stack())[i % 3]
        mutant = mutation(rng)
        try:
            if is_called_right_without_being_so(mutant, case):
                yield mutant.name, mutant.why
        except (ZeroDivisionError, TypeError, NameError, SyntaxError):  # the mutant is no program
            continue


def test_no_mutation_is_called_right_by_mistake(computed_once):
    assert not list(mutants(0, 8))


@pytest.mark.slow
def test_none_of_a_hundred_mutations_is_called_right_by_mistake(computed_once):
    assert not list(mutants(1, 100))


# ---- whatever a reader's code does --------------------------------------------------------------


def returned(value):
    return lambda tokens, targets: value


W = {"params": {"emb": np.ones((3, 2))}}


@pytest.mark.parametrize(
    "theirs, words",
    [
        (returned(None), "it returned nothing"),
        (returned(3), "it returned int"),
        (returned({}), "an empty dict"),
        (returned({"weights_of_mine": 1}), "weights_of_mine"),
        (returned({"logits": [1.0, 2.0]}), "it returned no params"),
        (returned({"params": {"emb": "abc"}, "loss": object()}), "object"),
        (returned({"params": np.ones(3)}), "params was one array"),
        (returned({"params": {"emb": np.ones((3, 2))}, "logits": {"a": np.ones(2), "b": np.ones(2)}}), "logits held 2 arrays"),
        (returned(W), "none of its parameters looks like block.0.attention.w_q"),
        (lambda tokens, targets: 1 / 0, "ZeroDivisionError"),
        (lambda tokens, targets: tokens.__setitem__(..., 0) or W, "it changes the tokens that it is given, in place"),
        (lambda tokens: W, "it takes 1 arrays of tokens"),
    ],
)
def test_what_cannot_be_checked_is_said_in_words(theirs, words):
    verdict = mine(theirs)
    assert not verdict and words in verdict.title and verdict.data()["right"] is None


def test_what_is_not_finite_random_or_changed_in_place_is_said_in_words():
    assert "loss was nan; every number must be finite" in mine(gpt(("value = -np.log(p[right]).mean()", "value = np.nan"),).step).title
    noisy = gpt(("    e = np.exp(s", "    s = s + np.random.normal(size=s.shape)\n    e = np.exp(s"))
    assert "another one when it is called again" in mine(noisy.step).title
    inplace = gpt(("return w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)", "w -= lr * m / (np.sqrt(v) + 1e-8)\n        return w"))
    assert "changes the weights in place" in mine(inplace.step).title


def test_parameters_and_a_configuration_handed_in():
    case = drawn(norm="pre")

    def theirs(tokens, targets, params, config, lengths=None):
        run = step.run(replace(case, config=config, params=params, decoder_input=tokens, targets=targets, target_lengths=lengths))
        return dict(logits=run.output.logits, loss=run.loss, gradients=run.gradients.params)

    def in_place(tokens, targets, params, config):
        found = theirs(tokens, targets, params, config)
        params["embedding"] -= 0.1 * found["gradients"]["embedding"]
        return found

    assert mine(theirs, params=case.params, config=case.config)
    assert "it changes the params that it is given, in place" in mine(in_place, params=case.params, config=case.config).title
    assert "none were given" in mine(lambda tokens, targets, params=None: {"loss": 1.0}).title


def test_a_token_is_repeated_in_the_source_and_in_the_target():
    seen, theirs = [], pair(source_vocab=99, target_vocab=98)

    def step(source, decoder_input, targets):
        if len(source) > 1:
            seen.extend((source[0], decoder_input[0]))
            raise NotImplementedError("the tokens are enough")
        return theirs(source, decoder_input, targets)

    assert not mine(step) and seen and all(len(np.unique(row)) < len(row) for row in seen)


def test_the_line_that_raised_is_shown():
    title = mine(gpt(("mixed @ w", "mixed @ w.T @ w")).step).title
    assert "AttributeError" in title


def test_an_object_that_claims_to_equal_everything_does_not_pass():
    class Liar(np.ndarray):
        def __eq__(self, other):
            return np.ones(self.shape, bool)

        def __sub__(self, other):
            return np.zeros(self.shape)

    def step(tokens, targets):
        found = whole(norm="pre")(tokens, targets)
        return found | {"gradients": {name: (3 * grad).view(Liar) for name, grad in found["gradients"].items()}}

    assert not mine(step)


def test_nothing_compared_is_no_pass_and_what_is_not_compared_is_said():
    verdict = mine(lambda tokens, targets: {"params": whole(norm="pre")(tokens, targets)["params"]})
    assert not verdict and "no verdict" in verdict.title and "not compared: activations, the logits, the loss, gradients, any update" in verdict.coverage
    verdict = mine(kill.planted_step(drawn(norm="pre"), NOTHING))
    assert "28 of 28 gradients" in verdict.coverage and "not compared: activations." in verdict.coverage or "gradients" in verdict.coverage


def test_a_blind_loss_gives_gradients_too_small_to_tell():
    case = drawn(norm="pre")
    blind = replace(case, params=case.params | {"output.w": 0 * case.params["output.w"], "output.b": 0 * case.params["output.b"] + 1e-9})
    verdict = mine(kill.planted_step(blind, NOTHING), smoothing=0.0, reduction="mean")
    assert all(row.holds is not True or row.worst is not None or "parameters after" in row.name for row in verdict.rows)


def test_a_star_in_a_name_stands_for_the_layers_number():
    whole = kill.planted_step(drawn(norm="pre"), NOTHING)

    def oddly(arrays):
        return {re.sub(r"block\.(\d)\.attention\.w_q", lambda found: f"stack.{int(found[1]) + 3}.ask", name): a for name, a in arrays.items()}

    def theirs(tokens, targets):
        found = whole(tokens, targets)
        return {part: oddly(found[part]) if part in ("params", "gradients") else found[part] for part in ("params", "gradients", "logits", "loss")}

    assert mine(theirs, names={"stack.*.ask": "block.*.attention.w_q"})
    assert "names held 'stock.*.ask', which is none of its parameters" in mine(theirs, names={"stock.*.ask": "block.*.attention.w_q"}).title


def test_what_can_be_stated_and_what_cannot():
    with pytest.raises(ValueError, match="'n_head' was stated; what can be stated is n_heads"):
        mine(gpt().step, n_head=2)
    assert "4 heads" not in "; ".join(mine(gpt().step, n_heads=2, norm="pre", activation="gelu_tanh", scaled=False).worked_out)
    odd = gpt(("wte=draw(VOCAB, D), wpe=draw(TIME, D)", "a=draw(VOCAB, D), wpe=draw(TIME, D)"))
    assert not mine(odd.step)


# ---- how it is told -----------------------------------------------------------------------------


def test_the_verdict_in_text_table_and_json():
    verdict = mine(gpt(STRANGERS["γ outside the two means"]).step)
    text = repr(verdict)
    wanted = ["Not right:", "First to differ: the gradient of", "Likely cause: γ outside the two means", "dnormalised = dy * gamma", "Worked out:"]
    wanted += ["step/18-layer-norm-backward", "nothing else in them is wrong", "The smallest example found: tokens [[", "Compared: the logits"]
    assert not [words for words in wanted if words not in text]
    assert "<table" in verdict._repr_mimebundle_()["text/html"]
    data = json.loads(verdict.json())
    assert data["right"] is False and data["findings"][0]["cause"][0] == "γ outside the two means" and data["findings"][0]["page"]
    assert json.loads(mine(gpt().step).json())["right"] is True


def test_from_the_command_line(tmp_path):
    def run(file, *options):
        return subprocess.run([sys.executable, "-m", "byhand", "check", file, *options], capture_output=True, text=True, timeout=120)

    right = run(f"{GPT}:step", "n_heads=2", "--json")
    assert right.returncode == 0 and json.loads(right.stdout)["right"] is True, right.stderr
    forever = "\n\ndef forever(tokens, targets):\n    while True:\n        pass\n"
    (tmp_path / "mine.py").write_text(GPT.read_text("utf-8").replace("dz / targets.size", "dz") + forever)
    wrong = run(f"{tmp_path / 'mine.py'}:step")
    assert wrong.returncode == 1 and "the loss's mean forgotten" in wrong.stdout
    forever = run(f"{tmp_path / 'mine.py'}:forever", "--timeout", "2")
    assert forever.returncode == 2 and "it had not returned after 2 s" in forever.stdout
    assert run("no_such_file.py:step").returncode == 2
