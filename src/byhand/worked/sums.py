"""Sums: gradients that meet, products taken backwards, one number beside its name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, both, equations, stacked
from byhand.worked.matrices import entry_name, matrix, matrix_product, named_with_shape, non_empty, product_lines, write_matrix
from byhand.worked.verdicts import agreement


def number(value: Any, name: str | None = None, digits: int = 3, exact: Any = None) -> Written:
    """name = value; an exact number is followed by its decimal.

    exact: SymPy's number for the same thing; it must agree with `value` within 1e-12 and is then shown first.
    """
    if exact is not None:
        agreement(value, exact, names=("value", "exact"))
        value = exact
    return both(lambda form: (f"{form.name(name)} = " if name is not None else "") + form.decimal(value, digits), value)


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
    names = (names[0], _transposed(names[1]), names[2]), names
    whole = product_lines(x.T, g, names[0], entry, f.checked_digits(digits), limit)

    def lines(form):
        d, a, b = (entry_name(form, name, place) for name, place in zip(names[1], (("i", "j"), ("t", "i"), ("t", "j"))))
        yield d, form(rf"\sum_{{t}} {a}\, {b}", f"Σ_t {a}·{b}")
        yield from whole(form)

    return equations(lines, x.T @ g)


def _transposed(name):
    if "^" in name:
        return rf"({f.name_latex(name)})^\top"
    return name + "^T" if "\\" not in name and "{" not in name else rf"{name}^\top"


def outer_product(u: Any, v: Any, names: tuple[str, str, str] = ("dW", "u", "v"), entry: tuple[int, int] | str | None = None, digits: int = 3) -> Written:
    """dW[i, j] = u[i] · v[j]: what one row adds to a weight's gradient. u: (m,), v: (n,)."""
    u, v = f.as_array(u, "u"), f.as_array(v, "v")
    if u.ndim != 1 or v.ndim != 1:
        raise ValueError(f"u had shape {u.shape} and v had shape {v.shape}; each must be one vector")
    return matrix_product(u.reshape(-1, 1), v.reshape(1, -1), (names[0], _transposed(names[1]), names[2]), entry, digits)


def _sum_at(labels, arrays, total, name, entry, digits) -> Written:
    """One entry: 0.1 (through Q) + 0.2 (through K) = 0.3."""
    try:
        parts, whole = [array[entry] for array in arrays], total[entry]
    except IndexError:
        raise ValueError(f"entry was {entry}; it must lie inside the terms' shape {total.shape}") from None
    if np.ndim(whole):
        raise ValueError(f"entry was {entry}; it must have {total.ndim} indices, one for each axis of shape {total.shape}")
    scale = max(f.scale_of(array) for array in arrays)

    def written(form):
        terms = [(form.factor(part, digits, scale), form.label(label)) for label, part in zip(labels, parts)]
        sum_of = " + ".join(form(rf"\underbrace{{{part}}}_{{{label}}}", f"{part} ({label})") for part, label in terms)
        left = entry_name(form, name, entry) if entry else form.name(name)
        return f"{left} = {sum_of} = {form.number(whole, digits, scale)}"

    return both(written, whole)


def _whole_sum(labels, arrays, total, name, digits, limit) -> Written:
    scale = max(f.scale_of(array) for array in arrays)

    def lines(form):
        left = named_with_shape(form, name, total.shape)
        if not form.is_latex:  # each matrix by its own scale
            whole = [matrix(array, digits=digits, limit=limit).text for array in (*arrays, total)]
            terms = [f"{'+ ' if k else '  '}{label}:\n{shown}" for k, (label, shown) in enumerate(zip(labels, whole))]
            yield from [f"{left} =", *terms, "=", whole[-1]]
            return
        for k, (label, array) in enumerate(zip(labels, arrays)):
            start = r"&\quad + " if k else f"{left} &= "
            yield f"{start}{write_matrix(form, array, digits, scale, limit)} && {form.label(label)}"
        yield rf"&= {write_matrix(form, total, digits, scale, limit)}"

    return stacked(lines, total)


def _rows(values, name) -> np.ndarray:
    values = non_empty(f.as_array(values, name))
    if values.ndim < 2:
        raise ValueError(f"{name} had shape {values.shape}; it must be (..., rows, columns)")
    return values.reshape(-1, values.shape[-1])
