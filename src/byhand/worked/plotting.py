"""Pictures drawn from data, as SVG with alternative text.

A picture goes out as text/html holding one `<img>`: its source is the SVG itself (a data URI, so there is no file to lose) and
its `alt` the alternative text. That shows the same in the static page, in JupyterLab (also before a notebook is trusted, when
inline SVG is stripped) and on a phone. The SVG brings a stylesheet of its own: dark ink on light paper, or the reverse
where the page asks for a dark colour scheme. Since it carries its own paper, ink and paper always fit. text/plain holds the
alternative text; nbval compares both, so coordinates are rounded to what a reader can see.
"""

import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from byhand.worked import formatting as f

# Stand-ins that matplotlib writes into the SVG, replaced by what the stylesheet sets.
INK, PAPER, MUTED = "#010203", "#fdfcfb", "#7a7b7c"
CELLS_SHOWN, COLUMNS_SHOWN = 400, 20  # heat maps with more cells carry no numbers and are drawn as one image; in more columns numbers would overlap

_STYLE = (
    "<style>svg{color:#1c2128;--paper:#ffffff;--muted:#5b6370}@media (prefers-color-scheme:dark){svg{color:#e3e6ea;--paper:#14181e;--muted:#a3abb6}}</style>"
)


@dataclass(frozen=True, eq=False)
class Picture:
    """An SVG picture and its alternative text."""

    svg: str
    alt: str
    width: int

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        source = "data:image/svg+xml," + quote(self.svg, safe=" =:/;,.()-_+!*?@&'{}[]|")
        source = source.replace("&", "%26").replace("'", "%27")
        image = (
            f'<img class="byhand-picture dark-light" alt="{html.escape(self.alt)}" src="{source}" '
            f'width="{self.width}" style="max-width:100%;min-width:min({self.width}px,32rem);height:auto;border-radius:4px">'
        )
        return {"text/plain": repr(self), "text/html": f'<div class="byhand-output" style="overflow-x:auto">{image}</div>'}


def use_book_style() -> None:
    """Matplotlib set so that the same data give the same SVG: fixed ids, no date, text as paths, colours for both themes."""
    import matplotlib

    matplotlib.rcParams.update(_settings())


def picture(figure: Any, alt: str) -> Picture:
    """A matplotlib figure as an SVG with alternative text; the figure is closed, so that it does not show twice."""
    import matplotlib.pyplot as plt

    alt = _alt(alt)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}, bbox_inches="tight", pad_inches=0.1)
    plt.close(figure)
    return Picture(*_clean_svg(stream.getvalue(), alt))


def heatmap(
    array: Any,
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    title: str | None = None,
    mask: Any = None,
    digits: int = 2,
    alt: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    colors: str | None = None,
) -> Picture:
    """A matrix as coloured cells with the numbers in them; up to 400 cells in up to 20 columns carry numbers.

    array: (m, n), or (heads, m, n) for one picture a head. rows, cols: labels. mask: bool, True where attending is allowed; the other cells are hatched.
    colors: a matplotlib colour map; blue from 0 up for numbers of one sign, blue to orange around 0 otherwise.
    """
    values = f.as_floats(array)
    panels = values[None] if values.ndim == 2 else values
    if panels.ndim != 3 or not panels.size:
        raise ValueError(f"array had shape {values.shape}; it must be (rows, columns) or (heads, rows, columns)")
    allowed = _panel_mask(mask, panels)
    _, m, n = panels.shape
    rows, cols = axis_labels("rows", rows, m), axis_labels("cols", cols, n)
    with book_style():
        figure, axes = _panels(len(panels), m, n)
        for index, (axis, panel) in enumerate(zip(axes, panels)):
            _draw_heatmap(axis, panel, allowed[index], _color_map(panels, colors), digits)
            _label_axes(axis, m, n, rows, cols)
            axis.set_xlabel(xlabel or "")
            axis.set_ylabel(ylabel or "")
            if len(panels) > 1:
                axis.set_title(f"head {index + 1}")
        if title:
            figure.suptitle(title) if len(panels) > 1 else axes[0].set_title(title)
        return picture(figure, alt or _describe(values, title))


