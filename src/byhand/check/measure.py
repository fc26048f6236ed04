"""How far two results are apart: the one measure that every test and page uses, and the verdict that follows from it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

FLOOR = 1e-3  # two gradients that are both nearly 0 are not asked for relative precision
TOO_SMALL = "too small to tell"


class Difference(NamedTuple):
    """The measure, the place and the two values where it is reached, and the size of the larger array, max(max|a|, max|b|)."""

    error: float
    place: tuple[int, ...]
    values: tuple[float, float]
    size: float

    def holds(self, bound: float) -> bool | None:
        """Whether the two agree: error ≤ bound; None, 'too small to tell', where the floor alone would let them pass

        Two arrays that both lie below the floor agree only where they do so by their own size, max|a − b| ≤ bound · size. So two that are equal
        agree, zeros too: a gradient that must be 0, and is exactly 0 on both sides, has been compared. Rounding noise beside another has not,
        nor has a gradient of 1e-10 beside one of 0.
        """
        if not self.error <= bound:
            return False
        return True if self.error * max(self.size, FLOOR) <= bound * self.size else None


def agreement(a: Any, b: Any) -> float:
    """max|a − b| / max(max|a|, max|b|, 1e-3)

    a, b: two arrays (or torch tensors, or SymPy matrices) of one shape, or two dicts of them with the same names, of which the worst counts.
    A NaN that only one has, or an infinity that is not the other's, gives ∞. A number and no verdict: difference(a, b).holds(bound) is one.
    Raises ValueError for shapes or names that differ, and for an empty array.
    """
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise ValueError("a and b must both be dicts, or neither")
    if not isinstance(a, Mapping):
        return difference(a, b).error
    if a.keys() != b.keys() or not a:
        odd = sorted(str(name) for name in a.keys() ^ b.keys())
        raise ValueError(f"a and b must have the same names, at least one; only one of them has {', '.join(odd[:4]) or 'any'}")
    return max(difference(a[name], b[name], name).error for name in a)


def difference(a: Any, b: Any, name: str = "a") -> Difference:
    """agreement(a, b) of two arrays, with the place where it is reached."""
    a, b = as_floats(a, name), as_floats(b, "b" if name == "a" else f"the other {name}")
    if a.shape != b.shape:
        raise ValueError(f"{name} had shape {a.shape} and the other {b.shape}; they must be the same")
    if not a.size:
        raise ValueError(f"{name} had shape {a.shape}; it must have at least one entry")
    same = (a == b) | (np.isnan(a) & np.isnan(b))  # the same infinity in both is no difference
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    gap = np.where(np.isnan(gap), np.inf, gap)
    place = tuple(int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
    size = max(_largest_finite(a), _largest_finite(b))
    return Difference(float(gap[place] / max(size, FLOOR)), place, (float(a[place]), float(b[place])), float(size))


def as_floats(value: Any, name: str = "array") -> np.ndarray:
    """A float64 array from an array, a list, a number, a torch tensor or a SymPy matrix."""
    if value is None:  # NumPy takes it for NaN
        raise ValueError(f"{name} was None; it must be an array of real numbers")
    if hasattr(value, "detach"):  # a torch tensor, known without importing torch
        value = value.detach().cpu().double().numpy()
    try:
        return np.asarray(value).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} was {type(value).__name__}; it must be an array of real numbers") from error


def _largest_finite(x):
    return np.abs(x[np.isfinite(x)]).max(initial=0.0)
