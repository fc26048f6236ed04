"""The book's own step under a reader's conventions: which ones they are is worked out from the numbers, or stated."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from byhand.config import BIASES, Config
from byhand.numpy import decoder, loss, transformer
from byhand.numpy.passes import Output
from byhand.parameters import decoder_shapes, encoder_decoder_shapes, shapes_of
from byhand.record import Record

from .measure import Difference, difference
from .plant import Mistake
from .reader import Unreadable

Array = np.ndarray
Arrays = dict[str, Array]
EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 0.0, 1e-3)
RIGHT = Mistake("", "", ())


class Reference(NamedTuple):
    """The step in our names; absent: parameters that the reader's model has not, which stand at 0 here."""

    config: Config
    params: Arrays
    absent: frozenset[str] = frozenset()
    reduction: str = "mean"
    smoothing: float = 0.0

    def run(self, batch: "Batch", mistake: Mistake = RIGHT, only: tuple[int, ...] | None = None, dtype=np.float64) -> Arrays:
        """logits, loss, every activation as "a:…", every parameter's gradient as "d:…"

        Raises ValueError where the wrong code does not run.
        """
        params = {name: array.astype(dtype, copy=False) for name, array in self.params.items()}
        with mistake.planted(only), np.errstate(all="ignore"):
            return self._backward(batch, self._forward(batch, params))

    def forward(self, batch: "Batch", mistake: Mistake = RIGHT, params: Arrays | None = None) -> Output:
        """The forward pass alone, with these weights in place of its own."""
        with mistake.planted(), np.errstate(all="ignore"):
            return self._forward(batch, {**self.params, **(params or {})})

    def backward(self, batch: "Batch", output: Output, mistake: Mistake = RIGHT, only: tuple[int, ...] | None = None) -> Arrays:
        """What `run` gives, from a forward pass that was made."""
        with mistake.planted(only), np.errstate(all="ignore"):
            return self._backward(batch, output)

    def _forward(self, batch, params):
        if batch.source is None:
            return decoder.forward(params, self.config, batch.decoder_input, lengths=batch.target_lengths, record=Record())
        inputs = batch.source, batch.decoder_input, batch.source_lengths, batch.target_lengths
        return transformer.forward(params, self.config, *inputs, record=Record())

    def _backward(self, batch, output):
        model = decoder if batch.source is None else transformer
        value, dlogits = loss.cross_entropy(output.logits, batch.targets, self.smoothing, lengths=batch.target_lengths, reduction=self.reduction)
        grads = model.backward(dlogits, output.cache)
        return going_forward(output) | {"loss": np.array(value)} | {f"d:{name}": grads[name] for name in self.order() if name in grads}

    def order(self) -> list[str]:
        """The parameters in the order in which a backward pass reaches them."""
        return [name for name in reversed(self.params) if name not in self.absent]


def going_forward(output: Output) -> Arrays:
    """Activations and logits."""
    return {f"a:{name}": value for name, value in output.activations.items() if name != "logits"} | {"logits": output.logits}


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


# ---- which conventions --------------------------------------------------------------------------