def heatmaps(
    panels: Mapping[str, Any],
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    digits: int = 2,
    alt: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> Picture:
    """Several matrices of one shape side by side, each under its name and with a colour scale of its own: weights beside their gradients.

    panels: {"A": (m, n), "dA": (m, n), ...}. Raises ValueError for no panel and for shapes that differ.
    """
    values = {str(name): f.as_floats(array) for name, array in panels.items()}
    shapes = {array.shape for array in values.values()}
    if len(shapes) != 1 or len(min(shapes)) != 2 or not all(min(shapes)):
        raise ValueError(f"panels had shapes {[array.shape for array in values.values()]}; they must be matrices, at least one, all of one shape")
    m, n = min(shapes)
    rows, cols = axis_labels("rows", rows, m), axis_labels("cols", cols, n)
    with book_style():
        figure, axes = _panels(len(values), m, n)
        for axis, (name, panel) in zip(axes, values.items()):
            _draw_heatmap(axis, panel, np.isfinite(panel), _color_map(panel, None), digits)
            _label_axes(axis, m, n, rows, cols)
            axis.set_xlabel(xlabel or "")
            axis.set_title(name)
        axes[0].set_ylabel(ylabel or "")
        return picture(figure, alt or "Side by side: " + "; ".join(_listed(name, panel, digits) for name, panel in values.items()))


def product(
    a: Any,
    b: Any,
    names: tuple[str, str, str] = ("C", "A", "B"),
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    digits: int = 2,
    alt: str | None = None,
) -> Picture:
    """C = A B as three coloured matrices: A at the left of C, B above it, so that each entry of C stands where its row and its column meet.

    a: (m, k), b: (k, n); with k = 1 it is an outer product. rows, cols: labels of A's rows and of B's columns. Each has a colour scale of its own.
    """
    import matplotlib.pyplot as plt

    a, b = f.as_floats(a, names[1]), f.as_floats(b, names[2])
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not a.size * b.size:
        raise ValueError(f"{names[1]} had shape {a.shape} and {names[2]} {b.shape}; they must be (m, k) and (k, n)")
    (m, k), n = a.shape, b.shape[1]
    rows, cols = axis_labels("rows", rows, m), axis_labels("cols", cols, n)
    cell, gap = 0.62, 0.55
    with book_style():
        size = {"width_ratios": (k, n), "height_ratios": (k, m), "wspace": gap * 2 / (k + n), "hspace": gap * 2 / (k + m)}
        figure, axes = plt.subplots(2, 2, figsize=((k + n + gap) * cell, (k + m + gap) * cell), gridspec_kw=size)
        axes[0, 0].axis("off")
        panels = (a @ b, [""] * m, [""] * n), (a, rows, [""] * k), (b, [""] * k, cols)
        for axis, name, (values, *labels) in zip((axes[1, 1], axes[1, 0], axes[0, 1]), names, panels):
            _draw_heatmap(axis, values, np.isfinite(values), _color_map(values, None), digits)
            _label_axes(axis, *values.shape, *labels)
            axis.xaxis.tick_top()
            axis.set_xlabel(name, fontsize=10)
        return picture(figure, alt or "; ".join(_listed(name, x, digits) for name, x in zip(names, (a @ b, a, b))))


# --- parts


def arrow(axis, start, end, style="arc3", color=None, **more):
    """An arrow between two points of the picture's data."""
    axis.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": color or INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0, "connectionstyle": style, **more},
        zorder=2,
    )


def box(axis, x, y, width, height, color, rounding=0.1):
    """A rounded box with its lower left corner at (x, y)."""
    from matplotlib.patches import FancyBboxPatch

    shape = {"boxstyle": f"round,pad=0,rounding_size={rounding}", "facecolor": color + "40", "edgecolor": color, "linewidth": 1.2}
    axis.add_patch(FancyBboxPatch((x, y), width, height, zorder=3, **shape))


def frame(axis, x, y, width, height, linewidth=1.0):
    """A dashed frame with its lower left corner at (x, y)."""
    from matplotlib.patches import Rectangle

    axis.add_patch(Rectangle((x, y), width, height, fill=False, linestyle=(0, (4, 3)), edgecolor=MUTED, linewidth=linewidth, zorder=1))


def _settings() -> dict:
    return {
        "svg.hashsalt": "byhand", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 10, "axes.titlesize": 10.5,
        "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": INK, "axes.titlecolor": INK,
        "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "legend.facecolor": PAPER, "legend.edgecolor": MUTED,
        "grid.color": MUTED, "figure.dpi": 100, "figure.figsize": (6.0, 3.4), "axes.grid": False,
        "axes.spines.top": False, "axes.spines.right": False, "axes.prop_cycle": _cycle(),
    }  # fmt: skip


def _cycle():
    from matplotlib import cycler

    return cycler(color=["#3b82c4", "#d9822b", "#3f9b6b", "#b45fb0", "#9a8a3c", "#c9505a"])  # mid tones: 3:1 on white and on near-black


def book_style():
    """The same settings for one picture: `with book_style(): ...`."""
    import matplotlib

    return matplotlib.rc_context(_settings())


