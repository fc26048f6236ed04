"""A number to work out with a calculator and type in: checked in the page, without a kernel, the common slips named."""

import html
import math
import numbers
import re
from collections.abc import Mapping

import numpy as np

from byhand.worked.experiments import CONTROLS, Experiment

Array = np.ndarray


class ByHand(Experiment):
    """A question whose answer is one number, given to `digits` decimals; `slips` are wrong answers by the name of what went wrong.

    `given` are the numbers to compute with, by name: rows and matrices of few digits, shown as they are.

    One unit in the last decimal is let pass, as between two calculators. A viewer that runs no scripts shows the answer, folded.
    Raises ValueError for an answer or a slip that is not a finite number, and for a slip that nobody could tell from the answer.
    """

    name = "by-hand"

    def __init__(self, question: str, answer: float, digits: int = 3, slips: Mapping[str, float] | None = None, given: Mapping[str, Array] | None = None):
        if not isinstance(digits, numbers.Integral) or not 0 <= digits <= 12:
            raise ValueError(f"digits was {digits}; it must be a whole number from 0 to 12")
        self.question, self.digits = question, int(digits)
        self.given = {name: _shown(value) for name, value in (given or {}).items()}
        self.answer = _finite("answer", answer)
        self.slips = {name: _finite(f"slips[{name!r}]", value) for name, value in (slips or {}).items()}
        for name, value in self.slips.items():
            if abs(value - self.answer) < 2.5 * 10**-self.digits:
                raise ValueError(f"slips[{name!r}] was {value}; it must differ from the answer, {self.answer}, in the {digits} decimals that are asked for")

    def settings(self) -> dict:
        def kept(value):  # more digits than anybody types, and none that another processor would have otherwise
            return round(value, self.digits + 6) + 0.0

        return {"answer": kept(self.answer), "digits": self.digits, "slips": {name: kept(value) for name, value in self.slips.items()}}

    @property
    def shown(self) -> str:
        """The answer as it is to be typed: rounded, with a minus sign, −0 as 0."""
        return f"{round(self.answer, self.digits) + 0.0:.{self.digits}f}".replace("-", "−")

    def body(self) -> str:
        rows = {name: value.replace("; ", "]<br>[") for name, value in self.given.items()}  # of a matrix, under one another
        given = "".join(f"<dt>{html.escape(name)}</dt><dd>{value}</dd>\n" for name, value in rows.items())
        given = f'<dl class="given">\n{given}</dl>\n' if given else ""
        return (
            f'<p class="question"><strong>By hand.</strong> {_with_code(self.question)}</p>\n{given}{CONTROLS}'
            f'<p class="result" role="status"></p>\n<details><summary>Show the answer</summary><p>{self.shown}</p></details>'
        )

    def __repr__(self) -> str:
        return "\n".join([f"By hand. {self.question}", *(f"  {name} = {value}" for name, value in self.given.items()), f"The answer: {self.shown}"])


def _with_code(text: str) -> str:
    """What stands between backticks, as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def by_hand(question: str, answer: float, digits: int = 3, slips: Mapping[str, float] | None = None, given: Mapping[str, Array] | None = None) -> ByHand:
    """A field in which the reader types the answer to a question, and hears at once whether it is right; see ByHand."""
    return ByHand(question, answer, digits, slips, given)


def _finite(name, value):
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name} was {value}; it must be a finite number")
    return float(value)


def _shown(value):
    """[1, 0.5], or [1, 0.5; 0, −2] for a matrix: as many digits as the numbers have."""
    value = np.asarray(value, dtype=float)
    if value.ndim == 0:
        return f"{value + 0.0:.10g}".replace("-", "−")
    rows = [", ".join(_shown(x) for x in row) for row in np.atleast_2d(value)]
    return f"[{'; '.join(rows)}]"
