"""Two implementations, stage by stage: which is the first to differ, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .diagnosis import diagnose
from .doors import checked
from .measure import TOO_SMALL, as_floats, difference
from .report import Report, Row, counted, place_text, within
from .watch import Watched

Array = np.ndarray


@dataclass(frozen=True)
class StageRow(Row):
    """One stage. mine: the name that it was compared under on the other side; how: the difference in words."""

    mine: str = ""
    how: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Report):
    """The stages that were compared, in the reference's order, and those that found no partner."""

    only_mine: tuple[str, ...] = ()
    only_reference: tuple[str, ...] = ()

    @property
    def first(self) -> StageRow | None:
        """The first stage that differs."""
        return self.failures[0] if self.failures else None

    def header(self):
        return ["stage", "mine", "verdict"]

    def cells(self, row):
        return [row.name, "" if row.mine == row.name else row.mine, row.verdict]

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self._unmatched()])

    def _repr_mimebundle_(self, include=None, exclude=None):
        import html

        bundle = super()._repr_mimebundle_(include, exclude)
        bundle["text/html"] += "".join(f"<p>{html.escape(line)}</p>" for line in self._unmatched())
        return bundle

    def _unmatched(self):
        return [f"{words}: {_some(names)}" for words, names in (("only mine", self.only_mine), ("only in the reference", self.only_reference)) if names]


@checked()
def compare(
    mine: Any,
    reference: Any,
    names: Mapping[str, str] | None = None,
    bound: float = 1e-9,
) -> Comparison:
    """agreement(mine, reference) ≤ bound, for every stage; the first that differs is named, and how it differs

    mine, reference: dicts of activations or of gradients in the order of computing (arrays or tensors); what check.watch saw, of which the
    activations count; or a torch module, of whose parameters the gradients count. A parameter at which no gradient arrived (None) differs from one
    at which one did. Two arrays below the measure's floor that do not agree by their own size are too small to tell, and left open.
    names maps names of mine to the reference's. Without it equal names belong together; where less than half are equal, the others are paired
    by shape and order.
    Raises ValueError where nothing can be paired, and for a name in `names` that does not exist.
    """
    mine, reference = _arrays(mine, "mine"), _arrays(reference, "reference")
    pairs = _pairs(mine, reference, names, bound)
    if not pairs:
        raise ValueError(f"mine had {_some(mine)} and the reference {_some(reference)}; at least two must agree in name or in shape, or stand in `names`")
    rows = tuple(_row(name, partner, mine, reference, bound) for name, partner in pairs.items())
    failed = [row for row in rows if row.holds is False]
    held, left = sum(row.holds is True for row in rows), sum(row.holds is None for row in rows)
    title = f"{counted(held, 'stage')} agree{'s' * (held == 1)} {within(bound)}" if held else f"no stage agrees {within(bound)}"
    if failed:
        title = f"{len(failed)} of {counted(len(rows), 'stage')} differ{'s' * (len(failed) == 1)}; the first is {failed[0].name}: {failed[0].how}"
    if left:
        title += f"; {left} left open"
    used = set(pairs.values())
    return Comparison(title, rows, tuple(n for n in mine if n not in used), tuple(n for n in reference if n not in pairs))


def _row(name, partner, mine, reference, bound):
    value, right = mine[partner], reference[name]
    if isinstance(value, NoGradient) or isinstance(right, NoGradient):
        return _missing(name, partner, mine, reference)
    if value.shape == right.shape:
        worst = difference(value, right, name)
        holds = worst.holds(bound)
        if holds is not False:
            return StageRow(name, holds, worst.error, "", f"agrees {within(bound)}" if holds else f"left open: {TOO_SMALL}", partner)
        error, where = worst.error, place_text(worst.place)
    else:
        error, where = float("inf"), ""
    mine, reference = _present(mine), _present(reference)
    # a path that leads back here, as ….out.via_residual does, is the likeliest to be missing; perhaps mine alone has recorded it
    paths = _paths(mine | reference)
    own = {path: array for path, array in paths.items() if path.startswith((f"{name}.via_", f"{partner}.via_"))}
    others = {other: array for other, array in reference.items() if other != name}
    how = diagnose(value, right, bound, others, own | paths)
    return StageRow(name, False, error, where, f"differs: {how}", partner, how)


