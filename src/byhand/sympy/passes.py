"""What both models give back, and how a pass carries its numbers: exactly, or to any number of digits."""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from ..doors import whole
from .carry import Digits, Exact
from .exact import parameters


class Forward(NamedTuple):
    """logits: one matrix (time, vocab) for each sequence.

    activations, by dotted name: one entry for each sequence, which is a matrix (time, ·) or a tuple of one matrix for each head,
    so that `[batch][row, column]` and `[batch][head][row, column]` find a number. The positions are one matrix for all.
    """

    logits: tuple[sp.Matrix, ...]
    activations: dict


def carried(run: Callable, params: dict[str, sp.Matrix], digits: int | None) -> Forward:
    """run(carry, params): exactly, or with every stage evaluated to `digits` digits"""
    if digits is None:
        return run(Exact(), params)
    carry = Digits(digits)
    with carry.precision():
        out = run(carry, {name: carry.start(value) for name, value in params.items()})
        return Forward(*(_mapped(carry.finish, part) for part in out))


def gathered(passes: list[dict]) -> Forward:
    """The stages of each sequence together under their names."""
    activations = {name: tuple(one[name] for one in passes) for name in passes[0]}
    for name in activations:
        if name.endswith("positions"):
            activations[name] = activations[name][0]  # the same for every sequence
    return Forward(activations["logits"], activations)


def fitting(params: dict, shapes: dict[str, tuple[int, ...]]) -> dict[str, sp.ImmutableMatrix]:
    """The parameters as exact matrices, after a check of names and shapes."""
    if not isinstance(params, dict):
        raise ValueError(f"params was {type(params).__name__}; it must be a dict of matrices")
    params = parameters(params)
    for name in [*shapes, *params]:
        if name not in params or name not in shapes:
            raise ValueError(f"parameter {name!r} is {'missing' if name in shapes else 'unknown'}; the model has {', '.join(shapes)}")
        shape = shapes[name] if len(shapes[name]) == 2 else (1, *shapes[name])
        if params[name].shape != shape:
            raise ValueError(f"parameter {name!r} had shape {params[name].shape}; it must be {shape}")
    return params


def check_tokens(name: str, rows: Any, vocab: int) -> None:
    """Raise ValueError unless it is one or more sequences of whole numbers, IndexError for a number outside the vocabulary."""
    for row in _sequence(name, rows):
        for token in _sequence(name, row):
            if not isinstance(token, Integral) or isinstance(token, bool):
                raise ValueError(f"{name} held {token!r}; it must be lists of whole numbers")
            if not 0 <= token < vocab:
                raise IndexError(f"{name} held the token {token}; it must lie in [0, {vocab})")


def check_digits(digits: int | None) -> None:
    """Raise ValueError unless it is None or a whole number of at least 1."""
    if digits is not None:
        whole("digits", digits)


def _sequence(name, value):
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str) or not len(value):
        raise ValueError(f"{name} was or held {value!r}; it must be lists of whole numbers, none of them empty")
    return value


def lengths_of(name, lengths, rows):
    """The sequences' lengths, their full ones unless given, after a check."""
    if lengths is None:
        return [len(row) for row in rows]
    if len(_sequence(name, lengths)) != len(rows) or not all(isinstance(length, Integral) for length in lengths):
        raise ValueError(f"{name} was {lengths!r}; it must hold {len(rows)} whole numbers, one a sequence")
    for length, row in zip(lengths, rows, strict=True):
        if not 1 <= length <= len(row):
            raise ValueError(f"{name} held {length}; each must lie between 1 and the array's time, {len(row)}")
    return lengths


def _mapped(function, value):
    """function of every matrix inside dicts and tuples."""
    if isinstance(value, dict):
        return {name: _mapped(function, part) for name, part in value.items()}
    return tuple(_mapped(function, part) for part in value) if type(value) is tuple else function(value)
