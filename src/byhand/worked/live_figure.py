"""Small live figures: a few numbers of the step, and one thing to move, in the page itself.

On the site a script evaluates the stored formulas (byhand.live) as the slider moves; everywhere else the same numbers stand in a table.
"""

import html
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files

import numpy as np

from byhand import toy
from byhand.live import step
from byhand.live.questions import RATES, Meter
from byhand.numpy import optimizer
from byhand.worked.experiments import CONTROLS, scrolling_table


@dataclass(frozen=True)
class Control:
    """What is moved: a slider's label and places, or with check=True something that is on (1) or off (0); log: x is 10 to the place."""

    label: str
    low: float
    high: float
    by: float
    start: float
    log: bool = False
    check: bool = False


@dataclass(frozen=True)
class LiveFigure:
    """One figure. change: how x enters, (leaf, entry or None for all, how); drawing: "bars", "curve", "tangent" or "terms".

    how is "set" (the entry is x), "times" (all entries are multiplied by x), "unless" (the entry is 1 − x), or "gradient" (the weight's
    gradient is x). "terms" shows the terms of one row of a stage's formula, entry by entry, and their sum.
    """

    key: str
    toy: str
    caption: str
    control: Control
    change: tuple[str, int | None, str]
    meters: tuple[Meter, ...]
    drawing: str
    stops: tuple[float, ...]
    row: tuple[str, int] | None = None

    def value(self, place: float) -> float:
        """x at a place of the slider."""
        return 10.0**place if self.control.log else float(place)

    def read(self, place: float) -> list[float]:
        """What the meters say at a place of the slider, by the stored formulas."""
        case, x = getattr(toy, self.toy)(), self.value(place)
        leaf, entry, how = self.change
        if how == "gradient":
            lr = RATES[self.toy]
            new, _ = optimizer.adam({"w": np.array([0.0])}, {"w": np.array([x])}, lr=lr)
            return [float(-new["w"][0] / lr)]
        array = np.array(step.leaves(case, RATES[self.toy])[leaf], dtype=float)
        if how == "times":
            array = array * x
        else:
            array.flat[entry] = x if how == "set" else 1 - x
        values = step.run(case, RATES[self.toy], edits={leaf: array})
        return [meter.read(values, np.nan) for meter in self.meters]

    def settings(self) -> dict:
        """What the script needs."""
        given = {name: getattr(self, name) for name in ("toy", "drawing", "change", "row")}
        return given | {"control": asdict(self.control), "meters": [meter.settings() for meter in self.meters]}

    def rows(self) -> list[tuple[str, list[str]]]:
        """The table: x and what is read there, as text."""
        names = {1: "on", 0: "off"} if self.control.check else {}
        return [(names.get(place) or _short(self.value(place)), [_short(value) for value in self.read(place)]) for place in self.stops]

    def _repr_html_(self) -> str:
        style = (files("byhand") / "worked/experiments.css").read_text("utf-8")
        settings = html.escape(json.dumps(self.settings(), ensure_ascii=False))
        head = [html.escape(label) for label in (self.control.label, *(meter.label for meter in self.meters))]
        body = "".join(f'<tr><th scope="row">{x}</th>' + "".join(f"<td>{value}</td>" for value in values) + "</tr>\n" for x, values in self.rows())
        return (
            f'<div class="byhand-experiment byhand-live" data-settings="{settings}">\n<style>\n{style}</style>\n{CONTROLS}'
            f'<div class="plot" hidden></div>\n<p class="result" role="status"></p>\n{scrolling_table(head, body, html.escape(self.caption))}\n</div>'
        )

    def __repr__(self) -> str:
        table = [(self.control.label, [meter.label for meter in self.meters]), *self.rows()]
        widths = [max(len(row[1][i]) for row in table) for i in range(len(self.meters))]
        first = max(len(row[0]) for row in table)
        return "\n".join([self.caption, *(f"{x:<{first}}  " + "  ".join(f"{v:>{w}}" for v, w in zip(vs, widths, strict=True)) for x, vs in table)])


def live_figure(key: str) -> LiveFigure:
    """The figure of that name: "temperature", "mask", "tangent", "projections" or "adam". Raises ValueError for another."""
    if key not in FIGURES:
        raise ValueError(f"key was {key!r}; it must be one of {', '.join(FIGURES)}")
    return FIGURES[key]()


def _number(label, stage, *index):
    return Meter(label, (stage,), index)


def _temperature():
    n = "encoder.0.self_attention.weights"
    return LiveFigure(
        "temperature", "document", "How je divides its attention, head 1, when every score is divided by a temperature",
        Control("temperature", -1, 1, 0.05, 0, log=True), ("root_d_k", None, "times"),
        (_number("je to je", n, 0, 0, 0), _number("je to suis", n, 0, 0, 1)), "bars", (-1, np.log10(0.5), 0, np.log10(2), 1),
    )  # fmt: skip


def _mask():
    n = "decoder.0.self_attention.weights"
    return LiveFigure(
        "mask", "lively", "What the first word of lively sees, and which next word it makes likely, with the mask and without",
        Control("mask", 0, 1, 1, 1, check=True), ("causal_mask", 1, "unless"),
        (_number("<bos> to <bos>", n, 0, 0, 0), _number("<bos> to i", n, 0, 0, 1),
         *(_number(f"p({word}) after <bos>", "probabilities", 0, k) for k, word in enumerate(toy.TARGET_NAMES))), "bars", (1, 0),
    )  # fmt: skip


def _tangent():
    return LiveFigure(
        "tangent", "document", "The loss, and its slope, as one weight moves", Control("W_out[0, <bos>]", -1, 3, 0.05, 1), ("output.w", 0, "set"),
        (_number("loss", "loss"), _number("its gradient", "d:output.w", 0, 0)), "tangent", (-1, 0, 1, 2, 3),
    )  # fmt: skip


def _projections():
    n = "d:decoder.0.residual_3"
    return LiveFigure(
        "projections", "lively", "The gradient below the last norm, row i, as one weight above it moves", Control("W_out[0, <bos>]", -3, 3, 0.1, -0.5),
        ("output.w", 0, "set"), tuple(_number(f"dR₃[i, {c}]", n, 1, c) for c in range(4)), "terms", (-3, -0.5, 0, 3), row=(n, 1),
    )  # fmt: skip


def _adam():
    return LiveFigure(
        "adam", "document", "How far Adam's first step goes, in units of the learning rate, for a gradient of any size",
        Control("gradient", -12, 2, 0.1, -0.3, log=True), ("output.w", 0, "gradient"), (Meter("step / lr", ()),), "curve", (-12, -10, -9, -8, -6, -3, 0, 2),
    )  # fmt: skip


FIGURES: dict[str, Callable[[], LiveFigure]] = {
    "temperature": _temperature, "mask": _mask, "tangent": _tangent, "projections": _projections, "adam": _adam,
}  # fmt: skip


def _short(value):
    """Four significant digits, without a negative zero, the minus sign a minus."""
    value = 0.0 if abs(value) < 1e-13 else value
    return f"{value:.4g}".replace("e-0", "e-").replace("-", "−")