def _paths(arrays):
    """Every recorded path, and all that lead from one place together."""
    paths = {name: array for name, array in arrays.items() if ".via_" in name}
    for place in dict.fromkeys(name.partition(".via_")[0] for name in paths):
        together = [array for name, array in paths.items() if name.startswith(f"{place}.via_")]
        if len(together) > 1:
            paths[f"{place}, by all its paths,"] = sum(together)
    return paths


@dataclass(frozen=True)
class NoGradient:
    """Stands where a gradient should be and none has arrived."""

    shape: tuple[int, ...] | None = None


def _missing(name, partner, mine, reference):
    """Where no gradient arrived: a difference, unless on neither side."""
    if isinstance(mine[partner], NoGradient) and isinstance(reference[name], NoGradient):
        return StageRow(name, None, None, "", "left open: no gradient on either side", partner)
    lacking, arrived = (mine, "in mine") if isinstance(mine[partner], NoGradient) else (reference, "in the reference")
    how = f"no gradient arrived {arrived}, but at {_some(_present(lacking))}: the graph is cut between them (detach, no_grad, .data), or it is not trained"
    return StageRow(name, False, float("inf"), "", f"differs: {how}", partner, how)


def _present(arrays):
    return {name: array for name, array in arrays.items() if not isinstance(array, NoGradient)}


def _arrays(value, argument):
    if isinstance(value, Watched):
        value = value.activations
    elif hasattr(value, "named_parameters"):  # a torch module, known without importing torch
        value = {name: NoGradient(tuple(p.shape)) if p.grad is None else p.grad for name, p in value.named_parameters()}
    if not isinstance(value, Mapping):
        raise ValueError(f"{argument} was {type(value).__name__}; it must be a dict of arrays, a torch module after backward, or what check.watch saw")
    value = {name: NoGradient() if array is None else array for name, array in value.items()}
    if value and not _present(value):
        raise ValueError(
            f"{argument} was without gradients: none arrived at any parameter ({_some(value)}). Either backward was not called, or the graph is cut "
            f"(detach, no_grad, .data); to compare activations, watch the module (check.watch)"
        )
    return {n: array if isinstance(array, NoGradient) else as_floats(array, n) for n, array in value.items() if np.size(array) or hasattr(array, "detach")}


# ---- who belongs to whom ------------------------------------------------------------------------


def _pairs(mine, reference, names, bound):
    """The reference's name to mine, in the reference's order."""
    pairs = {}
    for mine_name, name in (names or {}).items():
        if not isinstance(name, str) or mine_name not in mine or name not in reference:
            raise ValueError(
                f"names held {mine_name!r}: {name!r}; the first must be one of mine ({_some(mine)}), the second one of the reference's ({_some(reference)})"
            )
        pairs[name] = mine_name
    if names is None:
        pairs = {name: name for name in reference if name in mine}
        if 2 * len(pairs) < min(len(mine), len(reference)):  # one name that happens to be shared must not leave all others uncompared
            pairs |= _by_shape_and_order(*({n: side[n] for n in side if n not in pairs} for side in (mine, reference)), bound)
    return {name: pairs[name] for name in reference if name in pairs}


def _by_shape_and_order(mine, reference, bound):
    """Neither side's order is changed: of all such pairings, the one in which the most stages agree, then the one with the most equal shapes."""
    left, right = list(reference), list(mine)
    worth = np.array([[_worth(mine[b], reference[a], bound) for b in right] for a in left]).reshape(len(left), len(right))
    best = np.zeros((len(left) + 1, len(right) + 1))  # best[i, j]: what the stages from i and j on can reach
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            both = worth[i, j] + best[i + 1, j + 1] if worth[i, j] else 0
            best[i, j] = max(best[i + 1, j], best[i, j + 1], both)
    pairs, i, j = {}, 0, 0
    while i < len(left) and j < len(right):
        if worth[i, j] and best[i, j] == worth[i, j] + best[i + 1, j + 1]:
            pairs[left[i]] = right[j]
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs


def _worth(mine, right, bound):
    """An agreement outweighs any number of equal shapes, and one of these any number of shapes with their axes exchanged."""
    arrays = not isinstance(mine, NoGradient) and not isinstance(right, NoGradient)
    if mine.shape is not None and mine.shape == right.shape:
        return 1e6 if arrays and difference(mine, right).holds(bound) else 1e3
    if not arrays or sorted(mine.shape) != sorted(right.shape):
        return 0.0
    return 9e5 if diagnose(mine, right, bound).count("transposed") else 1.0


def _some(names, most=4):
    names = list(names)
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
