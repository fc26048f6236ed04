"""The sheet that goes with the reader: each value beside its gradient."""

from collections.abc import Sequence
from typing import Any

from byhand.worked import formatting as f
from byhand.worked.display import Written, array
from byhand.worked.formatting import LATEX, TEXT
from byhand.worked.matrices import write_matrix, write_shape


def sheet(rows: Sequence[tuple[str, Any, Any]], digits: int = 3, limit: int | None = 4) -> Written:
    """name | shape | value | gradient, one line for each (name, value, gradient); a gradient of None has not been found yet.

    value, gradient: numbers, vectors or matrices of one shape (a batch of one is taken as its only member). Sides longer than `limit` show their
    ends, with dots between; the shape is stated.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("rows was empty; it must hold at least one (name, value, gradient)")
    digits = f.checked_digits(digits)
    table, plain = [["", r"\text{shape}", r"\text{value}", r"\text{gradient}"]], []
    for row in rows:
        if len(row) != 3:
            raise ValueError(f"rows held {row!r}; each must be (name, value, gradient)")
        name, value, gradient = row
        value = _one(f.as_array(value, name), name)
        table.append([f.name_latex(name), write_shape(LATEX, value.shape), _cell(LATEX, value, digits, limit)])
        lines = [f"{f.name_text(name)} {write_shape(TEXT, value.shape)}", _indented("value", value, digits, limit)]
        if gradient is None:
            table[-1].append(r"\text{-}")
            lines.append("  gradient  -")
        else:
            gradient = _one(f.as_array(gradient, name), name)
            if gradient.shape != value.shape:
                raise ValueError(f"rows: the gradient of {name} had shape {gradient.shape}; it must have the value's shape {value.shape}")
            table[-1].append(_cell(LATEX, gradient, digits, limit))
            lines.append(_indented("gradient", gradient, digits, limit))
        plain += lines
    return Written("\n".join(plain), array(table, "l|c|c|c", rules=tuple(range(1, len(table)))))


def _one(values, name):
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim > 2 or not values.size:
        raise ValueError(f"rows: {name} had shape {values.shape}; it must be a number, a vector or one matrix")
    return values


def _cell(form, values, digits, limit) -> str:
    if values.ndim == 0:
        return form.number(values[()], digits)
    return write_matrix(form, values, digits, f.scale_of(values), limit)


def _indented(label, values, digits, limit) -> str:
    first, *others = _cell(TEXT, values, digits, limit).splitlines()
    return "\n".join([f"  {label.ljust(8)}  {first}", *(" " * 12 + line for line in others)])
