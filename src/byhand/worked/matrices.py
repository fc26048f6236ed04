"""Matrices and matrix products, written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, array

SHOWN = 8  # rows and columns of a matrix shown in full
KEPT = 3  # at each end of what is longer
STACK_SHOWN = 4  # matrices of a stack
TERMS_SHOWN = 8  # terms of a sum
GAP = None  # stands for what was left out


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
    rows, cols = _labels("rows", rows, values, -2), _labels("cols", cols, values, -1)
    digits, scale = f.checked_digits(digits), f.scale_of(values)
    if values.ndim > 2:
        return _stack(values, name, rows, cols, digits, scale, limit)
    text = matrix_text(values, rows, cols, digits, scale, limit)
    latex = matrix_latex(values, rows, cols, digits, scale, limit)
    if decimals and any(f.is_exact(x) for x in values.ravel()):
        plain = _decimals(values)
        text += "\n≈\n" + matrix_text(plain, rows, cols, digits, scale, limit)
        latex += r" \approx " + matrix_latex(plain, rows, cols, digits, scale, limit)
    if name is not None:
        return Written(f"{f.name_text(name)} {shape_text(values.shape)} =\n{text}", f"{named_with_shape(name, values.shape)} = {latex}", value=values)
    if _is_cut(values, limit):  # what is left out is said
        return Written(f"shape {shape_text(values.shape)}\n{text}", rf"\underset{{{shape_latex(values.shape)}}}{{{latex}}}", value=values)
    return Written(text, latex, value=values)


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
    product = a @ b
    digits = f.checked_digits(digits)
    places = _places(entry, product.shape, limit)
    lines = [_entry_line(a, b, product, names, place, digits) if place is not GAP else (_DOTS_TEXT, _DOTS) for place in places]
    text = [line for line, _ in lines]
    whole = matrix(product, names[0], digits=digits, limit=limit)
    text.append(whole.text.replace(" =", f" = {f.name_text(names[1])} {f.name_text(names[2])} =", 1))
    result = f"{named_with_shape(names[0], product.shape)} &= {f.name_latex(names[1])}\\, {f.name_latex(names[2])} = "
    result += matrix_latex(product, None, None, digits, f.scale_of(product), limit)
    return Written("\n".join(text), aligned([line for _, line in lines] + [result]), value=product)


def named_with_shape(name: str, shape: tuple[int, ...]) -> str:
    """The name with its shape under it."""
    return rf"\underset{{{shape_latex(shape)}}}{{{f.name_latex(name)}}}"


def entry_name(name: str, place: tuple[int, ...], form: str = "latex") -> str:
    """One entry's name: Q with indices 0,1 below; brackets around a name that has indices already."""
    if form == "text":
        return f"{f.name_text(name)}[{', '.join(str(i) for i in place)}]"
    written = f.name_latex(name)
    if len(name) > 1 and not name.isalpha() or len(written) > 6 and "\\" in written:
        written = rf"\left({written}\right)"
    return written + "_{" + ",".join(str(i) for i in place) + "}"


