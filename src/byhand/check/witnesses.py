"""The four witnesses for the gradients of a worked example, side by side."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..doors import whole
from ..numpy import step
from ..toy import check_case
from .derivatives import numerical_gradient
from .doors import checked
from .measure import FLOOR, TOO_SMALL, difference
from .report import Report, Row, off_by, place_text, within

BOUNDS = {"PyTorch": 1e-10, "central differences": 1e-6, "SymPy": 1e-12}


@dataclass(frozen=True)
class WitnessRow(Row):
    """entries: how many numbers the parameter has; verdicts: one for each witness."""

    entries: int = 0
    verdicts: tuple[str, ...] = ()


class WitnessReport(Report):
    """One row for each parameter, one column for each witness."""

    def header(self) -> list[str]:
        return ["parameter", "entries", *BOUNDS]

    def cells(self, row: WitnessRow) -> list[str]:
        return [row.name, str(row.entries), *row.verdicts]


@checked()
def four_witnesses(case: Any, parameters: Iterable[str] | None = None, exact_entries: int | None = None) -> WitnessReport:
    """The hand-written gradient of each parameter beside PyTorch's autograd, central differences and SymPy's exact derivative.

    case: a worked example (byhand.toy). parameters: their names, all unless given. exact_entries: of each parameter, at
    most so many entries, spread evenly, go to SymPy, which takes some hundredths of a second for each; all unless given.
    The bounds are the book's: 1e-10, 1e-6 and 1e-12; a gradient that is too small for its witness is said to be so, unless SymPy's
    derivative is 0 as an expression. Imports torch and SymPy.
    """
    check_case(case)
    if exact_entries is not None:
        whole("exact_entries", exact_entries)
    names = list(case.params) if parameters is None else list(parameters)
    for name in names:
        if name not in case.params:
            raise ValueError(f"parameters held {name!r}; this case has {', '.join(case.params)}")
    by_hand, autograd = step.run(case).gradients.params, _torch_gradients(case)
    rows = [_row(case, name, by_hand[name], autograd[name], exact_entries) for name in names]
    return WitnessReport("gradients by hand, and three witnesses", tuple(rows))


def _row(case, name, by_hand, autograd, exact_entries):
    places = _places(by_hand.shape, exact_entries)
    exact = _exact(case, name, places)
    found = {
        "PyTorch": difference(by_hand, autograd),
        "central differences": difference(by_hand, numerical_gradient(lambda value: loss_with(case, name, value), case.params[name])),
        "SymPy": difference(np.array([by_hand[place] for place in places]), exact),
    }
    holds = {witness: found[witness].holds(bound) for witness, bound in BOUNDS.items()}
    nothing = not any(exact)  # a derivative that is 0 as an expression: how near to it the gradient comes is then no question of its own size
    if nothing and holds["SymPy"] is None:
        holds["SymPy"] = True
    failing = [witness for witness in BOUNDS if holds[witness] is False]
    verdicts = [{True: within(bound), False: off_by(found[w].error), None: TOO_SMALL}[holds[w]] for w, bound in BOUNDS.items()]
    if nothing and holds["SymPy"]:
        verdicts[-1] = f"0 {within(BOUNDS['SymPy'] * FLOOR)}"
    if len(places) < by_hand.size:
        verdicts[-1] += f" ({len(places)} of them)"
    where = f"{failing[0]} at {place_text(found[failing[0]].place)}" if failing else ""
    together = False if failing else True if all(holds.values()) else None
    return WitnessRow(name, together, max(d.error for d in found.values()), where, "", by_hand.size, tuple(verdicts))


def _places(shape, most):
    places = list(np.ndindex(shape))
    if most is None or most >= len(places):
        return places
    return [places[round(i)] for i in np.linspace(0, len(places) - 1, most)]


def loss_with(case: Any, name: str, value: np.ndarray) -> float:
    """The case's loss with another value of this parameter."""
    return step.loss(replace(case, params=case.params | {name: value}))


def _torch_gradients(case):
    from ..torch import step

    return step.run(case).gradients.params


def _exact(case, name, places):
    from ..sympy import witnesses

    return np.array(witnesses(case, name, indices=places), dtype=float).ravel()
