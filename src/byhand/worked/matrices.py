"""Matrices and matrix products, written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, array, both, equations, stacked
from byhand.worked.formatting import GAP, SHOWN, TERMS_SHOWN, Form, kept

STACK_SHOWN = 4  # matrices of a stack


def matrix(
    array: Any,
    name: str | None = None,
    rows: Sequence | None = None,
    cols: Sequence | None = None,
    digits: int = 3,
    limit: int | None = SHOWN,
    decimals: bool = False,
) -> Written:
    """name = [array], with its shape beside the name.

    array: up to two axes are one matrix; further axes (batch, heads) give one matrix for each index, under one another.
    rows, cols: labels, such as tokens. digits: places after the point. limit: rows and columns shown in full (None: all);
    a longer side shows its first and last 3, dots between them, and the shape says how many there are.
    decimals: exact numbers are followed by their decimals.
    Raises ValueError for entries that are not numbers, an empty array, or labels that do not fit.
    """
    values = non_empty(f.as_array(array, "array"))
    down, across = (1, 1, *values.shape)[-2:]
    rows, cols = f.checked_labels("rows", rows, down), f.checked_labels("cols", cols, across)
    digits, scale = f.checked_digits(digits), f.scale_of(values)
    if values.ndim > 2:
        return _stack(values, name, rows, cols, digits, scale, limit)

    def written(form):
        shown = write_matrix(form, values, digits, scale, limit, rows, cols)
        if decimals and any(f.is_exact(x) for x in values.ravel()):
            shown += form(r" \approx ", "\n≈\n") + write_matrix(form, f.as_floats(values), digits, scale, limit, rows, cols)
        if name is not None:
            return named_with_shape(form, name, values.shape) + form(" = ", " =\n") + shown
        if _is_cut(values, limit):  # what is left out is said
            shape = write_shape(form, values.shape)
            return form(rf"\underset{{{shape}}}{{{shown}}}", f"shape {shape}\n{shown}")
        return shown

    return both(written, values)


def matrix_product(
    a: Any,
    b: Any,
    names: tuple[str, str, str] = ("C", "A", "B"),
    entry: tuple[int, int] | str | None = None,
    digits: int = 3,
    limit: int | None = SHOWN,
) -> Written:
    """C[i, j] = Σₖ A[i, k] · B[k, j], entry by entry, then the whole of C.

    a: (m, n) or (n,); b: (n, p). names: of the result, the left and the right factor. entry: one place (i, j), "all", or None for
    the result alone. Sums of more than 8 terms and results of more than 8 × 8 entries show their ends, with dots between.
    Raises ValueError when the shapes do not fit or the place lies outside the result.
    """
    a, b = _factors(a, b, names)
    return equations(product_lines(a, b, names, entry, f.checked_digits(digits), limit), a @ b)


def product_lines(a, b, names, entry, digits, limit):
    """The lines of a product, for `equations`: the entries asked for, then the whole."""
    product = a @ b
    places = _places(entry, product.shape, limit)

    def lines(form):
        yield from (GAP if place is GAP else _entry_line(form, a, b, product, names[0], place, digits) for place in places)
        left, right = form.name(names[1]), form.name(names[2])
        factors = form(rf"{left}\, {right} = ", f"{left} {right} =\n")
        yield named_with_shape(form, names[0], product.shape), factors + write_matrix(form, product, digits, f.scale_of(product), limit)

    return lines


def named_with_shape(form: Form, name: str, shape: tuple[int, ...]) -> str:
    """The name with its shape under it, or behind it."""
    return form(rf"\underset{{{write_shape(form, shape)}}}{{{form.name(name)}}}", f"{form.name(name)} {write_shape(form, shape)}")


def entry_name(form: Form, name: str, place: tuple) -> str:
    """One entry's name: Q with indices 0,1 below; brackets around a name that has indices already."""
    written, indices = form.name(name), form(",", ", ").join(map(str, place))
    if form.is_latex and (len(name) > 1 and not name.isalpha() or len(written) > 6 and "\\" in written):
        written = rf"\left({written}\right)"
    return written + form(f"_{{{indices}}}", f"[{indices}]")


def _stack(values, name, rows, cols, digits, scale, limit) -> Written:
    """One matrix for each index of the leading axes."""
    indices = list(np.ndindex(values.shape[:-2]))
    left_out = f"({len(indices) - 4} more)"

    def lines(form):
        own, shape = form.name(name) if name else "", write_shape(form, values.shape)
        heading = f"{named_with_shape(form, name, values.shape)} &:" if name else rf"\text{{shape }} {shape} &:"
        yield form(heading, f"{own or 'array'} {shape}")
        for k in kept(len(indices), STACK_SHOWN if limit is not None else None, 2):
            if k is GAP:
                yield form(rf"&\;\;\vdots \quad \text{{{left_out}}}", f"... {left_out}")
                continue
            index = ", ".join(map(str, indices[k]))
            yield f"{own}[{index}] " + form("&= ", "=\n") + write_matrix(form, values[indices[k]], digits, scale, limit, rows, cols)

    return stacked(lines, values)