def candidates(ours: Arrays, has_source: bool, stated: Mapping[str, Any]) -> Iterator[Reference]:
    """Every reference that the parameters' names and shapes leave open, the likelier first; stated: fields of Config.

    Raises Unreadable where a parameter is missing that every such model has.
    """
    first = "encoder.0.self_attention" if has_source else "block.0.attention"
    feed_forward = f"{first.rpartition('.')[0]}.feed_forward"
    needed = [f"{first}.w_q", f"{first}.w_k", f"{first}.w_v", f"{first}.w_o", f"{feed_forward}.w_1"]
    missing = [name for name in needed if name not in ours]
    if missing:
        raise Unreadable(f"none of its parameters looks like {missing[0]}; say which it is, as names={{…: {missing[0]!r}}}")
    shared = has_source and "embedding" in ours
    vocab, d = ours["target_embedding" if has_source and not shared else "embedding"].shape
    layer = "encoder" if has_source else "block"
    widths = [ours[f"{first}.{w}"].shape[1] for w in ("w_q", "w_k", "w_v")]
    tables = [value for name, value in ours.items() if name.endswith("positions")]
    has_beta = any(name.endswith("beta") for name in ours)
    fields = dict(
        d_model=d, d_ff=ours[f"{feed_forward}.w_1"].shape[1], n_layers=len({name.split(".")[1] for name in ours if name.startswith(f"{layer}.")}),
        target_vocab=vocab, source_vocab=len(ours["source_embedding"]) if has_source and not shared else vocab, tied="output.w" not in ours, shared=shared,
        biases=tuple(room for room in BIASES if any(f"{room}.b" in name for name in ours)), max_length=len(tables[0]) if tables else None,
        eps=stated.get("eps", EPSILONS[0]),
    )  # fmt: skip

    def options(name, *found):
        return (stated[name],) if name in stated else found

    waves = [("learned", "interleaved")] if tables else [("none", "interleaved"), ("sinusoidal", "interleaved"), ("sinusoidal", "half")]
    waves += [("rope", "interleaved"), ("rope", "half")] * (not has_source and not tables)
    heads = [h for h in (2, 4, 3, 8, 1, 6, 12, 16, *range(5, 129)) if widths[0] % h == 0 and widths[1] % (widths[0] // h) == 0]
    choices = (
        dict.fromkeys(options("n_heads", *heads)),
        options("norm_kind", *(("layer",) if has_beta or has_source else ("rms", "layer"))),
        options("norm", "post" if has_source or "norm.gamma" not in ours else "pre"),
        options("activation", *(("swiglu",) if f"{feed_forward}.w_3" in ours else ("relu",) if has_source else ("gelu_tanh", "relu", "gelu"))),
        [
            dict(positions=where, pairing=pairing, scaled=scaled)
            for where, pairing in waves
            if tables or stated.get("positions", where) == where and (where == "none" or stated.get("pairing", pairing) == pairing)
            for scaled in options("scaled", *((True, False) if has_source or where == "sinusoidal" else (False, True)))
        ],
    )
    for n_heads, kind, place, bend, start in itertools.product(*choices):
        d_k = widths[0] // n_heads
        n_kv = widths[1] // d_k
        how = dict(n_heads=n_heads, n_kv_heads=n_kv, d_k=d_k, d_v=widths[2] // n_kv, norm_kind=kind, norm=place, activation=bend)
        found = _reference(fields | how | start, ours, has_source)
        if found:
            yield found


def _reference(how, ours, has_source):
    """The reference, with 0 for what the reader has not; None where that configuration is none, or cannot hold what there is."""
    try:
        config = Config(**how)
        shapes = encoder_decoder_shapes(config) if has_source else decoder_shapes(config)
    except ValueError:
        return None
    absent = frozenset(name for name in shapes if name not in ours)
    if ours.keys() - shapes.keys() or any(not name.rpartition(".")[2].startswith("b") for name in absent):  # β and the biases
        return None
    params = {name: np.asarray(ours.get(name, np.zeros(shape)), np.float64) for name, shape in shapes.items()}
    return Reference(config, params, absent) if shapes_of(params) == shapes else None


def with_eps(reference: Reference, eps: float) -> Reference:
    return reference._replace(config=dataclasses.replace(reference.config, eps=eps))


def described(reference: Reference, has_source: bool) -> list[str]:
    """The conventions in words."""
    config = reference.config
    heads = f"{config.n_heads} heads" + (f", {config.n_kv_heads} of keys and values" if config.n_kv_heads != config.n_heads else "")
    norm = f"{'layer' if config.norm_kind == 'layer' else 'RMS'} norm {'in front (pre)' if config.norm == 'pre' else 'behind the addition (post)'}"
    pairs = "(i, i + d/2)" if config.pairing == "half" else "(2i, 2i + 1)"
    positions = {"sinusoidal": f"sines, {config.pairing}", "rope": f"RoPE, pairs {pairs}", "learned": "learned positions", "none": "no positions"}
    words = [heads, f"{norm}, ε = {config.eps:g}", config.activation, f"embedding {'scaled by √d' if config.scaled else 'not scaled'}"]
    words += [positions[config.positions], "tied output layer" if config.tied else "an output layer of its own"]
    words += ["one table for source and target"] * config.shared
    biases = sorted({name.rpartition(".")[2] for name in reference.order() if "attention.b_" in name})
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
