"""Low-rank adaptation: a frozen matrix, and a small trainable update beside it."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols


def lora(x: sp.Matrix, w: sp.Matrix, a: sp.Matrix, b: sp.Matrix, alpha: sp.Expr) -> sp.Matrix:
    """y = x w + (α/r) (x a) b;  a (d_in, r), b (r, d_out)"""
    return x * w + alpha / a.cols * (x * a) * b


@counted
def lora_derivation(rows: int = 2, d_in: int = 3, d_out: int = 2, rank: int = 1) -> dict[str, Derivation]:
    """dx = dy wᵀ + (α/r) dy bᵀ aᵀ,  da = (α/r) xᵀ (dy bᵀ),  db = (α/r) (x a)ᵀ dy"""
    x, w, dy = symbols("x", rows, d_in), symbols("w", d_in, d_out), symbols("dy", rows, d_out)
    a, b, alpha = symbols("a", d_in, rank), symbols("b", rank, d_out), sp.Symbol("alpha", real=True)
    inputs = {"x": x, "w": w, "a": a, "b": b, "alpha": sp.Matrix([[alpha]]), "dy": dy}
    y, stated, scale = lora(x, w, a, b, alpha), r"Y = X W + \tfrac{\alpha}{r} X A B", alpha / rank
    rules = {
        "x": (dy * w.T + scale * dy * b.T * a.T, r"dX = dY\,W^\top + \tfrac{\alpha}{r}\,dY\,B^\top A^\top"),
        "a": (scale * x.T * (dy * b.T), r"dA = \tfrac{\alpha}{r}\,X^\top (dY\,B^\top)"),
        "b": (scale * (x * a).T * dy, r"dB = \tfrac{\alpha}{r}\,(X A)^\top dY"),
    }
    return {f"d{name}": derive("low-rank update", y, inputs, name, rule, stated, formula) for name, (rule, formula) in rules.items()}