def _grid(values, limit) -> tuple[np.ndarray, list, list]:
    grid = values.reshape(1, -1) if values.ndim < 2 else values
    return grid, kept(grid.shape[0], limit), kept(grid.shape[1], limit)


def _is_cut(values, limit) -> bool:
    _, down, across = _grid(values, limit)
    return GAP in down or GAP in across


def write_matrix(form: Form, values, digits: int, scale: float, limit: int | None, rows=None, cols=None) -> str:
    """A matrix (or vector, or number) in brackets, with labels beside and above it."""
    grid, down, across = _grid(values, limit)
    shown = grid[np.ix_([i for i in down if i is not GAP], [j for j in across if j is not GAP])]
    strings, below = iter(form.entries(shown, digits, scale).ravel()), form(r"\vdots", "⋮")
    corner = form(r"\ddots", "⋱")
    cells = [[corner if i is j is GAP else below if i is GAP else form.dots if j is GAP else next(strings) for j in across] for i in down]
    beside = None if rows is None else [below if i is GAP else form.label(rows[i]) for i in down]
    above = None if cols is None else [form.dots if j is GAP else form.label(cols[j]) for j in across]
    return (_in_latex if form.is_latex else _in_text)(cells, beside, above)


def _in_latex(cells, beside, above) -> str:
    columns = "r" * len(cells[0])
    if above is not None:
        table = [["", *above], *([label, *row] for label, row in zip(beside or [""] * len(cells), cells))]
        return r"\;" + array(table, "r|" + columns, rules=(1,))
    body = "\\left[" + array(cells, columns) + "\\right]"
    return body if beside is None else r"\;" + array([[label] for label in beside], "r") + "\n" + body


def _in_text(cells, beside, above) -> str:
    width = [max(len(row[j]) for row in [above or cells[0], *cells]) for j in range(len(cells[0]))]
    margin = 0 if beside is None else max(map(len, beside)) + 1

    def line(label, row, left, right):
        return f"{label.ljust(margin)}{left}{'  '.join(c.rjust(w) for c, w in zip(row, width))}{right}".rstrip()

    header = [] if above is None else [line("", above, " ", "")]
    return "\n".join([*header, *(line(label, row, "[", "]") for label, row in zip(beside or [""] * len(cells), cells))])


def _places(entry, shape, limit) -> list:
    if entry is None:
        return []
    if isinstance(entry, str):
        if entry != "all":
            raise ValueError(f'entry was {entry!r}; it must be (i, j), "all" or None')
        down, across = kept(shape[0], limit), kept(shape[1], limit)
        return [GAP if i is GAP or j is GAP else (i, j) for i in down for j in (across if i is not GAP else [GAP])]
    try:
        i, j = (int(k) for k in entry)
    except (TypeError, ValueError):
        raise ValueError(f'entry was {entry!r}; it must be (i, j), "all" or None') from None
    if not (-shape[0] <= i < shape[0] and -shape[1] <= j < shape[1]):
        raise ValueError(f"entry was {(i, j)}; it must lie inside the result's shape {shape}")
    return [(i % shape[0], j % shape[1])]


def _entry_line(form, a, b, product, name, place, digits) -> tuple[str, str]:
    left, right = a[place[0]], b[:, place[1]]
    scales, dot = (f.scale_of(a), f.scale_of(b)), form(r" \cdot ", "·")
    terms = form.joined(lambda k: form.factor(left[k], digits, scales[0]) + dot + form.factor(right[k], digits, scales[1]), len(left))
    count = f"({len(left)} terms)"
    count = form(rf" \quad \text{{{count}}}", f" {count}") if len(left) > TERMS_SHOWN else ""
    return entry_name(form, name, place), f"{terms} = {form.number(product[place], digits, f.scale_of(product))}{count}"


def _factors(a, b, names) -> tuple[np.ndarray, np.ndarray]:
    if len(names) != 3:
        raise ValueError(f"names was {names!r}; it must be three names: of the result, the left and the right factor")
    a, b = non_empty(f.as_array(a, "a")), non_empty(f.as_array(b, "b"))
    a = a.reshape(1, -1) if a.ndim == 1 else a
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a had shape {a.shape} and b had shape {b.shape}; they must be (m, n) and (n, p), one matrix each (pick one batch, one head)")
    return a, b


def non_empty(values: np.ndarray) -> np.ndarray:
    if not values.size:
        raise ValueError(f"array had shape {values.shape}; it must have at least one entry")
    return values


def write_shape(form: Form, shape: tuple[int, ...]) -> str:
    if form.is_latex:
        return r" \times ".join(map(str, shape)) if shape else r"\text{scalar}"
    return str(tuple(map(int, shape)))
