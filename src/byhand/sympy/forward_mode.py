"""One entry's derivative through the whole network, in forward mode: value + slope·w, carried stage by stage.

The entry is moved by w. Each stage is its definition, evaluated by SymPy on `value + slope·w` and differentiated with respect to
w at w = 0, so that no derivative's rule is written down here, and nothing of the backward pass is used. The expressions are made once for each stage
and size, on symbols, and evaluated with as many digits as asked for; unsimplified closed forms would explode.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import mpmath
import sympy as sp

from . import linear, loss, transformer
from .derivation import symbols
from .exact import parameters, setting, tidied
from .transformer import collect

GUARD = 20  # digits computed beyond those asked for


class Dual(NamedTuple):
    """value + slope·w: the entries of a matrix, row by row, and how fast each moves. A slope of None is 0 everywhere."""

    shape: tuple[int, int]
    value: list
    slope: list | None


class Digits:
    """Carries duals of numbers with a fixed number of digits."""

    def __init__(self, digits: int = 30):
        if not isinstance(digits, int) or digits < 1:
            raise ValueError(f"digits was {digits!r}; it must be a whole number of at least 1")
        self.digits = digits

    def precision(self):
        return mpmath.workdps(self.digits + GUARD)

    def start(self, params: dict) -> dict[str, Dual]:
        return {name: Dual(value.shape, _evaluated(value), None) for name, value in parameters(params).items()}

    def apply(self, stage, *inputs: Dual, **settings) -> Dual:
        rule = linearised(stage, tuple(x.shape for x in inputs), tuple(sorted(settings.items())))
        values = [entry for x in inputs for entry in x.value]
        if all(x.slope is None for x in inputs):
            return Dual(rule.shape, rule.value(*values), None)
        slopes = [entry for x in inputs for entry in (x.slope or [mpmath.mpf(0)] * len(x.value))]
        return Dual(rule.shape, rule.value(*values), rule.slope(*values, *slopes))

    def finish(self, dual: Dual) -> sp.Matrix:
        """The values as a SymPy matrix."""
        return sp.ImmutableMatrix(*dual.shape, [self.rounded(value) for value in dual.value])

    def rounded(self, value) -> sp.Expr:
        """To the digits asked for; what is below the last of them is 0."""
        return sp.Integer(0) if abs(value) < mpmath.mpf(10) ** -self.digits else sp.Float(value, self.digits)


class Rule(NamedTuple):
    shape: tuple[int, int]
    value: callable  # the inputs' entries → the stage's entries
    slope: callable  # the inputs' entries and their slopes → the slopes of the stage's entries


@lru_cache(maxsize=None)
def linearised(stage, shapes: tuple, settings: tuple) -> Rule:
    """stage(x + w·s) and its derivative with respect to w at w = 0, as functions of x and s."""
    w = sp.Symbol("w", real=True)
    values = [symbols(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    slopes = [symbols(f"s{i}", *shape) for i, shape in enumerate(shapes)]
    at_rest = stage(*values, **dict(settings))
    moved = stage(*(value + w * slope for value, slope in zip(values, slopes)), **dict(settings))
    slope = moved.applyfunc(lambda entry: sp.diff(entry, w).subs(w, 0))
    flat_values, flat_slopes = [x for value in values for x in value], [s for slope in slopes for s in slope]
    return Rule(at_rest.shape, _function(flat_values, at_rest), _function(flat_values + flat_slopes, slope))


class Closed:
    """Carries pairs of exact matrices: value and slope in closed form. Slow for entries deep in the network."""

    def start(self, params: dict) -> dict[str, Dual]:
        return {name: Dual(value.shape, value, None) for name, value in parameters(params).items()}

    def apply(self, stage, *inputs: Dual, **settings) -> Dual:
        value = tidied(stage(*(x.value for x in inputs), **settings))
        if all(x.slope is None for x in inputs):
            return Dual(value.shape, value, None)
        w = sp.Symbol("w", real=True)
        moved = stage(*(x.value if x.slope is None else x.value + w * x.slope for x in inputs), **settings)
        return Dual(value.shape, value, tidied(moved.applyfunc(lambda entry: sp.diff(entry, w).subs(w, 0))))


def witness(case, parameter: str, index: int | Iterable[int], digits: int | None = 30) -> sp.Expr:
    """∂L/∂parameter[index], L the case's own loss, to `digits` digits after the point; with digits=None in closed form

    case: config, params (exact numbers or floats), source, decoder_input, targets, lengths, reduction and smoothing, as byhand.toy makes them.
    A derivative smaller than 10^−digits is returned as 0. Closed forms take seconds at the output, minutes deep in the network.
    Raises ValueError for an unknown parameter, IndexError for an index outside it.
    """
    if digits is None:
        return _slope(Closed(), case, parameter, index, lambda value: value)
    carry = Digits(digits)
    with carry.precision():
        return carry.rounded(_slope(carry, case, parameter, index, mpmath.mpf))


def _slope(carry, case, parameter, index, one):
    params = carry.start(case.params)
    if parameter not in params:
        raise ValueError(f"parameter was {parameter!r}; the case has {', '.join(params)}")
    moved = params[parameter]
    direction = [one(0)] * (moved.shape[0] * moved.shape[1])
    direction[_flat(parameter, moved.shape, index)] = one(1)
    if isinstance(carry, Closed):
        direction = sp.ImmutableMatrix(*moved.shape, direction)
    params[parameter] = moved._replace(slope=direction)
    slope = _loss(carry, params, case).slope
    return one(0) if slope is None else slope[0]


def _loss(carry, params, case):
    out = collect(carry, params, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    targets = [[int(target) for target in row] for row in case.targets]
    weights = loss.position_weights(targets, lengths=case.target_lengths, reduction=case.reduction)
    parts = [
        carry.apply(loss.weighted_loss, z, targets=tuple(row), weights=weight, smoothing=setting(case.smoothing))
        for z, row, weight in zip(out.logits, targets, weights)
    ]
    return carry.apply(linear.add, *parts)


def _flat(parameter, shape, index):
    index = (index,) if isinstance(index, int) else tuple(index)
    place = (0, *index) if len(index) == 1 and shape[0] == 1 else index
    if len(place) != 2 or not all(0 <= i < n for i, n in zip(place, shape)):
        raise IndexError(f"index was {index}; {parameter} has {shape[0]} × {shape[1]} entries")
    return place[0] * shape[1] + place[1]


def _function(arguments, matrix):
    return sp.lambdify(arguments, list(matrix), modules="mpmath", cse=True)


def _evaluated(matrix):
    return [mpmath.mpf(value) for value in _function([], matrix)()]
