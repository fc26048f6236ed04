"""Three ways of carrying values through the same network: exactly, as value + slope·w to many digits, and as value + slope·w in closed form.

A stage is a room's definition, a function of matrices. `apply(stage, *inputs, **settings)` puts the carried inputs through it.
"""

from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import mpmath
import sympy as sp

from .derivation import symbols
from .exact import tidied
from .rows import rows_of

GUARD = 20  # digits computed beyond those asked for


class Exact:
    """Carries exact matrices: each stage is its own definition, put into a short form."""

    def start(self, value: sp.Matrix) -> sp.Matrix:
        return value

    def apply(self, stage, *inputs: sp.Matrix, **settings) -> sp.Matrix:
        return tidied(stage(*inputs, **settings))


class Dual(NamedTuple):
    """value + slope·w: a matrix and how fast each of its entries moves. A slope of None is 0 everywhere."""

    shape: tuple[int, int]
    value: Any
    slope: Any

    def row(self, i: int) -> "Dual":
        """Row i alone, of a dual whose entries are lists."""
        entries = slice(i * self.shape[1], (i + 1) * self.shape[1])
        moves = self.slope is not None and any(self.slope[entries])
        return Dual((1, self.shape[1]), self.value[entries], self.slope[entries] if moves else None)


class Closed:
    """Carries duals of exact matrices, their slopes in closed form. Unsimplified they would explode; simplified they are slow."""

    precision = nullcontext

    def start(self, value: sp.Matrix, slope: sp.Matrix | None = None) -> Dual:
        return Dual(value.shape, value, slope)

    def apply(self, stage, *inputs: Dual, **settings) -> Dual:
        value = tidied(stage(*(x.value for x in inputs), **settings))
        if all(x.slope is None for x in inputs):
            return Dual(value.shape, value, None)
        w = sp.Symbol("w", real=True)
        moved = stage(*(x.value if x.slope is None else x.value + w * x.slope for x in inputs), **settings)
        return Dual(value.shape, value, tidied(_slope(moved, w)))

    def rounded(self, value: sp.Expr) -> sp.Expr:
        return value


class Digits:
    """Carries duals of numbers with many digits, as lists of entries row by row. Use it inside `precision()`."""

    def __init__(self, digits: int = 30):
        if not isinstance(digits, int) or digits < 1:
            raise ValueError(f"digits was {digits!r}; it must be a whole number of at least 1")
        self.digits = digits
        self.at_rest = {}  # what stages have given: the same network is run again for each direction in which an entry moves

    def precision(self):
        return mpmath.workdps(self.digits + GUARD)

    def start(self, value: sp.Matrix, slope: sp.Matrix | None = None) -> Dual:
        return Dual(value.shape, _evaluated(value), None if slope is None else _evaluated(slope))

    def apply(self, stage, *inputs: Dual, **settings) -> Dual:
        parts = [self._part(stage, *part) for part in rows_of(stage, inputs, settings)]
        return parts[0] if len(parts) == 1 else _stacked(parts)

    def _part(self, stage, inputs, settings):
        rule = linearised(stage, tuple(x.shape for x in inputs), tuple(sorted(settings.items())))
        values = tuple(entry for x in inputs for entry in x.value)
        try:
            value = self.at_rest[rule, values]
        except KeyError:
            value = self.at_rest[rule, values] = self._at_rest(stage, rule, values)
        if all(x.slope is None for x in inputs):
            return Dual(rule.shape, value, None)
        slopes = [entry for x in inputs for entry in (x.slope or _still(x))]
        return Dual(rule.shape, value, rule.slope(*values, *slopes))

    def _at_rest(self, stage, rule, values):
        try:
            return rule.value(*values)
        except ZeroDivisionError:
            raise ValueError(f"{stage.__name__} divided by 0; under eps = 0 a row must not be constant") from None

    def finish(self, dual: Dual) -> sp.ImmutableMatrix:
        """The values as a SymPy matrix."""
        return sp.ImmutableMatrix(*dual.shape, [self.rounded(value) for value in dual.value])

    def rounded(self, value) -> sp.Expr:
        """To the digits asked for; what is below 10^−digits is 0."""
        return sp.Integer(0) if abs(value) < mpmath.mpf(10) ** -self.digits else sp.Float(value, self.digits)


class Rule(NamedTuple):
    shape: tuple[int, int]
    value: Any  # the inputs' entries → the stage's entries
    slope: Any  # the inputs' entries and their slopes → the slopes of the stage's entries


@cache
def linearised(stage, shapes: tuple, settings: tuple) -> Rule:
    """stage(x + w·s) and its derivative with respect to w at w = 0, found by SymPy once for a size, as functions of x and s."""
    w = sp.Symbol("w", real=True)
    values = [symbols(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    slopes = [symbols(f"s{i}", *shape) for i, shape in enumerate(shapes)]
    at_rest = stage(*values, **dict(settings))
    moved = stage(*(value + w * slope for value, slope in zip(values, slopes)), **dict(settings))
    entries = [x for value in values for x in value]
    return Rule(
        at_rest.shape,
        _function(entries, at_rest),
        _function(entries + [s for slope in slopes for s in slope], _slope(moved, w)),
    )


def _stacked(rows):
    slopes = None if all(row.slope is None for row in rows) else [s for row in rows for s in row.slope or _still(row)]
    return Dual((len(rows), rows[0].shape[1]), [x for row in rows for x in row.value], slopes)


def _still(dual):
    return [mpmath.mpf(0)] * len(dual.value)


def _slope(moved, w):
    return moved.applyfunc(lambda entry: sp.diff(entry, w).subs(w, 0))


def _function(arguments, values):
    return sp.lambdify(arguments, list(values), modules="mpmath", cse=True)


def _evaluated(values):
    return [mpmath.mpf(value.evalf(mpmath.mp.dps)) for value in values]
