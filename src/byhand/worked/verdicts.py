"""Two results that ought to be the same: the bound within which they are, or the place where they are not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from byhand.check import measure
from byhand.worked import formatting as f
from byhand.worked.display import Written, html_table, table, text_table


def agreement(a: Any, b: Any, bound: float = 1e-12, names: tuple[str, str] = ("NumPy", "PyTorch"), what: str | None = None) -> Written:
    """max|a - b| / max(max|a|, max|b|, 1e-3) ≤ bound, or an AssertionError with the worst entry's name, place and values.

    a, b: arrays, torch tensors, SymPy matrices, numbers, or dicts of them with the same keys. Prints the bound that holds,
    never the residual, which differs from processor to processor. What is too small to tell (measure.Difference.holds) is said to be
    so, and an AssertionError where nothing else was compared. An array of zeros in its own right is the claim that the other is 0.
    """
    if not 0 < bound < 1:
        raise ValueError(f"bound was {bound!r}; it must lie between 0 and 1")
    apart = {key: measure.difference(x, y, key or "a") for key, x, y in _pairs(a, b)}
    worst = max(apart, key=lambda key: apart[key].error)
    if not apart[worst].error <= bound:
        error, place, (x, y) = apart[worst][:3]
        where = (worst or "the array") + (f"[{', '.join(map(str, place))}]" if place else "")
        raise AssertionError(
            f"{names[0]} and {names[1]} differ by more than {bound_text(bound)}, most at {where}: "
            f"{names[0]} {x:.15g}, {names[1]} {y:.15g} (measure {error:.2g})"
        )
    zero = not isinstance(a, Mapping) and not (np.any(f.as_array(a) != 0) and np.any(f.as_array(b) != 0))
    small = [key for key in apart if not zero and apart[key].holds(bound) is None]
    if len(small) == len(apart):
        raise AssertionError(f"{names[0]} and {names[1]} lie both below {measure.FLOOR:g}, {measure.TOO_SMALL}: the larger has size {apart[worst].size:.2g}")
    entries = sum(f.as_array(x).size for _, x, _ in _pairs(a, b))
    count = f"{entries} entries" if entries != 1 else "1 entry"
    if len(apart) > 1:
        # how many depends on the processor, where rounding is as large as they are
        count = f"{len(apart)} arrays, {count}" + (f"; some {measure.TOO_SMALL}" if small else "")
    subject = f"{what}: " if what else ""
    return Written(f"{subject}{names[0]} and {names[1]} agree within {bound_text(bound)} ({count})", value=bound)


def witnesses(reference: Any, others: Mapping[str, Any], bounds: Mapping[str, float] | float = 1e-9, name: str = "by hand") -> Written:
    """A table of witnesses for one gradient: each agrees with the reference within its bound, or an AssertionError.

    reference: the hand-written gradient (an array or a dict of arrays). others: {"PyTorch's autograd": ..., "central
    differences": ...}. bounds: one for all, or one for each of `others`.
    """
    if not others:
        raise ValueError("others was empty; it must name at least one witness")
    if isinstance(bounds, Mapping) and set(bounds) != set(others):
        raise ValueError(f"bounds named {sorted(bounds)}; it must name the witnesses {sorted(others)}")
    rows = []
    for witness, value in others.items():
        bound = bounds[witness] if isinstance(bounds, Mapping) else bounds
        agreement(reference, value, bound, names=(name, witness))
        rows.append([witness, f"agrees within {bound_text(bound)}"])
    header = ["witness", f"beside {name}"]
    return Written(text_table([header, *rows]), html=html_table(header, rows, left=(0, 1)))


def printed_table(rows: Sequence[tuple[str, Any, Any]]) -> Written:
    """A document's prints beside computed values, one line for each (name, claimed, computed), with a verdict: 'as printed', or what the value rounds to.

    claimed: a figure as printed, a string that keeps its trailing zeros ("0.535", "1.75e-7"), or a (nested) list of such. computed: a
    number or an array of the same size. `value` says whether all are as printed.
    """
    rows = [_printed_row(*row) for row in rows]
    if not rows:
        raise ValueError("rows was empty; it must hold at least one (name, claimed, computed)")
    shown = table(["", "printed", "computed", "verdict"], rows, left=(0, 3))
    return replace(shown, value=all(verdict == AS_PRINTED for *_, verdict in rows))


AS_PRINTED = "as printed"


def _printed_row(name, claimed, computed) -> list[str]:
    prints, values = _flat(claimed), f.as_array(computed, name).ravel()
    if len(prints) != len(values):
        raise ValueError(f"computed had {len(values)} numbers and claimed had {len(prints)}; {name} must have as many")
    differing = [(p, f.rounded_like(p, v)) for p, v in zip(prints, values) if not f.rounds_half_up(v, p)]
    return [name, _listed(claimed), _listed_values(computed, prints), _verdict(dict.fromkeys(differing), len(differing), len(prints))]


def _verdict(said, differing, entries) -> str:
    """What one entry rounds to; of several that differ, how many, since printed and computed stand beside."""
    if not said:
        return AS_PRINTED
    if len(said) > 1:
        return f"{differing} of {entries} entries differ"
    printed, rounded = next(iter(said))
    return f"{printed}: rounds to {rounded}" if entries > 1 else f"rounds to {rounded}"


def _flat(claimed) -> list[str]:
    if isinstance(claimed, (list, tuple)):
        return [leaf for part in claimed for leaf in _flat(part)]
    return [str(claimed)]


def _listed(claimed) -> str:
    if isinstance(claimed, (list, tuple)):
        return "[" + ", ".join(_listed(part) for part in claimed) + "]"
    return str(claimed)


def _listed_values(computed, prints) -> str:
    """The computed numbers, three places finer than the print (a print in scientific notation: 6 figures)."""
    array = f.as_array(computed)
    small = any("e" in p or "^" in p for p in prints)
    places = max(f.printed_places(p) for p in prints) + 3
    if array.ndim == 0:
        return f.significant(array[()], 6) if small else f.TEXT.decimal(array[()], places)

    def write(part):
        return (f.significant(part, 6) if small else f.text(part, places)) if np.ndim(part) == 0 else "[" + ", ".join(write(p) for p in part) + "]"

    return write(array)


def bound_text(bound: float) -> str:
    """A bound as it is written on a page: 1e-12."""
    return f.text(float(bound), 3, 0.0)


def _pairs(a, b) -> list[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise ValueError("a and b must both be dicts, or neither")
    if not isinstance(a, Mapping):
        return [("", a, b)]
    if set(a) != set(b) or not a:
        missing, extra = sorted(set(a) - set(b)), sorted(set(b) - set(a))
        raise ValueError(f"b lacked {missing} and had {extra} beside; a and b must have the same keys, and at least one")
    return [(key, a[key], b[key]) for key in a]
