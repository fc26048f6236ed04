"""One row of numbers, exact or not: what may come in, and arithmetic that keeps exact numbers exact."""

import math
import numbers

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, pad
from byhand.worked.matrices import GAP, TERMS_SHOWN, kept


def row(values, name) -> np.ndarray:
    values = f.as_array(values, name)
    if values.ndim == 2 and 1 in values.shape and values.dtype == object:  # a SymPy row or column
        values = values.ravel()
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} had shape {values.shape}; it must be one row with at least one entry (pick one: scores[0, 0, i])")
    if values.dtype.kind in "biu":
        return values.astype(float)
    return all_exact(values) if values.dtype == object else values


def all_exact(values) -> np.ndarray:
    """Whole numbers beside exact ones become exact too; floats stay what they are."""
    import sympy

    return np.array([sympy.Integer(int(v)) if isinstance(v, numbers.Integral) else v for v in values], dtype=object)


def like(values, x, name, default) -> np.ndarray:
    if values is None:
        return np.full(len(x), default, dtype=object if x.dtype == object else float)
    values = row(values, name)
    if len(values) != len(x):
        raise ValueError(f"{name} had {len(values)} entries; it must have {len(x)}, one for each entry of x")
    return values


def only_finite(values, name):
    if values.dtype != object and not np.isfinite(values.astype(float)).all():
        raise ValueError(f"{name} held a number that is not finite; it must be finite (use the mask for -∞)")


def exp(s):
    if f.is_exact(s):
        import sympy

        return sympy.exp(s)
    return math.exp(float(s))


def log(s):
    if f.is_exact(s):
        import sympy

        return sympy.log(s)
    return math.log(float(s))


def sqrt(s):
    if f.is_exact(s):
        import sympy

        return sympy.sqrt(s)
    return math.sqrt(float(s))


def mean(values):
    total = sum(values) if values.dtype == object else float(values.astype(float).sum())
    return simplified(total / len(values)) if f.is_exact(total) else total / len(values)


def simplified(value):
    if f.is_exact(value):
        import sympy

        return sympy.simplify(value)
    return value


def any_exact(values) -> bool:
    return any(f.is_exact(v) for v in values)


def centred(x: np.ndarray, eps):
    """Mean, deviations, variance (divided by n) and √(variance + ε) of a row; ValueError where the root would be 0."""
    if not f.decimal_of(eps) >= 0:
        raise ValueError(f"eps was {eps}; it must be at least 0")
    mu = mean(x)
    deviations = x - mu
    if deviations.dtype != object:  # a constant row has no deviations, only leftovers
        deviations = np.where(np.abs(deviations) <= f.LEFTOVER * f.scale_of(x), 0.0, deviations)
    variance = mean(deviations**2)
    if not f.decimal_of(variance + eps) > 0:
        raise ValueError(f"x was constant and eps was {eps}; a constant row needs eps above 0")
    return mu, deviations, variance, sqrt(variance + eps)


def shown(value, digits: int, scale: float | None, form: str, limit: int | None = TERMS_SHOWN) -> str:
    """A number, or a row in square brackets with dots in the middle when it is long."""
    if np.ndim(value) == 0:
        return (f.latex if form == "latex" else f.text)(value, digits, scale)
    dots, left, right, comma = (r"\cdots", r"\left[", r"\right]", r",\; ") if form == "latex" else ("…", "[", "]", ", ")
    entries = f.entries(value, digits, form, scale)
    return left + comma.join(dots if k is GAP else entries[k] for k in kept(len(value), limit)) + right


def named_rows(rows: list[tuple], digits: int, value) -> Written:
    """One line for each (LaTeX name, plain name, number or row, scale), under one another; value is what they come to."""
    width = max(len(name) for _, name, _, _ in rows)
    latex = [f"{name} &= {shown(number, digits, own, 'latex')}" for name, _, number, own in rows]
    text = [f"{pad(name, width)} = {shown(number, digits, own, 'text')}" for _, name, number, own in rows]
    return Written("\n".join(text), aligned(latex), value=value)
