"""The book's own step under a reader's conventions: which ones they are is worked out from the numbers, or stated."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from byhand import toy
from byhand.config import Config
from byhand.numpy import attention, heads, layers, position, step
from byhand.parameters import decoder_shapes, encoder_decoder_shapes

from .measure import Difference, difference
from .mistakes import CONVENTIONS
from .plant import Mistake
from .reader import Unreadable

Array = np.ndarray
Arrays = dict[str, Array]
UNSCALED, HALVES = CONVENTIONS
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 0.0, 1e-3)
RIGHT = Mistake("", "", ())


class Reference(NamedTuple):
    """The step in our names. params: every parameter that the config has; extra: attention's biases, by our names, and learned positions.

    absent: parameters that the reader's model has not, which stand at 0 here. sines: "interleaved" or "half".
    """

    config: Config
    params: Arrays
    extra: Arrays
    absent: frozenset[str] = frozenset()
    conventions: tuple[str, ...] = ()
    sines: str = "interleaved"
    reduction: str = "mean"
    smoothing: float = 0.0

    def run(self, batch: "Batch", mistake: Mistake = RIGHT, only: int | None = None, params: Arrays | None = None, dtype=np.float64) -> Arrays:
        """logits, loss, every activation as "a:…", every parameter's gradient as "d:…", of the gradient's stages none but what these need

        Raises ValueError where the wrong code does not run, or the mistake's line is not there under these conventions.
        """
        mine = {name: array.astype(dtype) for name, array in {**self.params, **self.extra, **(params or {})}.items()}
        weights, extra = {n: mine[n] for n in self.params}, {n: mine[n] for n in self.extra}
        case = toy.Case(
            self.config, weights, batch.source, batch.decoder_input, batch.targets, batch.source_lengths, batch.target_lengths,
            self.reduction, self.smoothing, {},
        )  # fmt: skip
        changes = sum((CONVENTIONS[name].changes for name in self.conventions), ())
        one = mistake if only is not None else RIGHT  # where every call is changed, both are one change, as they may meet in one function
        whole = Mistake("", "", changes + (mistake.changes if only is None else ()))
        with _with(extra, weights, self.sines), whole.planted(), one.planted(only), np.errstate(all="ignore"):
            found = step.run(case)
        arrays = {f"a:{name}": value for name, value in found.output.activations.items() if name != "logits"}
        arrays |= {"logits": found.output.logits, "loss": np.array(found.loss)}
        grads = found.gradients.params | _extra_gradients(extra, found.gradients.stages, self.config)
        return arrays | {f"d:{name}": grads[name] for name in self.order() if name in grads}

    def order(self) -> list[str]:
        """The parameters in the order in which a backward pass reaches them."""
        names = list(reversed(encoder_decoder_shapes(self.config) if "source_embedding" in self.params else decoder_shapes(self.config)))
        for name in self.extra:
            names.insert(names.index(name.replace(".b_", ".w_")) if ".b_" in name else len(names), name)
        return [name for name in names if name not in self.absent]


class Batch(NamedTuple):
    source: Array | None
    decoder_input: Array
    targets: Array
    source_lengths: Array | None = None
    target_lengths: Array | None = None

    def arguments(self) -> list[Array]:
        """As a step takes them."""
        return [array for array in (self.source, self.decoder_input, self.targets) if array is not None]

    def lengths(self) -> dict[str, Array]:
        named = {"source_lengths": self.source_lengths, "target_lengths": self.target_lengths, "lengths": self.target_lengths}
        return {name: value for name, value in named.items() if value is not None}


@contextmanager
def _with(extra, weights, sines) -> Iterator[None]:
    """Attention's biases and a table of positions, for as long as the block lasts."""
    plain_linear, plain_sines = attention.linear, layers._first_sinusoids
    biases = {id(weights[name.replace(".b_", ".w_")]): bias for name, bias in extra.items() if ".b_" in name}

    def table(length, d_model, dtype):
        if "positions" in extra:
            return extra["positions"][:length]
        waves = position.sinusoids(np.arange(length), d_model)
        return np.concatenate((waves[:, 0::2], waves[:, 1::2]), axis=1).astype(dtype)

    if biases:
        attention.linear = lambda x, w, b=None: plain_linear(x, w, biases.get(id(w), b))
    if "positions" in extra or sines == "half":
        layers._first_sinusoids = table
    try:
        yield
    finally:
        attention.linear, layers._first_sinusoids = plain_linear, plain_sines


