"""The reader writes an operation, and this says how it differs from the book's."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .copies import fresh
from .diagnosis import diagnose
from .doors import checked
from .measure import FLOOR, TOO_SMALL, as_floats, difference

BOUND = 1e-9
BOUND_FLOAT32 = 1e-5


@dataclass(frozen=True)
class Verdict:
    """Whether the reader's function is right, and the sentence that says so."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


@checked()
def attempt(
    function: Callable, reference: Callable | str, *arguments: Any, mistakes: Mapping[str, Callable] | None = None, returns: tuple[str, ...] = ()
) -> Verdict:
    """Run both functions on the same arguments and compare every array: agreement(mine, wanted) ≤ 1e-9, in float32 1e-5

    attempt(my_attention, "attention") takes reference, arguments and known mistakes from the book's exercise of that name (check.exercises).

    A function that returns None counts as not written yet; one that raises, or whose result is not finite, is told in which line. `mistakes`
    maps what a known mistake is called to a function that makes it: where the reader's result, or one of its arrays, equals that one's, the
    verdict names the mistake. Any other difference is described as far as its shape tells (check.diagnosis): a factor, a sign, exchanged axes or
    outputs, a term missing, or two of these together. `returns` names the arrays.
    Each function may return one array or a tuple of arrays, with a cache beside it or a dict of gradients in it, and gets copies of the
    arguments: it may write into them. Raises ValueError for a name that is no exercise's.
    """
    if not isinstance(reference, str):
        return _judged(function, reference, arguments, mistakes or {}, returns)
    from .exercises import EXERCISES  # looked up only where it is asked for

    if reference not in EXERCISES:
        raise ValueError(f"reference was {reference!r}; it must be a function, or one of {', '.join(EXERCISES)}")
    exercise = EXERCISES[reference]
    for sample in exercise.samples:
        verdict = _judged(function, exercise.answer, sample, exercise.mistaken(), exercise.returns)
        if not verdict:
            break
    return verdict


def _judged(function, reference, arguments, mistakes, returns):
    """The verdict on one set of arguments."""
    own = fresh(arguments)
    try:
        with np.errstate(all="ignore"):
            returned = function(*own)
    except Exception as error:  # whatever a reader's code does is theirs to hear about, in words
        return Verdict(False, f"Not yet: {_raised(error, function)}")
    if returned is None:
        return Verdict(False, f"{getattr(function, '__name__', 'the function')} returns nothing yet: write it, run the cell again.")
    wanted = _arrays(reference(*fresh(arguments)), "what the reference returned")
    parts = _parts(returned, len(wanted))
    bound = BOUND_FLOAT32 if any(_single(part) for part in parts) else BOUND
    try:
        mine = _arrays(parts, "what the function returned")
    except ValueError as error:
        return Verdict(False, f"Not yet: {error}.")
    if _alike(mine, wanted) and all(_compared(mine, wanted, bound)):
        return Verdict(True, f"Right: every entry agrees within {bound:.0e}.")
    returns = returns if len(returns) == len(wanted) else tuple(f"array {k}" for k in range(len(wanted)))
    known = _known(mine, wanted, arguments, mistakes, bound, returns) or _other_number(mine, wanted, bound, returns)
    if known:
        return Verdict(False, f"Not yet: {known}.")
    others = _others(function, arguments)
    for name, got, right in zip(returns, mine, wanted, strict=True):
        if got.shape != right.shape:
            more = diagnose(got, right, bound).removeprefix(f"shape {got.shape} for {right.shape}").lstrip(":, ") if got.size else ""
            more = f" What it looks like: {more}." if more else ""
            return Verdict(False, f"Not yet: {_which(name, wanted)}the shape is {got.shape}; it must be {right.shape}.{more}")
    found = _compared(mine, wanted, bound)
    if False not in found:
        which = _which(returns[found.index(None)], wanted)
        return Verdict(False, f"Not yet: {which}{TOO_SMALL}: every entry, yours and the right one, is below {FLOOR:g}. Try larger arguments.")
    number = found.index(False)
    others |= {name: array for name, array in zip(returns, wanted) if array is not wanted[number]}
    message = _which(returns[number], wanted) + _first_difference(mine[number], wanted[number], bound)
    if not np.isfinite(mine[number]).all() and np.isfinite(wanted[number]).all():
        return Verdict(False, f"Not yet: {message}{_where_it_broke(function, arguments)}")
    return Verdict(False, f"Not yet: {message}{_cause(mine[number], wanted[number], bound, others)}")


def _known(mine, wanted, arguments, mistakes, bound, returns):
    """Which known mistake gives the reader's arrays, all of them or each that is wrong by itself; "" where none does."""
    wrong = {}
    for name, mistaken in mistakes.items():
        try:
            with np.errstate(all="ignore"):
                theirs = _arrays(mistaken(*fresh(arguments)), f"what 'when {name}' returned")
        except Exception:  # a mistake that these shapes do not allow
            continue
        if _alike(mine, theirs) and not (_alike(wanted, theirs) and all(_compared(wanted, theirs, bound))) and _equal(mine, theirs, bound):
            return f"this is what comes out when {name}"
        if len(mine) == len(wanted) == len(theirs) > 1:
            for k, (got, right, their) in enumerate(zip(mine, wanted, theirs, strict=True)):
                if not _same(their, right, bound) and _same(got, their, bound):
                    wrong.setdefault(k, name)
    if len(mine) != len(wanted):
        return ""
    places = [k for k, (got, right) in enumerate(zip(mine, wanted, strict=True)) if not _same(got, right, bound)]
    return "; ".join(f"{returns[k]} is what comes out when {wrong[k]}" for k in places) if wrong.keys() >= set(places) else ""


