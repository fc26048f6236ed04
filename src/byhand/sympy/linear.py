"""Linear layer: a matrix product and a bias; and sums and multiples, which are linear too."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .rows import each_row


@each_row("x")
def linear(x: sp.Matrix, w: sp.Matrix, b: sp.Matrix | None = None) -> sp.Matrix:
    """y = x w + b

    x (time, d_in), w (d_in, d_out), b (1, d_out), added to every row.
    Raises ValueError where the shapes do not fit.
    """
    if x.cols != w.rows:
        raise ValueError(f"x had shape {x.shape}; its last axis must be w's first, {w.rows}")
    if b is not None and b.shape != (1, w.cols):
        raise ValueError(f"b had shape {b.shape}; it must be (1, {w.cols}), w's last axis")
    return x * w if b is None else x * w + sp.ones(x.rows, 1) * b


def add(*terms: sp.Matrix) -> sp.Matrix:
    """y = a + b + …"""
    return sum(terms[1:], terms[0])


def transpose(x: sp.Matrix) -> sp.Matrix:
    """y = xᵀ; with tied weights the output layer is the target embedding, transposed."""
    return x.T


@counted
def linear_derivation(rows: int = 2, d_in: int = 3, d_out: int = 2) -> dict[str, Derivation]:
    """dx = dy wᵀ,  dw = xᵀ dy,  db = Σ_rows dy, derived at this size."""
    x, w, b, dy = symbols("x", rows, d_in), symbols("w", d_in, d_out), symbols("b", 1, d_out), symbols("dy", rows, d_out)
    inputs = {"x": x, "w": w, "b": b, "dy": dy}
    y, stated = linear(x, w, b), "Y = X W + b"
    return {
        "dx": derive("linear", y, inputs, "x", dy * w.T, stated, r"dX = dY\,W^\top"),
        "dw": derive("linear", y, inputs, "w", x.T * dy, stated, r"dW = X^\top dY"),
        "db": derive("linear", y, inputs, "b", sp.ones(1, rows) * dy, stated, r"db = \textstyle\sum_{\text{rows}} dY"),
    }


@counted
def add_derivation(rows: int = 2, width: int = 2) -> dict[str, Derivation]:
    """y = a + b hands dy on unchanged to both; where one x takes both ways, x + f(x), what comes back is summed.

    The second case is a residual branch with f(x) = x w.
    """
    a, b, dy = symbols("a", rows, width), symbols("b", rows, width), symbols("dy", rows, width)
    x, w = symbols("x", rows, width), symbols("w", width, width)
    fork, residual = {"a": a, "b": b, "dy": dy}, {"x": x, "w": w, "dy": dy}
    return {
        "da": derive("addition", add(a, b), fork, "a", dy, "Y = A + B", r"dA = dY"),
        "db": derive("addition", add(a, b), fork, "b", dy, "Y = A + B", r"dB = dY"),
        "dx": derive("residual branch", add(x, linear(x, w)), residual, "x", dy + dy * w.T, "Y = X + X W", r"dX = dY + dY\,W^\top"),
    }
