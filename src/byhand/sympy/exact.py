"""Exact numbers: into them, and into a form worth reading."""

from functools import cache
from numbers import Integral

import numpy as np
import sympy as sp

from ..parameters import ATTENTION_BIASES

VECTORS = ("gamma", "beta", "b", "b_1", "b_2", *ATTENTION_BIASES)  # parameters with one axis


def number(value) -> sp.Expr:
    """value as an exact number: a SymPy number stays; a float is the fraction that its 53 bits say, 0.5 → 1/2.

    Raises ValueError for a number that is not finite.
    """
    if isinstance(value, sp.Expr):
        return value.replace(lambda part: part.is_Float, sp.Rational)
    if isinstance(value, Integral):
        return sp.Integer(int(value))
    if not np.isfinite(float(value)):
        raise ValueError(f"value was {value}; it must be finite")
    return sp.Rational(float(value))


def setting(value) -> sp.Expr:
    """A constant such as ε or a smoothing as it is written: 1e-5 → 1/100000, 0.1 → 1/10, not their nearest binary fractions."""
    if isinstance(value, (sp.Expr, Integral)):
        return sp.sympify(value)
    return sp.Rational(str(float(value)))


def matrix(value) -> sp.ImmutableMatrix:
    """An exact matrix from an array, a nested list or a SymPy matrix; one axis becomes one row."""
    if not isinstance(value, sp.MatrixBase):
        value = np.asarray(value, dtype=object)
        value = value[None, :] if value.ndim == 1 else value
        return sp.ImmutableMatrix(*value.shape, [number(entry) for entry in value.flat])
    return sp.ImmutableMatrix(value.applyfunc(number))


def parameters(params: dict) -> dict[str, sp.ImmutableMatrix]:
    """Every parameter as an exact matrix under its own name; a vector, also one given as a column, as one row."""
    exact = {}
    for name, value in params.items():
        try:
            exact[name] = matrix(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"parameter {name!r} was {type(value).__name__}; it must be a matrix of finite numbers ({error})") from error
    return {name: value.reshape(1, len(value)) if name.split(".")[-1] in VECTORS else value for name, value in exact.items()}


@cache
def tidy(value: sp.Expr) -> sp.Expr:
    """value in an equal form that is no longer than it was; a logarithm of a power becomes a multiple of a logarithm."""
    if not value.args:
        return value
    short = sp.simplify(value, ratio=1)
    return short.replace(sp.log, lambda inside: sp.expand_log(sp.log(sp.factor(inside)), force=True))


def tidied(values: sp.Matrix) -> sp.ImmutableMatrix:
    """tidy, entry by entry."""
    return sp.ImmutableMatrix(values.applyfunc(tidy))
