"""The book's worked examples: small models with every weight written down.

`document` and `exact` share one set of weights, from which the numbers of document 1 follow by an ordinary forward
pass. `lively` has the same sizes and no gradient that vanishes. `generic` has every size different, padding and
batches, for proving gradients; `decoder` is the like for the decoder-only stack, and `block` is one small block of it
with half-integer weights, pre- or post-norm. `uneven` and `tied_stack` are the smallest that show what a mistake does.
"""

import json
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Int

from .config import Config
from .parameters import decoder_shapes, encoder_decoder_shapes

SOURCE_NAMES = ("je", "suis")
TARGET_NAMES = ("<bos>", "i", "am", "<eos>")


@dataclass(frozen=True)
class Case:
    """A model, its parameters, one batch, and how the loss is taken.

    params holds NumPy arrays; in document(exact=True), SymPy matrices (a vector is one row). A decoder-only stack has
    no source.
    names maps "source" and "target" to the words of each vocabulary.
    """

    config: Config
    params: dict[str, Any]
    source: Int[np.ndarray, "batch t_source"] | None
    decoder_input: Int[np.ndarray, "batch t_target"]
    targets: Int[np.ndarray, "batch t_target"]
    source_lengths: Int[np.ndarray, "batch"] | None
    target_lengths: Int[np.ndarray, "batch"] | None
    reduction: str
    smoothing: float
    names: dict[str, tuple[str, ...]]


def check_case(case: Case) -> None:
    """Raise ValueError for what has not a Case's fields."""
    for field in fields(Case):
        if field.name != "names" and not hasattr(case, field.name):
            raise ValueError(f"case was {type(case).__name__}, without {field.name}; it must be a byhand.toy.Case, or have its fields")


def document(exact: bool = False) -> Case:
    """`je suis` to `i am` with document 1's weights: no positions added, ε = 0, the loss at `am` alone.

    exact=True gives the parameters as SymPy matrices: rationals, and 1/√2 in the decoder's last γ.
    """
    config = _small_config(positions="none", eps=0.0)
    return _small_case(config, _exact_params() if exact else _document_params(), source=[[0, 1]], reduction="last")


def exact() -> Case:
    """The weights of `document` in the model as the paper has it: positions added, ε = 1e-5."""
    return _small_case(_small_config(), _document_params(), source=[[0, 1]], reduction="last")


def lively() -> Case:
    """Half-integer weights at document 1's sizes, chosen so that every gradient entry moves; mean loss, `je suis je`."""
    table = json.loads(files("byhand").joinpath("toy_lively.json").read_text("utf-8"))["params"]
    config = _small_config()
    params = {name: np.array(table[name]) for name in encoder_decoder_shapes(config)}
    return _small_case(config, params, source=[[0, 1, 0]], reduction="mean")


def generic(seed: int = 0) -> Case:
    """Random weights, every size different, unequal lengths, repeated tokens and padding: no factor can hide."""
    config = Config(d_model=6, n_heads=2, d_k=4, d_v=5, d_ff=11, n_layers=2, source_vocab=9, target_vocab=7)
    rng = np.random.default_rng(seed)
    params = _random(encoder_decoder_shapes(config), rng)
    source = rng.integers(0, config.source_vocab, (3, 8))
    source[0, 4] = source[0, 1]
    sentence = rng.integers(0, config.target_vocab, (3, 11))
    sentence[1, 3] = sentence[1, 2]
    return Case(
        config, params, source, sentence[:, :-1].copy(), sentence[:, 1:].copy(),
        source_lengths=np.array([8, 5, 3]), target_lengths=np.array([7, 10, 4]), reduction="mean", smoothing=0.1,
        names={
            "source": tuple(f"s{i}" for i in range(config.source_vocab)),
            "target": tuple(f"t{i}" for i in range(config.target_vocab)),
        },
    )  # fmt: skip


