"""Boxes and arrows: how the parts of a model, or of a system, hang together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from byhand.worked.plotting import INK, Picture, arrow, book_style, box, frame, picture

COLORS = {"rows": "#9a8a3c", "mix": "#d9822b", "add": "#7a7b7c", "norm": "#3f9b6b", "mlp": "#3b82c4", "end": "#b45fb0", "other": "#c9505a"}


@dataclass(frozen=True)
class Box:
    """A labelled box with its centre at (x, y); kind, a key of COLORS, gives its colour, and small stands below the label."""

    x: float
    y: float
    label: str
    kind: str = "add"
    small: str = ""
    width: float = 3.0
    height: float = 0.62


@dataclass(frozen=True)
class Around:
    """An arrow from one box to another that leaves sideways and passes the boxes between them: side 1 on the right, -1 on the left."""

    start: str
    end: str
    side: int = 1
    away: float = 0.35
    label: str = ""


def diagram(
    boxes: Mapping[str, Box],
    arrows: Iterable[tuple[str, str] | Around],
    alt: str,
    frames: Mapping[str, tuple[str, ...]] | None = None,
    titles: Mapping[str, tuple[float, float]] | None = None,
    size: tuple[float, float] | None = None,
) -> Picture:
    """Boxes by name, arrows between them, dashed frames around several of them ({title: names}), and titles at places.

    A pair (a, b) is a straight arrow between the nearest sides of two boxes; `Around` goes beside what stands between.
    Raises ValueError for an arrow or a frame that names no box and for a kind that is none of COLORS.
    """
    if not boxes:
        raise ValueError("boxes was empty; it must hold at least one Box")
    frames = frames or {}
    named = [name for drawn in arrows for name in _ends(drawn)] + [name for names in frames.values() for name in names]
    for name in named:
        if name not in boxes:
            raise ValueError(f"there is no box {name!r}; the boxes are {', '.join(boxes)}")
    for name, drawn in boxes.items():
        if drawn.kind not in COLORS:
            raise ValueError(f"box {name!r} had kind {drawn.kind!r}; it must be one of {', '.join(COLORS)}")
    with book_style():
        import matplotlib.pyplot as plt

        left, right = min(b.x - b.width / 2 for b in boxes.values()), max(b.x + b.width / 2 for b in boxes.values())
        low, high = min(b.y - b.height / 2 for b in boxes.values()), max(b.y + b.height / 2 for b in boxes.values())
        width, height = right - left + 1.6, high - low + 1.1
        figure, axis = plt.subplots(figsize=size or (width * 0.85, height * 0.6))
        axis.set_axis_off()
        for drawn in boxes.values():
            _draw_box(axis, drawn)
        for title, names in frames.items():
            _draw_frame(axis, title, [boxes[name] for name in names])
        for drawn in arrows:
            _draw_around(axis, boxes, drawn) if isinstance(drawn, Around) else _draw_straight(axis, *(boxes[name] for name in drawn))
        for title, (x, y) in (titles or {}).items():
            axis.text(x, y, title, ha="center", va="center", fontsize=11, fontweight="bold")
        axis.set(xlim=(left - 0.8, right + 0.8), ylim=(low - 0.5, high + 0.6))
        return picture(figure, alt)


def _ends(drawn: Any) -> tuple[str, str]:
    return (drawn.start, drawn.end) if isinstance(drawn, Around) else tuple(drawn)


def _draw_box(axis, drawn):
    box(axis, drawn.x - drawn.width / 2, drawn.y - drawn.height / 2, drawn.width, drawn.height, COLORS[drawn.kind])
    lift = 0.22 * drawn.height if drawn.small else 0
    axis.text(drawn.x, drawn.y + lift, drawn.label, ha="center", va="center", fontsize=10, zorder=4)
    if drawn.small:
        axis.text(drawn.x, drawn.y - lift, drawn.small, ha="center", va="center", fontsize=8, zorder=4)


def _draw_frame(axis, title, boxes):
    left, right = min(b.x - b.width / 2 for b in boxes) - 0.55, max(b.x + b.width / 2 for b in boxes) + 0.55
    low, high = min(b.y - b.height / 2 for b in boxes) - 0.14, max(b.y + b.height / 2 for b in boxes) + 0.14
    frame(axis, left, low, right - left, high - low)
    axis.text(left - 0.06, (low + high) / 2, title, rotation=90, ha="right", va="center", fontsize=8.5)


def _draw_straight(axis, a, b):
    """Upright where one box stands over the other, level where they stand side by side."""
    if abs(a.y - b.y) >= (a.height + b.height) / 2:
        up = 1 if b.y > a.y else -1
        arrow(axis, (a.x, a.y + up * a.height / 2), (b.x, b.y - up * b.height / 2))
    else:
        out = 1 if b.x > a.x else -1
        arrow(axis, (a.x + out * a.width / 2, a.y), (b.x - out * b.width / 2, b.y))


def _draw_around(axis, boxes, around):
    a, b, side = boxes[around.start], boxes[around.end], around.side
    start, end = a.x + side * a.width / 2, b.x + side * b.width / 2
    turn = (max if side > 0 else min)(start, end) + side * around.away
    axis.plot([start, turn, turn], [a.y, a.y, b.y], color=INK, linewidth=1.1, zorder=2, solid_joinstyle="round")
    arrow(axis, (turn, b.y), (end, b.y))
    if around.label:
        axis.text(turn + side * 0.07, (a.y + b.y) / 2, around.label, ha="left" if side > 0 else "right", va="center", fontsize=8)