def _other_number(mine, wanted, bound, returns):
    """Arrays in another order, or too many or too few of them: which of them are right, and where; "" where this is not it."""
    if len(wanted) < 2:
        return "" if len(mine) == 1 else f"1 array wanted, {len(mine)} returned"
    order = [next((k for k, right in enumerate(wanted) if _same(got, right, bound)), None) for got in mine]
    found = ", ".join("?" if k is None else returns[k] for k in order)
    if len(mine) == len(wanted):
        exchanged = sorted(k for k in order if k is not None) == [*range(len(wanted))] != order
        return f"the arrays are right, but in the order {found}; it must be {', '.join(returns)}" if exchanged else ""
    words = f"{len(wanted)} arrays wanted, {len(mine)} returned"
    return f"{words}: yours are {found}, wanted are {', '.join(returns)}" if any(k is not None for k in order) else words


def _where_it_broke(function, arguments):
    """In which line of the reader's a number stopped being finite."""
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            function(*fresh(arguments))
    except FloatingPointError as error:
        return f" It begins with this: {_raised(error, function)}."
    except Exception:  # it did not raise before
        pass
    return ""


def _parts(returned, n):
    """What a function gave back as n arrays: a cache beside one array is left out, a dict of gradients gives its values."""
    parts = returned if isinstance(returned, tuple) else (returned,)
    if n == 1 and len(parts) > 1 and not any(isinstance(part, Mapping) for part in parts) and isinstance(parts[1], tuple):
        return parts[:1]
    if len(parts) == 1 or len(parts) == n:
        return parts
    return tuple(value for part in parts for value in (part.values() if isinstance(part, Mapping) else (part,)))


def _single(part):
    return "float32" in str(getattr(part, "dtype", ""))


def _same(a, b, bound):
    """Whether they agree; NaN agrees with NaN where something beside it is a number."""
    return a.shape == b.shape and (not a.size or (difference(a, b).holds(bound) is True and np.isfinite(a).any()))


def _equal(these, those, bound):
    return all(_same(a, b, bound) for a, b in zip(these, those, strict=True))


def _alike(these, those):
    return len(these) == len(those) and all(a.shape == b.shape for a, b in zip(these, those, strict=True))


def _raised(error, function):
    """The exception in words, and the reader's own line where it arose."""
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    where = f" in your line `{lines[-1].line}`" if lines and lines[-1].line else ""
    words = str(error).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}{where}" + (f": {words}" if words else "")


def _others(function, arguments):
    """The arguments that are arrays, under the names that the reader's function gives them."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    names += [f"argument {k}" for k in range(len(names), len(arguments))]
    return {name: value for name, value in zip(names, arguments) if isinstance(value, np.ndarray) and value.ndim and value.size}


def _cause(mine, right, bound, others):
    """What the difference looks like, as a sentence; "" where it looks like nothing known."""
    if not (np.isfinite(mine).all() and np.isfinite(right).all()):
        return ""
    rows = [np.abs(x.sum(axis=-1) - 1).max() < 1e-6 for x in (right, mine)]
    if rows == [True, False]:
        axes = [axis for axis in range(mine.ndim - 1) if np.abs(mine.sum(axis=axis) - 1).max() < 1e-6]
        if axes:
            return f" Each slice along axis {axes[0]} sums to 1, where each row must: the softmax runs over the wrong axis."
    found = diagnose(mine, right, bound, others)
    if not found or found.startswith(("it differs in no way", "nearly right")):
        found = _two(mine, right, bound, others) or found
    return "" if not found or found.startswith("it differs in no way") else f" What it looks like: {found}."


def _two(mine, right, bound, others):
    """Two mistakes together: one of a few is undone, and what is left has a name."""
    if right.size == 1:  # by two steps any number comes from another
        return ""
    undone = {"the sign is wrong everywhere": -mine}
    if mine.ndim >= 2 and mine.shape[-1] == mine.shape[-2]:
        undone["the last two axes are exchanged"] = mine.swapaxes(-1, -2)
    for name, other in others.items():
        if other.shape == right.shape:
            undone[f"{name} is missing from the sum"] = mine + other
            undone[f"{name} is added"] = mine - other
    for first, rest in undone.items():
        second = diagnose(rest, right, bound)
        if second and not second.startswith(("it differs in no way", "nearly right", "only ")):
            return f"it looks like two mistakes together: {first}, and then {second}"
    return ""


def _arrays(value, name):
    return tuple(as_floats(part, name) for part in (value if isinstance(value, tuple) else (value,)))


def _compared(these, those, bound):
    """For each pair whether it agrees; an empty array is nothing to compare, and equal to another of its shape."""
    return [True if not a.size else difference(a, b).holds(bound) if not np.isnan(a).any() else False for a, b in zip(these, those, strict=True)]


def _which(name, wanted):
    return f"{name}: " if len(wanted) > 1 else ""


def _first_difference(got, right, bound):
    worst = difference(got, right)
    allowed = bound * max(worst.size, FLOOR)
    with np.errstate(invalid="ignore"):
        wrong = ~((got == right) | (np.abs(got - right) <= allowed))  # NaN is not at most anything, an infinity is equal to itself
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    if got.size == 1:
        return f"it is {got[place]:.6g}, and it must be {right[place]:.6g}."
    how_many = f"the shape is right, but {np.count_nonzero(wrong)} of {wrong.size} entries differ"
    return f"{how_many}; the first at {place}: {got[place]:.6g}, and it must be {right[place]:.6g}."
