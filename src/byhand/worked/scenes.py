"""Where rows go: one lifted out of a table, one read in three ways, and the road that a residual connection leaves open."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.diagram import COLORS
from byhand.worked.plotting import INK, MUTED, Picture, arrow, book_style, box, picture

WIDE, HIGH = 0.78, 0.5  # of a cell


def lifted_row(table: Any, token: int, words: Sequence, factor: float, alt: str | None = None) -> Picture:
    """x = factor · E[token]: a table with the token's row marked, the row beside it, and the row scaled.

    table: (V, d), a row for each of words. Raises ValueError for a token outside the table.
    """
    table = _matrix(table, "table")
    if len(words) != len(table):
        raise ValueError(f"words had {len(words)} entries; there must be one for each of the table's {len(table)} rows")
    if not 0 <= token < len(table):
        raise ValueError(f"token was {token}; it must be a row of the table, 0 to {len(table) - 1}")
    row, width = table[token], table.shape[1] * WIDE
    with book_style():
        axis, figure = _canvas(3 * width + 4.2, max(len(table), 2) * HIGH + 0.9)
        middle = -token * HIGH
        for i, values in enumerate(table):
            _cells(axis, 0, -i * HIGH, values, str(words[i]), COLORS["rows"] if i == token else None)
        axis.text(width / 2, HIGH + 0.1, "the table E", ha="center", fontsize=9)
        for k, (name, values) in enumerate((("its row", row), (f"times {f.text(factor)}", factor * row))):
            x = (k + 1) * (width + 1.3)
            arrow(axis, (x - 1.2, middle + HIGH / 2), (x - 0.1, middle + HIGH / 2))
            _cells(axis, x, middle, values, "", COLORS["rows"])
            axis.text(x + width / 2, middle + HIGH + 0.1, name, ha="center", fontsize=9)
        axis.set(xlim=(-1.1, 3 * width + 2.7), ylim=(-len(table) * HIGH + 0.35, HIGH + 0.45))
        return picture(
            figure, alt or f"The row of {words[token]}, {_said(row)}, is lifted out of the table; times {f.text(factor)} it is {_said(factor * row)}"
        )


def readings(x: Any, matrices: Mapping[str, Any], word: str = "", alt: str | None = None) -> Picture:
    """x W for each of several matrices: one row, and the rows that it becomes. x: (d,); matrices: {"Q": (d, d_k), ...}."""
    x = f.as_floats(x)
    if x.ndim != 1 or not matrices:
        raise ValueError(f"x had shape {x.shape} and there were {len(matrices)} matrices; x must be one row, with at least one matrix to read it")
    rows = {name: x @ _matrix(w, name) for name, w in matrices.items()}
    width = len(x) * WIDE
    with book_style():
        axis, figure = _canvas(width + 5.6, len(rows) * 0.95 + 0.2)
        top = (len(rows) - 1) * 0.95
        _cells(axis, 0, top / 2, x, word, COLORS["rows"])
        for k, ((name, row), color) in enumerate(zip(rows.items(), ("mix", "norm", "mlp", "end", "other", "add"))):
            y = top - 0.95 * k
            box(axis, width + 1.3, y, 0.95, HIGH, COLORS[color])
            axis.text(width + 1.775, y + HIGH / 2, f"$W_{{{name}}}$", ha="center", va="center", fontsize=10, zorder=4)
            arrow(axis, (width + 0.08, top / 2 + HIGH / 2), (width + 1.25, y + HIGH / 2))
            arrow(axis, (width + 2.3, y + HIGH / 2), (width + 2.95, y + HIGH / 2))
            _cells(axis, width + 3.0, y, row, "", COLORS[color])
            axis.text(width + 3.1 + len(row) * WIDE, y + HIGH / 2, name, va="center", fontsize=10)
        axis.set(xlim=(-1.1, width + 4.5 + WIDE), ylim=(-0.15, top + HIGH + 0.15))
        said = "; ".join(f"{name} {_said(row)}" for name, row in rows.items())
        return picture(figure, alt or f"The row {_said(x)} of {word or 'a word'} through {len(rows)} matrices: {said}")


def road(steps: Sequence[tuple[str, Any, str]], alt: str | None = None) -> Picture:
    """A row on its road: from left to right, what stands on it, (name, row, how it came there), one for each place.

    how: "" at the start; "+ NAME" where a sublayer's result is added that branched off at the place before; anything else, such as "norm", is
    done to the row on the road itself. Each row has the same length.
    """
    rows = [f.as_floats(row) for _, row, _ in steps]
    if len(steps) < 2 or len({row.shape for row in rows}) != 1 or rows[0].ndim != 1:
        raise ValueError(f"steps held rows of shapes {[row.shape for row in rows]}; they must be two rows or more, all of one length")
    gap, n = 2.5, len(rows[0])
    with book_style():
        axis, figure = _canvas(gap * len(steps) * 0.92, n * HIGH + 2.0, scale=0.72)
        axis.plot([-0.4, gap * (len(steps) - 1) + 1.0], [0, 0], color=MUTED, linewidth=9, alpha=0.35, solid_capstyle="round", zorder=1)
        for k, ((name, _, how), row) in enumerate(zip(steps, rows)):
            x = gap * k
            for i, value in enumerate(row):
                _cell(axis, x - WIDE / 2, -0.45 - HIGH * (i + 1), value, COLORS["rows"])
            axis.text(
                x, 0, name, ha="center", va="center", fontsize=9, zorder=5, bbox={"boxstyle": "round,pad=.25", "facecolor": "#fdfcfb", "edgecolor": MUTED}
            )
            if not how:
                continue
            middle = x - gap / 2
            if how.startswith("+ "):
                box(axis, middle - 0.85, 0.75, 1.7, 0.5, COLORS["mix"])
                axis.text(middle, 1.0, how[2:], ha="center", va="center", fontsize=8.5, zorder=4)
                arrow(axis, (x - gap, 0.25), (middle - 0.87, 1.0), "angle3,angleA=90,angleB=0")
                arrow(axis, (middle + 0.87, 1.0), (x - 0.0, 0.28), "angle3,angleA=0,angleB=90")
                axis.text(x + 0.14, 0.48, "+", fontsize=11, fontweight="bold")
            else:
                axis.text(
                    middle,
                    0,
                    how,
                    ha="center",
                    va="center",
                    fontsize=8,
                    zorder=5,
                    bbox={"boxstyle": "round,pad=.2", "facecolor": COLORS["norm"], "edgecolor": "none"},
                    color="#ffffff",
                )
        axis.set(xlim=(-0.7, gap * (len(steps) - 1) + 1.1), ylim=(-0.55 - n * HIGH, 1.4))
        said = "; ".join(f"{name} {_said(row)}" for (name, *_), row in zip(steps, rows))
        return picture(figure, alt or f"The road of one row, which every sublayer leaves open and only adds to: {said}")


def _canvas(width, height, scale=0.75):
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(width * scale, height * scale))
    axis.set_axis_off()
    return axis, figure


def _cells(axis, x, y, values, label, color):
    for j, value in enumerate(values):
        _cell(axis, x + j * WIDE, y, value, color)
    if label:
        axis.text(x - 0.12, y + HIGH / 2, label, ha="right", va="center", fontsize=9)


def _cell(axis, x, y, value, color):
    from matplotlib.patches import Rectangle

    axis.add_patch(Rectangle((x, y), WIDE, HIGH, facecolor=color + "40" if color else "none", edgecolor=color or MUTED, linewidth=1.0, zorder=3))
    axis.text(x + WIDE / 2, y + HIGH / 2, _short(value), ha="center", va="center", fontsize=8.5, zorder=4, color=INK)


def _short(value) -> str:
    return f.text(value, 2).replace("-", "\N{MINUS SIGN}")


def _said(row) -> str:
    return "[" + ", ".join(map(_short, np.ravel(row))) + "]"


def _matrix(array, name) -> np.ndarray:
    values = f.as_floats(array, name)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{name} had shape {values.shape}; it must be a matrix")
    return values
