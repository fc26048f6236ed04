"""The reader writes an operation, and this says how it differs from the book's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .copies import fresh
from .measure import FLOOR, TOO_SMALL, as_floats, difference

BOUND = 1e-9


@dataclass(frozen=True)
class Verdict:
    """Whether the reader's function is right, and the sentence that says so."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


def attempt(
    function: Callable, reference: Callable, *arguments: Any, mistakes: Mapping[str, Callable] | None = None
) -> Verdict:
    """Run both functions on the same arguments and compare shapes first, then every array: agreement(mine, wanted) ≤ 1e-9

    A function that returns None counts as not written yet. `mistakes` maps what a known mistake is called to a
    function that makes it: where the reader's result equals that one's, the verdict names the mistake.
    Each function may return one array or a tuple of arrays, and gets copies of the arguments: it may write into them.
    """
    mine = function(*fresh(arguments))
    if mine is None:
        return Verdict(False, f"{getattr(function, '__name__', 'the function')} returns nothing yet: write it, run the cell again.")
    mine, wanted = _arrays(mine, "what the function returned"), _arrays(reference(*fresh(arguments)), "what the reference returned")
    if len(mine) != len(wanted):
        return Verdict(False, f"Not yet: {len(wanted)} arrays wanted, {len(mine)} returned.")
    for number, (got, right) in enumerate(zip(mine, wanted, strict=True)):
        if got.shape != right.shape:
            return Verdict(False, f"Not yet. {_which(number, wanted)}the shape is {got.shape}; it must be {right.shape}.")
    found = _compared(mine, wanted)
    if all(found):
        return Verdict(True, f"Right: every entry agrees within {BOUND:.0e}.")
    for name, mistaken in (mistakes or {}).items():
        theirs = _arrays(mistaken(*fresh(arguments)), f"what 'when {name}' returned")
        if len(theirs) == len(mine) and all(a.shape == b.shape for a, b in zip(mine, theirs, strict=True)) and all(_compared(mine, theirs)):
            return Verdict(False, f"Not yet: this is what comes out when {name}.")
    if False not in found:
        which = _which(found.index(None), wanted)
        return Verdict(False, f"Not yet. {which}{TOO_SMALL}: every entry, yours and the right one, is below {FLOOR:g}. Try larger arguments.")
    return Verdict(False, _first_difference(mine, wanted, found))


def _arrays(value, name):
    return tuple(as_floats(part, name) for part in (value if isinstance(value, tuple) else (value,)))


def _compared(these, those):
    """For each pair whether it agrees; an empty array is nothing to compare, and equal to another of its shape."""
    return [True if not a.size else difference(a, b).holds(BOUND) if not np.isnan(a).any() else False for a, b in zip(these, those, strict=True)]


def _which(number, wanted):
    return f"Array {number}: " if len(wanted) > 1 else ""


def _first_difference(mine, wanted, found):
    number = found.index(False)
    got, right = mine[number], wanted[number]
    worst = difference(got, right)
    allowed = BOUND * max(worst.size, FLOOR)
    with np.errstate(invalid="ignore"):
        wrong = ~((got == right) | (np.abs(got - right) <= allowed))  # NaN is not at most anything, an infinity is equal to itself
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"Not yet. {_which(number, wanted)}the shape is right, but {np.count_nonzero(wrong)} of {wrong.size} entries differ; the first at {place}: "
        f"{got[place]:.6g}, and it must be {right[place]:.6g}."
    )
