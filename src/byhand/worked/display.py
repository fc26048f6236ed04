"""What the helpers return: text for a terminal, and beside it the form that a notebook shows.

Formulas go out as text/latex: Jupyter Book hands that to MathJax as a display, JupyterLab typesets what stands between
dollars. (LaTeX inside text/markdown would be left raw by Jupyter Book.) Tables go out as text/html and take their colours
from the page, so that they can be read in both themes. nbval compares every form.
"""

import html
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from byhand.worked.formatting import LATEX, TEXT, Form


@dataclass(frozen=True, eq=False)
class Written:
    """One written-out piece of arithmetic. `value` is the result as an array or a number; `text` and `latex` say how it came about."""

    text: str
    latex: str | None = None
    html: str | None = None
    markdown: str | None = None
    value: Any = None

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        forms = {"text/plain": self.text}
        if self.latex is not None:
            forms["text/latex"] = "$$\n" + self.latex + "\n$$"
        if self.html is not None:
            forms["text/html"] = self.html
        if self.markdown is not None:
            forms["text/markdown"] = self.markdown
        return forms


def aligned(lines: list[str]) -> str:
    """LaTeX lines under one another, aligned at '&' (one display, so that it scrolls as one); room above each matrix."""
    if len(lines) == 1:
        return lines[0].replace("&", "", 1)  # the one to align at; those inside a matrix stay
    ends = [r" \\[1ex]" if r"\begin{array}" in after else r" \\" for after in lines[1:]]
    return "\\begin{aligned}\n" + "\n".join(line + end for line, end in zip(lines, [*ends, ""])) + "\n\\end{aligned}"


def both(write: Callable[[Form], str], value: Any) -> Written:
    """What write(form) gives in both forms."""
    return Written(write(TEXT), write(LATEX), value=value)


def stacked(lines: Callable[[Form], Iterable[str]], value: Any) -> Written:
    """The lines that lines(form) gives, under one another."""
    return both(lambda form: aligned(list(lines(form))) if form.is_latex else "\n".join(lines(form)), value)


def equations(lines: Callable[[Form], Iterable[tuple[str, str] | None]], value: Any, width: int = 0) -> Written:
    """name = what it is, under one another, for each pair that lines(form) gives; None stands for lines left out."""

    def written(form):
        for line in lines(form):
            yield form(r"&\;\;\vdots", "⋮") if line is None else form(f"{line[0]} &= {line[1]}", f"{pad(line[0], width)} = {line[1]}")

    return stacked(written, value)


def ruled(rows: Callable[[Form], list[list[str] | None]], columns: str, value: Any) -> Written:
    """A table of the rows that rows(form) gives, the first and the last parted from the others; None stands for rows left out."""

    def written(form):
        cells = rows(form)
        width = len(cells[0])
        filled = [row or [form(r"\vdots", "⋮")] * width for row in cells]
        return array(filled, columns, rules=(1, len(cells) - 1)) if form.is_latex else text_table(filled)

    return both(written, value)


def array(rows: list[list[str]], columns: str, rules: tuple[int, ...] = ()) -> str:
    """A LaTeX array with a line above each row listed in `rules`."""
    lines = [("\\hline " if i in rules else "") + " & ".join(row) for i, row in enumerate(rows)]
    return f"\\begin{{array}}{{{columns}}}\n" + " \\\\\n".join(lines) + "\n\\end{array}"


def pad(words: str, width: int) -> str:
    """Words filled up with spaces; a hat over a letter takes no room."""
    return words + " " * (width - sum(not unicodedata.combining(c) for c in words))


def text_table(rows: list[list[str]], left: tuple[int, ...] = (0,), gap: str = "  ") -> str:
    """Columns of plain text, right-aligned but for those in `left`."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = (gap.join(c.ljust(w) if j in left else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths))) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def beside(*pieces: Written) -> Written:
    """Several formulas in one row where there is room, and under one another where there is not, as on a phone."""
    for piece in pieces:
        if not isinstance(piece, Written) or piece.latex is None:
            raise ValueError(f"pieces held a {type(piece).__name__}; each must be a written formula, such as matrix(...)")
    if not pieces:
        raise ValueError("pieces was empty; it must hold at least one written formula")
    shown = "\n".join(f'<div class="math">\\[{html.escape(piece.latex)}\\]</div>' for piece in pieces)
    row = f'<div class="byhand-row" style="display:flex;flex-wrap:wrap;gap:0 2.2rem;align-items:center">\n{shown}\n</div>'
    return Written(
        "\n".join(piece.text for piece in pieces), latex=" \\qquad ".join(piece.latex for piece in pieces), html=row, value=[p.value for p in pieces]
    )


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], left: tuple[int, ...] = (0,), caption: str | None = None) -> Written:
    """A table of words and numbers, as text and as HTML; the columns in `left` start at the left, the others end at the right.

    Raises ValueError for a row that is not as long as the header.
    """
    header, rows = [str(cell) for cell in header], [[str(cell) for cell in row] for row in rows]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row had {len(row)} cells, {row}; it must have one for each of {header}")
    shown = html_table(header, rows, caption, left)
    return Written("\n".join(filter(None, [caption, text_table([header, *rows], left)])), html=shown)


def html_table(header: list[str], rows: list[list[str]], caption: str | None = None, left: tuple[int, ...] = (0,), raw: bool = False) -> str:
    """A table that scrolls in its own box and takes its colours from the page. Cells are escaped unless `raw`."""
    write = (lambda cell: cell) if raw else html.escape
    base = "padding:.25rem .7rem;border-bottom:1px solid rgba(128,128,128,.45);background:none;color:inherit;vertical-align:top;"

    def cell(tag: str, j: int, content: str) -> str:
        align = "left" if j in left else "right"
        scope = ' scope="col"' if tag == "th" else ""
        return f'<{tag}{scope} style="{base}text-align:{align};font-variant-numeric:tabular-nums">{write(content)}</{tag}>'

    head = "<tr>" + "".join(cell("th", j, h) for j, h in enumerate(header)) + "</tr>"
    body = "\n".join("<tr>" + "".join(cell("td", j, c) for j, c in enumerate(row)) + "</tr>" for row in rows)
    title = f'<caption style="caption-side:top;text-align:left;color:inherit;padding:.2rem 0">{html.escape(caption)}</caption>' if caption else ""
    return (
        '<div class="byhand-output tex2jax_process" tabindex="0" style="overflow-x:auto;max-width:100%">\n'
        f'<table style="border-collapse:collapse;width:auto;margin:.4rem 0;color:inherit;background:none">{title}\n'
        f"<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table>\n</div>"
    )
