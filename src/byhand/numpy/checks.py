"""What the functions of this floor look at (byhand.doors says when): float32 or float64, one of them in a call, and finite throughout.

Half precision is refused, since sums in it overflow at 65504; so are integers, in which a result would be cut off, and lists.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .. import doors
from ..doors import plain  # noqa: F401 (rooms take it from here)
from ..parameters import FLOATS, check_floats

Array = np.ndarray


def checked(check: Callable | None = None, stages: bool = False, finite: bool = True) -> Callable:
    """doors.checked for NumPy arrays. stages: what the rule records must be finite too; finite=False: check says what must be finite."""
    return doors.checked(check, floats=_finite_floats if finite else _floats, stages=check_finite if stages else None)


def upstream(shape: Callable[[Any], tuple[int, ...]]) -> Callable:
    """checked for a backward: dy must have the shape of the output, which `shape` reads from the cache, and the dtype of the forward pass."""
    return checked(lambda dy, cache: check_upstream("dy", dy, cache, shape(cache)))


def check_upstream(name: str, dy: Float[Array, "..."], cache: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless the gradient has this shape, the output's, and the dtype of the arrays in the cache."""
    if dy.shape != tuple(shape):
        raise ValueError(f"{name} had shape {dy.shape}; it must be the output's, {tuple(shape)}")
    dtype = _dtype_in(cache)
    if dtype is not None and dtype != dy.dtype:  # `in` would take None for float64
        raise ValueError(f"{name} had dtype {dy.dtype}; it must be {dtype}, as in the forward pass")


def _dtype_in(cache):
    """The dtype of the first array of floating-point numbers in nested tuples; None where there is none."""
    if isinstance(cache, np.ndarray):
        return cache.dtype if cache.dtype.kind == "f" else None
    parts = cache if isinstance(cache, tuple) else ()
    return next((dtype for dtype in map(_dtype_in, parts) if dtype is not None), None)


def check_dtype(dtype: Any) -> None:
    """Raise ValueError unless it names float32 or float64."""
    if not isinstance(dtype, (type, str, np.dtype)) or dtype not in FLOATS:
        raise ValueError(f"dtype was {dtype!r}; it must be float32 or float64")


def described(value: Any) -> str:
    """What a value is, for a message: an array's shape and dtype, and of all else the type."""
    return f"an array of shape {value.shape} in {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _floats(**arrays):
    check_floats(arrays)


def _finite_floats(**arrays):
    check_floats(arrays)
    check_finite(**arrays)


# ---- what is not finite -------------------------------------------------------------------------


def is_finite(*values: Array) -> bool:
    """Whether every entry of every array is a finite number."""
    # A sum of squares is quick; it can overflow, so only the slow look decides.
    return math.isfinite(sum([np.vdot(value, value) for value in values])) or all(np.isfinite(value).all() for value in values)


def check_finite(**values: Array) -> None:
    """Raise ValueError for the first value that holds NaN or an infinity."""
    for name, value in values.items():
        if not is_finite(value):
            refuse(name, value, ~np.isfinite(value))


def refuse(name: str, value: Array, where: Array) -> None:
    """Raise ValueError naming the first entry at which `where` is True."""
    place = tuple(int(i) for i in np.argwhere(where)[0])
    raise ValueError(f"{name} held {value[place]} at {place}; every entry must be a finite number")


# ---- kinds and shapes ---------------------------------------------------------------------------


def check_mask(mask: Bool[Array, "..."], shape: tuple[int, ...], of: str | None = None, name: str = "mask") -> Bool[Array, "..."]:
    """The mask, after a check: booleans of that shape, a list of them too; where `of` names an array, an array that broadcasts to it."""
    mask = np.asarray(mask) if of is None else mask
    fits = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim <= len(shape)
    if fits and of is None:
        fits = mask.shape == shape
    if not fits or any(m not in (1, n) for m, n in zip(reversed(mask.shape), reversed(shape))):
        was = f"dtype {mask.dtype} and shape {mask.shape}" if isinstance(mask, np.ndarray) else f"type {type(mask).__name__}"
        must = f"a NumPy array of booleans that broadcasts to {of}, {shape}" if of else f"booleans of shape {shape}"
        raise ValueError(f"{name} had {was}; it must be {must}")
    return mask


def check_integers(name: str, values: Int[Array, "..."]) -> None:
    """Raise ValueError unless it is a NumPy array of whole numbers."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise ValueError(f"{name} was {kind}; it must be a NumPy array of integers")


def check_tokens(name: str, tokens: Int[Array, "batch time"], vocab: int) -> None:
    """Raise unless tokens is a filled (batch, time) array of whole numbers in [0, vocab)."""
    check_integers(name, tokens)
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"{name} had shape {tokens.shape}; it must be (batch, time), neither of them 0")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab:
        raise IndexError(f"{name} held the token {low if low < 0 else high}; it must lie in [0, {vocab})")


def check_lengths(name: str, lengths: Int[Array, "batch"], batch: int, time: int) -> Int[Array, "batch"]:
    """The lengths as an array, after a check: one whole number from 1 to time for each sequence."""
    lengths = np.asarray(lengths)
    if lengths.dtype.kind not in "iu" or lengths.shape != (batch,):
        raise ValueError(f"{name} had dtype {lengths.dtype} and shape {lengths.shape}; it must hold {batch} integers, one a sequence")
    for value in (lengths.min(), lengths.max()):
        if not 1 <= value <= time:
            raise ValueError(f"{name} held {value}; each must lie between 1 and the array's time, {time}")
    return lengths
