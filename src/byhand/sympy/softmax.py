"""Softmax over each row, with a mask."""

from collections.abc import Sequence
from functools import partial

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .rows import each_row

Mask = Sequence[Sequence[bool]]


@each_row("x", "mask")
def softmax(x: sp.Matrix, mask: Mask | None = None) -> sp.Matrix:
    """y_i = e^(x_i) / Σ_j e^(x_j), the sum over the entries that take part

    mask[row][column] is True where an entry takes part; the others are exactly 0. A row with nothing left is all zeros.
    """
    mask = [[True] * x.cols] * x.rows if mask is None else mask
    return sp.ImmutableMatrix(x.rows, x.cols, lambda i, j: _entry(list(x[i, :]), mask[i], j))


def _entry(row, allowed, j):
    if not allowed[j]:
        return sp.Integer(0)
    part = [value for value, takes_part in zip(row, allowed) if takes_part]
    if any(value.free_symbols for value in part):
        return sp.exp(row[j]) / sum(sp.exp(value) for value in part)
    return 1 / sum(sp.exp(value - row[j]) for value in part)  # the same number, shorter when it is one


@counted
def softmax_derivation(n: int = 3, allowed: Sequence[bool] | None = None) -> dict[str, Derivation]:
    """The Jacobian ∂p_i/∂x_j = p_i (δ_ij − p_j), and dx_i = p_i (dp_i − Σ_j dp_j p_j), derived for a row of n entries.

    With `allowed`, some entries are masked: their column and row of the Jacobian are 0, and so is their dx.
    """
    allowed = (True,) * n if allowed is None else tuple(map(bool, allowed))
    x, dy = symbols("x", 1, n), symbols("dy", 1, n)
    p = sp.Matrix([[sp.Symbol(f"p_{j}", positive=True) if allowed[j] else 0 for j in range(n)]])
    y = softmax(x, [allowed])
    where = {p[j]: y[j] for j in range(n) if allowed[j]}
    name = "softmax" if all(allowed) else "masked softmax"
    note = "" if all(allowed) else f"masked: {', '.join(str(j) for j in range(n) if not allowed[j])}"
    stated, in_p = r"p = \operatorname{softmax}(x)", partial(in_probabilities, x=x, p=p)
    jacobian = Derivation(
        name, "jacobian", {"x": x}, y, y.jacobian(x), sp.diag(*p) - p.T * p, stated,
        r"J = \operatorname{diag}(p) - p^\top p", y.jacobian(x).applyfunc(in_p), where, note=note,
    )  # fmt: skip
    inner = sum(dy[j] * p[j] for j in range(n))
    rule = sp.Matrix(1, n, lambda _, i: p[i] * (dy[i] - inner))
    formula = r"dX = p \odot \left(dP - \textstyle\sum_j dP_j\,p_j\right)"
    return {"jacobian": jacobian, "dx": derive(name, y, {"x": x, "dy": dy}, "x", rule, stated, formula, in_p, where=where, note=note)}


def in_probabilities(expression: sp.Expr, x: sp.Matrix, p: sp.Matrix) -> sp.Expr:
    """The expression with e^(x_j) = p_j Z, where Z = Σ_j e^(x_j), multiplied out: Z cancels. Each row has a Z of its own."""
    for i in range(x.rows):
        taking_part = [j for j in range(x.cols) if p[i, j] != 0]
        total = sp.Dummy("Z", positive=True)
        expression = expression.subs(sum(sp.exp(x[i, j]) for j in taking_part), total)
        expression = expression.subs({sp.exp(x[i, j]): p[i, j] * total for j in taking_part})
    return sp.expand(expression)
