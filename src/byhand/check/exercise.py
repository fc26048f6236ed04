"""The reader writes an operation, and this says how it differs from the book's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TOLERANCE = 1e-9


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
    """Run both functions on the same arguments and compare shapes first, then every entry.

    A function that returns None counts as not written yet. `mistakes` maps what a known mistake is called to a
    function that makes it: where the reader's result equals that one's, the verdict names the mistake.
    Each function may return one array or a tuple of arrays.
    """
    mine = function(*arguments)
    if mine is None:
        return Verdict(False, f"{function.__name__} returns nothing yet: write it, run the cell again.")
    mine, wanted = _arrays(mine), _arrays(reference(*arguments))
    if len(mine) != len(wanted):
        return Verdict(False, f"Not yet: {len(wanted)} arrays wanted, {len(mine)} returned.")
    for number, (got, right) in enumerate(zip(mine, wanted, strict=True)):
        which = f"Array {number}: " if len(wanted) > 1 else ""
        if got.shape != right.shape:
            return Verdict(False, f"Not yet. {which}the shape is {got.shape}; it must be {right.shape}.")
    wrong = [~np.isclose(got, right, rtol=TOLERANCE, atol=TOLERANCE) for got, right in zip(mine, wanted, strict=True)]
    if not any(places.any() for places in wrong):
        return Verdict(True, f"Right: every entry agrees within {TOLERANCE:.0e}.")
    for name, mistaken in (mistakes or {}).items():
        if _same(mine, _arrays(mistaken(*arguments))):
            return Verdict(False, f"Not yet: this is what comes out when {name}.")
    return Verdict(False, _first_difference(mine, wanted, wrong))


def _arrays(value):
    return tuple(np.asarray(part, dtype=float) for part in (value if isinstance(value, tuple) else (value,)))


def _same(these, those):
    return len(these) == len(those) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)
        for a, b in zip(these, those, strict=True)
    )


def _first_difference(mine, wanted, wrong):
    number = next(i for i, places in enumerate(wrong) if places.any())
    place = tuple(int(i) for i in np.argwhere(wrong[number])[0])
    count, size = int(wrong[number].sum()), wrong[number].size
    which = f"Array {number}: " if len(wanted) > 1 else ""
    return (
        f"Not yet. {which}the shape is right, but {count} of {size} entries differ; the first at {place}: "
        f"{mine[number][place]:.6g}, and it must be {wanted[number][place]:.6g}."
    )
