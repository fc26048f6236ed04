"""Document 1's encoder-decoder on exact numbers, or on numbers to any number of digits."""

from collections.abc import Sequence
from typing import NamedTuple

import sympy as sp

from ..config import Config
from ..parameters import encoder_decoder_shapes
from . import linear
from .carry import Digits, Exact
from .exact import parameters
from .wiring import Wiring


class Forward(NamedTuple):
    """logits: one matrix (time, vocab) for each sequence.

    activations, by dotted name: one entry for each sequence, which is a matrix (time, ·) or a tuple of one matrix for each head,
    so that `[batch][row, column]` and `[batch][head][row, column]` find a number. The positions are one matrix for all.
    """

    logits: tuple[sp.Matrix, ...]
    activations: dict


def forward(
    params: dict,
    config: Config,
    source: Sequence[Sequence[int]],
    decoder_input: Sequence[Sequence[int]],
    source_lengths: Sequence[int] | None = None,
    target_lengths: Sequence[int] | None = None,
    digits: int | None = None,
) -> Forward:
    """logits = decoder(decoder_input, encoder(source)) W + b, exactly

    Parameters are matrices, arrays or nested lists of exact numbers or floats (a float counts as the fraction that it is).
    With `digits` every stage is evaluated to that many digits instead of exactly: closed forms of general weights grow out of hand.
    Raises ValueError for a model that is not document 1's kind (post-norm layer norm, ReLU, sinusoids or none), for an unknown,
    missing or misshapen parameter and a length that does not fit; IndexError for a token outside the vocabulary.
    Source: Vaswani et al. 2017, figure 1.
    """
    params = checked_parameters(params, config)
    batch = config, source, decoder_input, source_lengths, target_lengths
    if digits is None:
        return run(Exact(), params, *batch)
    carry = Digits(digits)
    with carry.precision():
        out = run(carry, {name: carry.start(value) for name, value in params.items()}, *batch)
        return Forward(*(mapped(carry.finish, part) for part in out))


def checked_parameters(params: dict, config: Config) -> dict[str, sp.ImmutableMatrix]:
    """The parameters as exact matrices, after a check that the model is of a kind known here and that these are its parameters."""
    return fitting(params, encoder_decoder_shapes(config))


def fitting(params: dict, shapes: dict[str, tuple[int, ...]]) -> dict[str, sp.ImmutableMatrix]:
    """The parameters as exact matrices, after a check of names and shapes."""
    params = parameters(params)
    for name in [*shapes, *params]:
        if name not in params or name not in shapes:
            raise ValueError(f"parameter {name!r} is {'missing' if name in shapes else 'unknown'}; the model has {', '.join(shapes)}")
        shape = shapes[name] if len(shapes[name]) == 2 else (1, *shapes[name])
        if params[name].shape != shape:
            raise ValueError(f"parameter {name!r} had shape {params[name].shape}; it must be {shape}")
    return params


def run(carry, params, config, source, decoder_input, source_lengths=None, target_lengths=None) -> Forward:
    """The wiring, the same for every way of carrying a value: each sequence on its own, its stages gathered by name."""
    source_lengths = lengths_of("source_lengths", source_lengths, source)
    target_lengths = lengths_of("target_lengths", target_lengths, decoder_input)
    passes = [
        _sequence(carry, params, config, tuple(map(int, s)), tuple(map(int, t)), int(n), int(m))
        for s, t, n, m in zip(source, decoder_input, source_lengths, target_lengths, strict=True)
    ]
    activations = {name: tuple(one[name] for one in passes) for name in passes[0]}
    for name in ("encoder.positions", "decoder.positions"):
        if name in activations:
            activations[name] = activations[name][0]  # the same for every sequence
    return Forward(activations["logits"], activations)


def _sequence(carry, params, config, source, decoder_input, source_length, target_length):
    """One sequence from its tokens to its logits; returns every stage by name."""
    wired = Wiring(carry, params, config)

    def add_and_norm(layer, number, x, change):
        return wired.norm(f"{layer}.norm_{number}", wired(f"{layer}.residual_{number}", linear.add, x, change))

    x = wired.embed("encoder.", "source_embedding", source)
    of_source = tuple(j < source_length for j in range(len(source)))
    for i in range(config.n_layers):
        layer = f"encoder.{i}"
        x = add_and_norm(layer, 1, x, wired.attend(f"{layer}.self_attention", x, x, (of_source,) * len(source)))
        x = add_and_norm(layer, 2, x, wired.feed(f"{layer}.feed_forward", x))
    memory = wired.record("encoder.memory", x)

    y = wired.embed("decoder.", "target_embedding", decoder_input)
    past = tuple(tuple(j <= t and j < target_length for j in range(len(decoder_input))) for t in range(len(decoder_input)))
    for i in range(config.n_layers):
        layer = f"decoder.{i}"
        y = add_and_norm(layer, 1, y, wired.attend(f"{layer}.self_attention", y, y, past))
        y = add_and_norm(layer, 2, y, wired.attend(f"{layer}.cross_attention", y, memory, (of_source,) * len(decoder_input)))
        y = add_and_norm(layer, 3, y, wired.feed(f"{layer}.feed_forward", y))
    wired.logits(wired.record("decoder.out", y), "target_embedding")
    return wired.record.kept


def lengths_of(name, lengths, rows):
    """The sequences' lengths, their full ones unless given, after a check."""
    if lengths is None:
        return [len(row) for row in rows]
    for length, row in zip(lengths, rows, strict=True):
        if not 1 <= length <= len(row):
            raise ValueError(f"{name} held {length}; each must lie between 1 and the array's time, {len(row)}")
    return lengths


def mapped(function, value):
    """function of every matrix inside dicts and tuples."""
    if isinstance(value, dict):
        return {name: mapped(function, part) for name, part in value.items()}
    return tuple(mapped(function, part) for part in value) if type(value) is tuple else function(value)