def kept(length: int, limit: int | None = SHOWN, ends: int = KEPT) -> list[int | None]:
    """Indices to show of `length`: all, or both ends with GAP (None) between."""
    if limit is not None:
        ends = min(ends, max(limit // 2, 1))
    if limit is None or length <= max(limit, 2 * ends):
        return list(range(length))
    return [*range(ends), GAP, *range(length - ends, length)]


def _stack(values, name, rows, cols, digits, scale, limit) -> Written:
    """One matrix for each index of the leading axes."""
    indices = list(np.ndindex(values.shape[:-2]))
    shape = shape_text(values.shape)
    texts, lines = [f"{f.name_text(name or 'array')} {shape}"], []
    for k in kept(len(indices), STACK_SHOWN if limit is not None else None, 2):
        if k is GAP:
            texts.append(f"... ({len(indices) - 4} more)")
            lines.append(rf"&\;\;\vdots \quad \text{{({len(indices) - 4} more)}}")
            continue
        part = values[indices[k]]
        index = ", ".join(str(i) for i in indices[k])
        texts.append(f"{f.name_text(name or '')}[{index}] =\n{matrix_text(part, rows, cols, digits, scale, limit)}")
        lines.append(f"{f.name_latex(name) if name else ''}[{index}] &= {matrix_latex(part, rows, cols, digits, scale, limit)}")
    heading = f"{named_with_shape(name, values.shape)} &:" if name else rf"\text{{shape }} {shape_latex(values.shape)} &:"
    return Written("\n".join(texts), aligned([heading, *lines]), value=values)


def _grid(values, limit) -> tuple[np.ndarray, list, list]:
    grid = values.reshape(1, -1) if values.ndim < 2 else values
    return grid, kept(grid.shape[0], limit), kept(grid.shape[1], limit)


def _is_cut(values, limit) -> bool:
    _, down, across = _grid(values, limit)
    return GAP in down or GAP in across


def _cells(values, digits, scale, limit, form) -> tuple[list[list[str]], list, list]:
    grid, down, across = _grid(values, limit)
    dots = {"latex": (r"\vdots", r"\cdots", r"\ddots"), "text": ("⋮", "…", "⋱")}[form]
    shown = grid[np.ix_([i for i in down if i is not GAP], [j for j in across if j is not GAP])]
    strings = iter(f.entries(shown, digits, form, scale).ravel())
    cells = [[dots[2] if i is j is GAP else dots[0] if i is GAP else dots[1] if j is GAP else next(strings) for j in across] for i in down]
    return cells, down, across


def matrix_latex(values, rows, cols, digits, scale, limit) -> str:
    cells, down, across = _cells(values, digits, scale, limit, "latex")
    row_labels = _picked(rows, down, r"\vdots") if rows is not None else None
    if cols is not None:
        header = _picked(cols, across, r"\cdots")
        table = [["", *header], *([label, *row] for label, row in zip(row_labels or [""] * len(cells), cells))]
        return r"\;" + array(table, "r|" + "r" * len(across), rules=(1,))
    body = "\\left[" + array(cells, "r" * len(across)) + "\\right]"
    if row_labels is not None:
        body = r"\;" + array([[label] for label in row_labels], "r") + "\n" + body
    return body


def matrix_text(values, rows, cols, digits, scale, limit) -> str:
    cells, down, across = _cells(values, digits, scale, limit, "text")
    header = [_picked(cols, across, "…", str)] if cols is not None else []
    width = [max(len(row[j]) for row in header + cells) for j in range(len(across))]
    labels = _picked(rows, down, "⋮", str) if rows is not None else [""] * len(cells)
    margin = max(len(label) for label in labels) + (1 if rows is not None else 0)
    lines = [" " * (margin + 1) + "  ".join(c.rjust(w) for c, w in zip(header[0], width))] if header else []
    for label, row in zip(labels, cells):
        lines.append(label.ljust(margin) + "[" + "  ".join(c.rjust(w) for c, w in zip(row, width)) + "]")
    return "\n".join(line.rstrip() for line in lines)


def _picked(labels, indices, dots, write=f.label_latex) -> list[str]:
    return [dots if i is GAP else write(labels[i]) for i in indices]


_DOTS, _DOTS_TEXT = r"&\;\;\vdots", "⋮"


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


def _entry_line(a, b, product, names, place, digits) -> tuple[str, str]:
    i, j = place
    left, right = a[i], b[:, j]
    scales = f.scale_of(a), f.scale_of(b)
    picked = kept(len(left), TERMS_SHOWN)

    def terms(write, dot, dots):
        return " + ".join(dots if k is GAP else write(left[k], digits, scales[0]) + dot + write(right[k], digits, scales[1]) for k in picked)

    count = f" ({len(left)} terms)" if GAP in picked else ""
    count_latex = rf" \quad \text{{({len(left)} terms)}}" if count else ""
    total = f.text(product[place], digits, f.scale_of(product)), f.latex(product[place], digits, f.scale_of(product))
    text = f"{entry_name(names[0], place, 'text')} = {terms(f.factor_text, '·', '…')} = {total[0]}{count}"
    written_out = terms(f.factor_latex, r" \cdot ", r"\cdots")
    latex = f"{entry_name(names[0], place)} &= {written_out} = {total[1]}{count_latex}"
    return text, latex


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


def _labels(argument, labels, values, axis):
    if labels is None:
        return None
    labels = list(labels)
    length = (1, *values.shape)[axis] if values.ndim < 2 and values.ndim else values.shape[axis] if values.ndim else 1
    if len(labels) != length:
        raise ValueError(f"{argument} had {len(labels)} labels; there must be {length}, one for each along axis {axis} of shape {values.shape}")
    return labels


def _decimals(values: np.ndarray) -> np.ndarray:
    return np.array([f.decimal_of(x) for x in values.ravel()], dtype=float).reshape(values.shape)


def shape_text(shape) -> str:
    return "(" + ", ".join(str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"


def shape_latex(shape) -> str:
    return r" \times ".join(str(n) for n in shape) if shape else r"\text{scalar}"
