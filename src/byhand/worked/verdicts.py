"""Two results that ought to be the same: the bound within which they are, or the place where they are not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from byhand.check import measure
from byhand.worked import formatting as f
from byhand.worked.display import Written, html_table, text_table


@dataclass(frozen=True)
class Worst:
    """The entry where two arrays differ most, and the measure of that difference."""

    name: str
    place: tuple[int, ...]
    values: tuple[float, float]
    error: float


def difference(a: Any, b: Any, name: str = "") -> Worst:
    """max|a - b| / max(max|a|, max|b|, 1e-3), with the place and the values where it is reached. NaN counts as infinite."""
    a, b = _floats(a, "a", name), _floats(b, "b", name)
    if a.shape != b.shape:
        raise ValueError(f"{name or 'a'} had shape {a.shape}, the other {b.shape}; they must be the same")
    if not a.size:
        raise ValueError(f"{name or 'a'} had shape {a.shape}; it must have at least one entry")
    worst = measure.difference(a, b, name or "a")
    return Worst(name, worst.place, worst.values, worst.error)


def agreement(a: Any, b: Any, bound: float = 1e-12, names: tuple[str, str] = ("NumPy", "PyTorch"), what: str | None = None) -> Written:
    """max|a - b| / max(max|a|, max|b|, 1e-3) ≤ bound, or an AssertionError with the worst entry's name, place and values.

    a, b: arrays, torch tensors, SymPy matrices, numbers, or dicts of them with the same keys. Prints the bound that holds,
    never the residual, which differs from processor to processor.
    """
    bound = _checked_bound(bound)
    pairs = _pairs(a, b)
    worst = max((difference(x, y, key) for key, x, y in pairs), key=lambda w: w.error)
    if not worst.error <= bound:
        raise AssertionError(_complaint(worst, bound, names))
    entries = sum(f.as_array(x).size for _, x, _ in pairs)
    count = f"{entries} entries" if entries != 1 else "1 entry"
    if len(pairs) > 1:
        count = f"{len(pairs)} arrays, {count}"
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


def printed(claimed: Any, computed: Any, name: str | None = None, why: str | None = None) -> Written:
    """A document's print beside the computed value, with a verdict: 'as printed', or what the value rounds to.

    claimed: a figure as printed, a string that keeps its trailing zeros ("0.535", "1.75e-7"), a (nested) list of such, or one
    entry of claims.yml (its `printed` and `note` are used). computed: a number or an array of the same size. why: said where they differ.
    """
    return printed_table([(name if name is not None else "", claimed, computed, why)])


def printed_table(rows: Sequence[tuple]) -> Written:
    """One line for each (name, claimed, computed) or (name, claimed, computed, why): see `printed`."""
    rows = [_printed_row(*row) for row in rows]
    if not rows:
        raise ValueError("rows was empty; it must hold at least one (name, claimed, computed)")
    header = ["", "printed", "computed", "verdict"]
    table = [[name, shown, value, verdict] for name, shown, value, verdict, _ in rows]
    same = all(agrees for *_, agrees in rows)
    return Written(text_table([header, *table], left=(0, 3)), html=html_table(header, table, left=(0, 3)), value=same)


def as_printed(claimed: str, computed: Any) -> bool:
    """Whether a computed number, rounded as the print is (halves away from zero), gives the print."""
    return f.rounded_like(claimed, computed) == f.printed_decimal(claimed)


def _printed_row(name, claimed, computed, why=None):
    if isinstance(claimed, Mapping):
        why = why if why is not None else (claimed.get("note") if not claimed.get("agrees", True) else None)
        claimed = claimed["printed"]
    prints = _flat(claimed)
    values = f.as_array(computed, name or "computed").ravel()
    if len(prints) != len(values):
        raise ValueError(f"computed had {len(values)} numbers and claimed had {len(prints)}; {name or 'they'} must have as many")
    pairs = list(zip(prints, values))
    differing = [(p, v) for p, v in pairs if not as_printed(p, v)]
    if not differing:
        verdict = "as printed"
    else:
        said = dict.fromkeys(f"{p}: rounds to {f.rounded_like(p, v)}" if len(pairs) > 1 else f"rounds to {f.rounded_like(p, v)}" for p, v in differing)
        verdict = "; ".join(said) + (f": {why}" if why else "")
    return [name or "", _listed(claimed), _listed_values(computed, prints), verdict, not differing]


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
        return f.significant(array[()], 6) if small else f.with_decimal(array[()], places, "text")

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


def _floats(value, argument, name) -> np.ndarray:
    array = f.as_array(value, name or argument)
    if array.dtype == object:
        return np.array([f.decimal_of(x) for x in array.ravel()], dtype=float).reshape(array.shape)
    return array.astype(float)


def _checked_bound(bound) -> float:
    if not 0 < bound < 1:
        raise ValueError(f"bound was {bound!r}; it must lie between 0 and 1")
    return bound


def _complaint(worst: Worst, bound: float, names) -> str:
    where = (worst.name or "the array") + (f"[{', '.join(map(str, worst.place))}]" if worst.place else "")
    return (
        f"{names[0]} and {names[1]} differ by more than {bound_text(bound)}, most at {where}: "
        f"{names[0]} {worst.values[0]:.15g}, {names[1]} {worst.values[1]:.15g} (measure {worst.error:.2g})"
    )
