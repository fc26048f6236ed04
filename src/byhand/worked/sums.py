"""Sums: gradients that meet, products taken backwards, one number beside its name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned
from byhand.worked.matrices import entry_name, matrix, matrix_latex, matrix_product, named_with_shape, non_empty, shape_text
from byhand.worked.verdicts import agreement


def number(value: Any, name: str | None = None, digits: int = 3, exact: Any = None) -> Written:
    """name = value; an exact number is followed by its decimal.

    exact: SymPy's number for the same thing; it must agree with `value` within 1e-12 and is then shown first.
    """
    if exact is not None:
        agreement(value, exact, names=("value", "exact"))
        value = exact
    text, latex = f.with_decimal(value, digits, "text"), f.with_decimal(value, digits)
    if name is not None:
        text, latex = f"{f.name_text(name)} = {text}", f"{f.name_latex(name)} = {latex}"
    return Written(text, latex, value=value)


def sum_of_terms(
    terms: Mapping[str, Any] | Sequence[tuple[str, Any]], name: str = "dX", entry: tuple[int, ...] | None = None, digits: int = 3, limit: int | None = 8
) -> Written:
    """name = Σ terms: what arrives along each path, and the sum, for whole arrays or for one entry.

    terms: {"through Q": array, ...} or a list of such pairs, all of one shape (vectors, matrices, or more axes with `entry`).
    """
    pairs = list(terms.items()) if isinstance(terms, Mapping) else [tuple(term) for term in terms]
    if not pairs:
        raise ValueError("terms was empty; it must hold at least one term")
    arrays = [non_empty(f.as_array(value, label)) for label, value in pairs]
    for (label, _), array in zip(pairs, arrays):
        if array.shape != arrays[0].shape:
            raise ValueError(f"terms: {label} had shape {array.shape}, {pairs[0][0]} {arrays[0].shape}; all must have one shape, since they are summed")
    labels, total = [label for label, _ in pairs], sum(arrays[1:], arrays[0])
    if entry is not None or total.ndim == 0:
        return _sum_at(labels, arrays, total, name, tuple(entry or ()), digits)
    if total.ndim > 2:
        raise ValueError(f"terms had shape {total.shape}; pick one matrix of them, or give an entry")
    return _whole_sum(labels, arrays, total, name, f.checked_digits(digits), limit)


def product_entry(
    x: Any, g: Any, entry: tuple[int, int] | str = (0, 0), names: tuple[str, str, str] = ("dW", "X", "G"), digits: int = 3, limit: int | None = 8
) -> Written:
    """dW[i, j] = Σₜ X[t, i] · G[t, j], that is dW = Xᵀ G: a weight's gradient, summed over every row that it met.

    x: (..., rows, m), g: (..., rows, n), any batch axes in front (their rows are summed too). entry: (i, j) or "all".
    """
    x, g = _rows(x, "x"), _rows(g, "g")
    if len(x) != len(g):
        raise ValueError(f"x had {len(x)} rows and g had {len(g)}; they must have as many")
    transposed = names[1] + "^T" if "\\" not in names[1] and "{" not in names[1] else rf"{names[1]}^\top"
    worked = matrix_product(x.T, g, (names[0], transposed, names[2]), entry, digits, limit)
    d, a, b = (entry_name(n, ("i", "j")) if k == 0 else entry_name(n, ("t", "ij"[k - 1])) for k, n in enumerate(names))
    rule = rf"{d} &= \sum_{{t}} {a}\, {b}"
    rule_text = f"{f.name_text(names[0])}[i, j] = Σ_t {f.name_text(names[1])}[t, i]·{f.name_text(names[2])}[t, j]"
    latex = worked.latex.replace("\\begin{aligned}\n", "\\begin{aligned}\n" + rule + " \\\\\n", 1)
    return Written(f"{rule_text}\n{worked.text}", latex, value=worked.value)


def outer_product(u: Any, v: Any, names: tuple[str, str, str] = ("dW", "u", "v"), entry: tuple[int, int] | str | None = None, digits: int = 3) -> Written:
    """dW[i, j] = u[i] · v[j]: what one row adds to a weight's gradient. u: (m,), v: (n,)."""
    u, v = f.as_array(u, "u"), f.as_array(v, "v")
    if u.ndim != 1 or v.ndim != 1:
        raise ValueError(f"u had shape {u.shape} and v had shape {v.shape}; each must be one vector")
    transposed = names[1] + "^T" if "\\" not in names[1] and "{" not in names[1] else rf"{names[1]}^\top"
    return matrix_product(u.reshape(-1, 1), v.reshape(1, -1), (names[0], transposed, names[2]), entry, digits)


def _sum_at(labels, arrays, total, name, entry, digits) -> Written:
    """One entry: 0.1 (through Q) + 0.2 (through K) = 0.3."""
    try:
        parts, whole = [array[entry] for array in arrays], total[entry]
    except IndexError:
        raise ValueError(f"entry was {entry}; it must lie inside the terms' shape {total.shape}") from None
    if np.ndim(whole):
        raise ValueError(f"entry was {entry}; it must have {total.ndim} indices, one for each axis of shape {total.shape}")
    scale = max(f.scale_of(array) for array in arrays)
    terms = [rf"\underbrace{{{f.factor_latex(part, digits, scale)}}}_{{{f.label_latex(label)}}}" for label, part in zip(labels, parts)]
    plain = [f"{f.factor_text(part, digits, scale)} ({label})" for label, part in zip(labels, parts)]
    left, left_text = (entry_name(name, entry), entry_name(name, entry, "text")) if entry else (f.name_latex(name), f.name_text(name))
    text = f"{left_text} = {' + '.join(plain)} = {f.text(whole, digits, scale)}"
    return Written(text, f"{left} = {' + '.join(terms)} = {f.latex(whole, digits, scale)}", value=whole)


def _whole_sum(labels, arrays, total, name, digits, limit) -> Written:
    scale = max(f.scale_of(array) for array in arrays)

    def write(array):
        return matrix_latex(array, None, None, digits, scale, limit)

    lines, text = [], []
    for k, (label, array) in enumerate(zip(labels, arrays)):
        left = f"{named_with_shape(name, total.shape)} &= " if k == 0 else r"&\quad + "
        lines.append(rf"{left}{write(array)} && {f.label_latex(label)}")
        text.append(f"{'  ' if k == 0 else '+ '}{label}:\n{matrix(array, digits=digits, limit=limit).text}")
    lines.append(rf"&= {write(total)}")
    text = [f"{f.name_text(name)} {shape_text(total.shape)} =", *text, "=", matrix(total, digits=digits, limit=limit).text]
    return Written("\n".join(text), aligned(lines) if len(lines) > 1 else lines[0], value=total)


def _rows(values, name) -> np.ndarray:
    values = non_empty(f.as_array(values, name))
    if values.ndim < 2:
        raise ValueError(f"{name} had shape {values.shape}; it must be (..., rows, columns)")
    return values.reshape(-1, values.shape[-1])
