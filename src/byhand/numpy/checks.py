"""What a public operation looks at before it computes, and a model once for all the operations inside it.

An operation stands twice under one name: `linear(x, w)` checks its arguments and then applies the rule, and `linear.rule` is the rule alone.
A room that is built of others takes their rules, `linear, softmax = plain(linear, softmax)`, since it has checked what it hands them.
"""

import inspect
import math
from collections.abc import Callable
from functools import wraps

import numpy as np
from jaxtyping import Bool, Int

from ..record import Record

Array = np.ndarray


def checked(check: Callable, stages: bool = False) -> Callable:
    """Makes a rule public: `check` gets the arguments that it names and raises ValueError or IndexError for what cannot be meant.

    stages: the rule takes a record, and what it computes on the way must be finite too.
    """
    names = inspect.signature(check).parameters

    def decorate(rule):
        signature = inspect.signature(rule)

        @wraps(rule)
        def door(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            check(**{name: given.arguments[name] for name in names})
            if not stages:
                return rule(*args, **kwargs)
            record = given.arguments["record"] if given.arguments["record"].on else Record()
            given.arguments["record"] = record
            result = rule(*given.args, **given.kwargs)
            check_finite(**record.kept)
            return result

        door.rule = rule
        return door

    return decorate


def plain(*operations: Callable) -> list[Callable]:
    """The rules of these operations, without their checks."""
    return [getattr(operation, "rule", operation) for operation in operations]


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


def check_arrays(**values: Array) -> None:
    """Raise ValueError for the first value that is not a NumPy array."""
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} was {type(value).__name__}; it must be a NumPy array")


def check_mask(mask: Bool[Array, "..."], shape: tuple[int, ...], of: str | None = None) -> Bool[Array, "..."]:
    """The mask, after a check: booleans of that shape, a list of them too; where `of` names an array, an array that broadcasts to it."""
    mask = np.asarray(mask) if of is None else mask
    fits = isinstance(mask, np.ndarray) and mask.dtype == bool and mask.ndim <= len(shape)
    if fits and of is None:
        fits = mask.shape == shape
    if not fits or any(m not in (1, n) for m, n in zip(reversed(mask.shape), reversed(shape))):
        was = f"dtype {mask.dtype} and shape {mask.shape}" if isinstance(mask, np.ndarray) else f"type {type(mask).__name__}"
        must = f"a NumPy array of booleans that broadcasts to {of}, {shape}" if of else f"booleans of shape {shape}"
        raise ValueError(f"mask had {was}; it must be {must}")
    return mask


def check_tokens(name: str, tokens: Int[Array, "batch time"], vocab: int) -> None:
    """Raise unless tokens is a filled (batch, time) array of whole numbers in [0, vocab)."""
    if not isinstance(tokens, np.ndarray) or tokens.dtype.kind not in "iu":
        kind = tokens.dtype if isinstance(tokens, np.ndarray) else type(tokens).__name__
        raise ValueError(f"{name} was {kind}; it must be a NumPy array of integers")
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