def _extra_gradients(extra, stages, config):
    """A bias's gradient is what arrives where it was added, summed over the places; a position's, over the batch."""
    grads = {}
    for name, value in extra.items():
        if name == "positions":
            rows = sum(array.sum(axis=0) if len(array) else 0 for stage, array in stages.items() if stage == "input")
            grads[name] = np.zeros_like(value)
            grads[name][: len(rows)] = rows
            continue
        room, _, letter = name.rpartition(".b_")
        stage = f"{room}.{letter}_unrotated" if config.positions == "rope" and letter in "qk" else f"{room}.{'out' if letter == 'o' else letter}"
        arrived = stages[stage]
        grads[name] = (arrived if letter == "o" else heads.merge_heads(arrived)).reshape(-1, value.size).sum(axis=0)
    return grads


# ---- which conventions --------------------------------------------------------------------------


def candidates(ours: Arrays, has_source: bool, stated: Mapping[str, Any]) -> Iterator[Reference]:
    """Every reference that the parameters' names and shapes leave open, the likelier first; stated: fields of Config, scaled, pairing, sines.

    Raises Unreadable where a parameter is missing that every such model has.
    """
    first = "encoder.0.self_attention" if has_source else "block.0.attention"
    needed = [f"{first}.w_q", f"{first}.w_k", f"{first}.w_v", f"{first}.w_o", f"{first.rpartition('.')[0]}.feed_forward.w_1"]
    missing = [name for name in needed if name not in ours]
    if missing:
        raise Unreadable(f"none of its parameters looks like {missing[0]}; say which it is, as names={{…: {missing[0]!r}}}")
    table = ours["target_embedding" if has_source else "embedding"]
    vocab, d = table.shape
    layer = "encoder" if has_source else "block"
    n_layers = len({name.split(".")[1] for name in ours if name.startswith(f"{layer}.")})
    widths = [ours[f"{first}.{w}"].shape[1] for w in ("w_q", "w_k", "w_v")]
    learned, has_norm, has_beta = "positions" in ours, "norm.gamma" in ours, any(name.endswith("beta") for name in ours)
    fields = dict(
        d_model=d, d_ff=ours[f"{needed[4]}"].shape[1], n_layers=n_layers, target_vocab=vocab,
        source_vocab=len(ours["source_embedding"]) if has_source else 1, tied="output.w" not in ours,
    )  # fmt: skip

    def options(name, found):
        return (stated[name],) if name in stated else found

    heads = [h for h in (2, 4, 3, 8, 1, 6, 12, 16, *range(5, 129)) if widths[0] % h == 0 and widths[1] % (widths[0] // h) == 0]
    kinds = ("layer",) if has_beta or has_source else ("rms", "layer")
    places = ("post",) if has_source else ("pre",) if has_norm else ("post",)
    bends = ("swiglu",) if f"{first.rpartition('.')[0]}.feed_forward.w_3" in ours else ("relu",) if has_source else ("gelu_tanh", "relu", "gelu")
    waves = [("sinusoidal", "", "interleaved")] if learned else [("none", "", ""), ("sinusoidal", "", "interleaved"), ("sinusoidal", "", "half")]
    if not has_source and not learned:
        waves += [("rope", "interleaved", ""), ("rope", "half", "")]
    for n_heads in dict.fromkeys(options("n_heads", heads)):
        d_k = widths[0] // n_heads
        n_kv = widths[1] // d_k
        for kind in options("norm_kind", kinds):
            for place in options("norm", places):
                for bend in options("activation", bends):
                    for where, pairing, sines in waves:
                        said = {"positions": where, "pairing": pairing, "sines": sines}
                        if not learned and any(value and stated.get(key, value) != value for key, value in said.items()):
                            continue
                        for scaled in options("scaled", (True, False) if has_source or where == "sinusoidal" and not learned else (False, True)):
                            conventions = (UNSCALED,) * (not scaled) + (HALVES,) * (pairing == "half")
                            how = fields | dict(
                                n_heads=n_heads, n_kv_heads=n_kv, d_k=d_k, d_v=widths[2] // n_kv, norm=place, norm_kind=kind, activation=bend,
                                positions=where, eps=stated.get("eps", EPSILONS[0]),
                            )  # fmt: skip
                            found = _reference(how, ours, has_source, conventions, sines)
                            if found:
                                yield found


def _reference(how, ours, has_source, conventions, sines):
    """The reference, with 0 for what the reader has not; None where that configuration is none, or cannot hold what there is."""
    try:
        config = Config(**how)
        shapes = encoder_decoder_shapes(config) if has_source else decoder_shapes(config)
    except ValueError:
        return None
    extra = {name: value for name, value in ours.items() if name == "positions" or ".b_" in name and "attention" in name}
    if any(name not in shapes and name not in extra for name in ours):
        return None
    absent = frozenset(name for name in shapes if name not in ours)
    if any(not name.endswith((".b_1", ".b_2", ".beta", "output.b")) for name in absent):
        return None
    params = {name: ours[name] if name in ours else np.zeros(shape) for name, shape in shapes.items()}
    if any(params[name].shape != shape for name, shape in shapes.items()):
        return None
    return Reference(config, params, extra, absent, conventions, sines or "interleaved")


def with_eps(reference: Reference, eps: float) -> Reference:
    return reference._replace(config=dataclasses.replace(reference.config, eps=eps))


def described(reference: Reference, has_source: bool) -> list[str]:
    """The conventions in words."""
    config = reference.config
    heads = f"{config.n_heads} heads" + (f", {config.n_kv_heads} of keys and values" if config.n_kv_heads != config.n_heads else "")
    norm = f"{'layer' if config.norm_kind == 'layer' else 'RMS'} norm {'in front (pre)' if config.norm == 'pre' else 'behind the addition (post)'}"
    pairs = "(i, i + d/2)" if HALVES in reference.conventions else "(2i, 2i + 1)"
    positions = {"sinusoidal": f"sines, {reference.sines}", "rope": f"RoPE, pairs {pairs}"}
    scale = "not scaled" if UNSCALED in reference.conventions else "scaled by √d"
    words = [heads, f"{norm}, ε = {config.eps:g}", config.activation, f"embedding {scale}"]
    words.append("learned positions" if "positions" in reference.extra else positions.get(config.positions, "no positions"))
    words.append("tied output layer" if config.tied else "an output layer of its own")
    biases = sorted({name.rpartition(".")[2] for name in reference.extra if ".b_" in name})
    if biases:
        words.append(f"biases in attention ({', '.join(biases)})")
    lacking = sorted({".".join(name.split(".")[-2:]) for name in reference.absent})
    if lacking:
        words.append(f"without {', '.join(lacking)}")
    smooth = f", label smoothing {reference.smoothing:g}" if reference.smoothing else ""
    return [*words, f"loss: {'the last positions, averaged' if reference.reduction == 'last' else reference.reduction}{smooth}"]


def apart(mine: Array, right: Array, name: str = "array") -> Difference | None:
    """Their difference; None where the shapes are not the same."""
    return difference(mine, right, name) if mine.shape == right.shape and mine.size else None