def _clean_svg(svg: str, alt: str) -> tuple[str, str, int]:
    svg = svg[svg.index("<svg") :].rstrip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", svg, flags=re.S)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # nothing refers to a group
    svg = re.sub(r"\d+\.\d{3,}", lambda m: _short(float(m.group())), svg)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)").replace(MUTED, "var(--muted)")
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    width = round(float(re.search(r'width="([\d.]+)pt"', svg).group(1)) * 4 / 3)
    opening, rest = svg.split(">", 1)
    title = f"<title>{html.escape(alt)}</title>"
    return f'{opening} role="img">{title}{_STYLE}{rest}', alt, width


def _short(number: float) -> str:
    """Two places are finer than a screen; a small scale factor keeps more."""
    return f"{number:.{2 if number >= 1 else 3 if number >= 0.1 else 6}f}".rstrip("0").rstrip(".")


def _alt(alt) -> str:
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt was {alt!r}; it must say in words what the picture shows")
    return " ".join(alt.split())


def _panel_mask(mask, panels) -> np.ndarray:
    if mask is None:
        return np.isfinite(panels)
    mask = f.as_array(mask, "mask")
    if mask.dtype != bool or mask.shape[-2:] != panels.shape[-2:]:
        raise ValueError(f"mask had shape {mask.shape} and type {mask.dtype}; it must hold bools in shape {panels.shape[-2:]}")
    return np.broadcast_to(mask, panels.shape) & np.isfinite(panels)


def axis_labels(argument: str, labels: Sequence | None, n: int) -> list[str] | None:
    """Labels as matplotlib takes them, to which a dollar is the beginning of a formula."""
    labels = f.checked_labels(argument, labels, n)
    return labels and [str(label).replace("$", r"\$") for label in labels]


def _panels(count, m, n):
    import matplotlib.pyplot as plt

    cell = 0.62 if max(m, n) <= 10 else 0.42 if max(m, n) <= 20 else 6.0 / max(m, n)
    figure, axes = plt.subplots(1, count, squeeze=False, figsize=(count * (n * cell + 0.6) + 0.6, m * cell + 0.7), layout="constrained")
    return figure, axes[0]


def _color_map(values, colors):
    import matplotlib
    from matplotlib.colors import Normalize

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < -f.LEFTOVER * f.scale_of(values):
        size = max(-low, high)
        return matplotlib.colormaps[colors or "PuOr_r"], Normalize(-size, size)
    return matplotlib.colormaps[colors or "Blues"], Normalize(0.0, max(high, 1.0) if high <= 1.0 else high)


def _draw_heatmap(axis, values, allowed, color, digits):
    from matplotlib.patches import Rectangle

    colors, norm = color
    m, n = values.shape
    axis.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), aspect="equal")
    axis.spines[:].set_visible(False)
    if m * n > CELLS_SHOWN or n > COLUMNS_SHOWN:
        axis.imshow(np.where(allowed, values, np.nan), cmap=colors, norm=norm, interpolation="none", aspect="equal")
        return
    shown = f.TEXT.entries(np.where(allowed, values, 0.0), digits)
    for i, j in np.ndindex(m, n):
        face = colors(norm(values[i, j])) if allowed[i, j] else "none"
        axis.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=face, edgecolor=MUTED, linewidth=0.5, hatch=None if allowed[i, j] else "////"))
        if allowed[i, j]:
            size = 9 if max(m, n) <= 10 else 7
            axis.text(j, i, shown[i, j].replace("-", "\N{MINUS SIGN}"), ha="center", va="center", fontsize=size, color=_readable(face))


def _readable(face) -> str:
    """Black or white, whichever stands out more from the cell."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in face[:3]]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "#ffffff"


def _label_axes(axis, m, n, rows, cols):
    for which, labels, size in (("x", cols, n), ("y", rows, m)):
        set_ticks = getattr(axis, f"set_{which}ticks")
        if labels is not None:
            set_ticks(range(size), labels)
        else:
            step = max(1, size // 10)
            set_ticks(range(0, size, step), [str(k) for k in range(0, size, step)])
    axis.tick_params(length=0)


def _describe(values, title) -> str:
    size = " by ".join(str(k) for k in values.shape)
    finite = values[np.isfinite(values)]
    span = f", values from {f.text(finite.min(), 2)} to {f.text(finite.max(), 2)}" if finite.size else ""
    return f"{title or 'Heat map'}: {size} cells{span}"


def _listed(name, values, digits) -> str:
    """A small matrix is read out, a large one described."""
    if values.size > 36:
        return _describe(values, name)
    return f"{name} " + ", ".join("[" + ", ".join(row) + "]" for row in f.TEXT.entries(values, digits).tolist())
