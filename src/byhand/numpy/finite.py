"""What is not finite is refused once, where it enters: by the operation that a caller uses, or by the whole model."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_inside_a_model = ContextVar("_inside_a_model", default=False)


@contextmanager
def checked_by_the_model() -> Iterator[None]:
    """While this runs the operations let pass what is not finite: the model looks for it itself, and names the stage."""
    token = _inside_a_model.set(True)
    try:
        yield
    finally:
        _inside_a_model.reset(token)


def inside_a_model() -> bool:
    return _inside_a_model.get()


def is_finite(value: np.ndarray) -> bool:
    """Whether every entry is a finite number."""
    # A sum of squares is quick; it can overflow, so only the slow look decides.
    return math.isfinite(np.vdot(value, value)) or bool(np.isfinite(value).all())


def check_finite(**values: np.ndarray) -> None:
    """Raise ValueError for the first value that holds NaN or an infinity, unless a model does the looking."""
    if inside_a_model():
        return
    for name, value in values.items():
        if not is_finite(value):
            refuse(name, value, ~np.isfinite(value))


def refuse(name: str, value: np.ndarray, where: np.ndarray) -> None:
    """Raise ValueError naming the first entry at which `where` is True."""
    place = tuple(int(i) for i in np.argwhere(where)[0])
    raise ValueError(f"{name} held {value[place]} at {place}; every entry must be a finite number")


def check_arrays(**values: np.ndarray) -> None:
    """Raise ValueError for the first value that is not a NumPy array."""
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} was {type(value).__name__}; it must be a NumPy array")


def check_mask(mask: np.ndarray, shape: tuple[int, ...], of: str) -> None:
    """Raise ValueError unless mask holds booleans and broadcasts to the shape, without making it larger."""
    fits = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim <= len(shape)
    if not fits or any(m not in (1, n) for m, n in zip(reversed(mask.shape), reversed(shape))):
        was = f"dtype {mask.dtype} and shape {mask.shape}" if isinstance(mask, np.ndarray) else f"type {type(mask).__name__}"
        raise ValueError(f"mask had {was}; it must be a NumPy array of booleans that broadcasts to {of}, {shape}")