def decoder(seed: int = 0) -> Case:
    """A decoder-only stack with random weights: pre-norm, RMS norm, rope, SwiGLU, two query heads to a key-value head.

    Every size different, a repeated token, padding. source and source_lengths are None; targets are the next tokens.
    """
    config = Config(
        d_model=6, n_heads=4, n_kv_heads=2, d_k=8, d_v=5, d_ff=11, n_layers=2, source_vocab=1, target_vocab=9,
        norm="pre", norm_kind="rms", positions="rope", activation="swiglu", max_length=16,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    params = _random(decoder_shapes(config), rng)
    tokens = rng.integers(0, config.target_vocab, (3, 8))
    tokens[0, 4] = tokens[0, 1]
    return Case(
        config, params, None, tokens[:, :-1].copy(), tokens[:, 1:].copy(),
        source_lengths=None, target_lengths=np.array([7, 4, 6]), reduction="mean", smoothing=0.0,
        names={"source": (), "target": tuple(f"t{i}" for i in range(config.target_vocab))},
    )  # fmt: skip


def block(norm: str = "pre") -> Case:
    """One block of the decoder-only stack on `The cat sat`, half-integer weights, no positions; norm is "pre" or "post".

    The same weights in both (post-norm has no last norm). The seed was looked for: no gradient entry is smaller than
    8e-4 but those of `down`, which is never read; every ReLU unit is active on some row and off the kink by 0.1.
    """
    config = Config(
        d_model=4, n_heads=2, d_ff=6, n_layers=1, source_vocab=1, target_vocab=4, norm="pre", positions="none",
    )  # fmt: skip
    rng = np.random.default_rng(4119)
    params = {name: rng.integers(-3, 4, shape) / 2 for name, shape in decoder_shapes(config).items()}
    for name, value in params.items():
        if name.endswith("gamma"):
            params[name] = rng.choice([0.5, 1.5, 2.0], value.shape)
        elif value.ndim == 1:  # β and the biases
            params[name] = rng.choice([-0.5, -0.25, 0.25, 0.5], value.shape)
    params["embedding"] = params["embedding"] / 2  # √d_model = 2 times these are halves again
    config = replace(config, norm=norm)
    return Case(
        config, {name: params[name] for name in decoder_shapes(config)}, None, np.array([[0, 1, 2]]), np.array([[1, 2, 3]]),
        source_lengths=None, target_lengths=None, reduction="mean", smoothing=0.0,
        names={"source": (), "target": ("The", "cat", "sat", "down")},
    )  # fmt: skip


def uneven(tied: bool = False, seed: int = 1) -> Case:
    """generic's mixture, smaller: two layers, d_k ≠ d_v, a padded batch, repeated tokens, no two sizes the same where that matters."""
    config = Config(d_model=6, n_heads=2, d_k=2, d_v=4, d_ff=5, n_layers=2, source_vocab=4, target_vocab=7, tied=tied)
    rng = np.random.default_rng(seed)
    params = _random(encoder_decoder_shapes(config), rng, 0.5)
    names = {"source": tuple("abcd"), "target": tuple("ABCDEFG")}
    return Case(
        config, params, np.array([[1, 2, 1, 0, 3], [3, 0, 0, 0, 0]]), np.array([[0, 4, 4], [0, 6, 2]]), np.array([[4, 4, 1], [6, 2, 1]]),
        np.array([5, 2]), np.array([3, 2]), reduction="mean", smoothing=0.1, names=names,
    )  # fmt: skip


def tied_stack(seed: int = 0) -> Case:
    """A stack of GPT-2's kind, beside decoder's Llama: layer norm, GELU, sines, tied weights, smoothing; padded."""
    config = Config(d_model=6, n_heads=2, d_ff=5, n_layers=2, source_vocab=1, target_vocab=7, norm="pre", activation="gelu_tanh", tied=True)
    rng = np.random.default_rng(seed)
    params = _random(decoder_shapes(config), rng, 0.5)
    names = {"source": (), "target": tuple("ABCDEFG")}
    return Case(
        config, params, None, np.array([[0, 4, 4, 2], [0, 6, 2, 0]]), np.array([[4, 4, 2, 1], [6, 2, 1, 1]]),
        None, np.array([4, 3]), reduction="mean", smoothing=0.1, names=names,
    )  # fmt: skip


def _random(shapes, rng, spread: float = 0.6) -> dict[str, np.ndarray]:
    """Normal weights, the gains around 1.2."""
    return {name: rng.normal(0.0, spread, shape) + 1.2 * name.endswith("gamma") for name, shape in shapes.items()}


def _small_config(**choices) -> Config:
    return Config(d_model=4, n_heads=2, d_ff=8, n_layers=1, source_vocab=2, target_vocab=4, **choices)


def _small_case(config, params, source, reduction):
    return Case(
        config, params, np.array(source), np.array([[0, 1]]), np.array([[1, 2]]),
        source_lengths=None, target_lengths=None, reduction=reduction, smoothing=0.1,
        names={"source": SOURCE_NAMES, "target": TARGET_NAMES},
    )  # fmt: skip


def _document_params() -> dict[str, np.ndarray]:
    table = _document_table() | {"decoder.0.norm_3.gamma": [0.5**0.5] * 4}
    return {name: np.array(table[name], dtype=float) for name in encoder_decoder_shapes(_small_config())}


def _exact_params() -> dict[str, Any]:
    import sympy as sp  # only here: the other examples need NumPy alone

    table = _document_table() | {"decoder.0.norm_3.gamma": [1 / sp.sqrt(2)] * 4}

    def matrix(value):
        rows = value if isinstance(value[0], list) else [value]
        return sp.ImmutableMatrix([[sp.nsimplify(entry) for entry in row] for row in rows])

    return {name: matrix(table[name]) for name in encoder_decoder_shapes(_small_config())}


def _document_table() -> dict[str, list]:
    """Document 1's weights, and the ones it leaves open, but for the last γ, which is not rational."""
    identity = _diagonal(1, 1, 1, 1)
    same_for_both_heads = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    self_attention = {"w_q": same_for_both_heads, "w_k": same_for_both_heads, "w_v": identity, "w_o": identity}
    cross_attention = {"w_q": _diagonal(1, -1, 1, -1), "w_k": identity, "w_v": identity, "w_o": identity}
    doubled_relu = {"w_1": _beside(identity, identity), "w_2": identity + identity}  # FFN(x) = 2 max(0, x)
    # max(0, x) D − max(0, −x) D = x D, so x + FFN(x) = (−x₁, 0, −x₃, 0)
    scaled = _diagonal(-2, -1, -2, -1)
    linear = {"w_1": _beside(identity, _negative(identity)), "w_2": scaled + _negative(scaled)}
    no_bias = {"b_1": [0] * 8, "b_2": [0] * 4}

    table = {
        "source_embedding": [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]],
        "target_embedding": [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]],
        "output.w": identity,
        "output.b": [0] * 4,
    }
    rooms = {
        "encoder.0.self_attention": self_attention,
        "encoder.0.feed_forward": doubled_relu | no_bias,
        "decoder.0.self_attention": self_attention,
        "decoder.0.cross_attention": cross_attention,
        "decoder.0.feed_forward": linear | no_bias,
    }
    for norm in ("encoder.0.norm_1", "encoder.0.norm_2", "decoder.0.norm_1", "decoder.0.norm_2", "decoder.0.norm_3"):
        rooms[norm] = {"gamma": [1] * 4, "beta": [0] * 4}
    for room, weights in rooms.items():
        table |= {f"{room}.{name}": value for name, value in weights.items()}
    return table


def _diagonal(*entries):
    return [[entry if i == j else 0 for j in range(len(entries))] for i, entry in enumerate(entries)]


def _beside(left, right):
    return [a + b for a, b in zip(left, right, strict=True)]


def _negative(rows):
    return [[-entry for entry in row] for row in rows]
