"""Position-wise feed-forward network, and the functions that bend inside it."""

import sympy as sp

from .derivation import Derivation, counted, derive, symbols
from .linear import linear
from .rows import each_row


@each_row("x")
def relu(x: sp.Matrix) -> sp.Matrix:
    """y = x where x > 0, else 0"""
    return x.applyfunc(lambda value: sp.Piecewise((value, value > 0), (0, True)))


@each_row("x")
def gelu(x: sp.Matrix) -> sp.Matrix:
    """y = x Φ(x),  Φ(x) = (1 + erf(x/√2)) / 2"""
    return x.applyfunc(lambda value: value * _below(value))


@each_row("x")
def gelu_tanh(x: sp.Matrix) -> sp.Matrix:
    """y = x/2 · (1 + tanh(u)),  u = √(2/π) (x + 0.044715 x³)"""
    return x.applyfunc(lambda value: value / 2 * (1 + sp.tanh(_argument(value))))


@each_row("x")
def silu(x: sp.Matrix) -> sp.Matrix:
    """y = x σ(x),  σ(x) = 1 / (1 + e^(−x))"""
    return x.applyfunc(lambda value: value * sigmoid(value))


@each_row("hidden", "gate")
def swiglu(hidden: sp.Matrix, gate: sp.Matrix) -> sp.Matrix:
    """y = silu(hidden) ⊙ gate"""
    return silu(hidden).multiply_elementwise(gate)


def sigmoid(x: sp.Expr) -> sp.Expr:
    """σ(x) = 1 / (1 + e^(−x))"""
    return 1 / (1 + sp.exp(-x))


def _below(x):
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def _argument(x):
    return sp.sqrt(2 / sp.pi) * (x + sp.Rational(44715, 1000000) * x**3)


def feed_forward(x: sp.Matrix, w_1: sp.Matrix, b_1: sp.Matrix, w_2: sp.Matrix, b_2: sp.Matrix) -> sp.Matrix:
    """y = max(0, x w₁ + b₁) w₂ + b₂

    x (time, d_model), w₁ (d_model, d_ff), w₂ (d_ff, d_model). Source: Vaswani et al. 2017, equation 2.
    """
    return linear(relu(linear(x, w_1, b_1)), w_2, b_2)


@counted
def relu_derivation(n: int = 3) -> dict[str, Derivation]:
    """dx = dy where x > 0, else 0. See relu_at_zero for x = 0."""
    x, dy = symbols("x", 1, n), symbols("dy", 1, n)
    note = "at x = 0 there is no derivative; the rule's 0 is a choice (relu_at_zero)"
    textbook = gate(x).multiply_elementwise(dy)
    formula = r"dX = dY \odot \mathbf{1}[X > 0]"
    return {"dx": derive("ReLU", relu(x), {"x": x, "dy": dy}, "x", textbook, r"Y = \max(0, X)", formula, note=note)}


@counted
def gelu_derivation(n: int = 2) -> dict[str, Derivation]:
    """dx = dy ⊙ (Φ(x) + x φ(x)),  φ(x) = e^(−x²/2) / √(2π), Φ's derivative"""
    x, dy = symbols("x", 1, n), symbols("dy", 1, n)
    slopes = x.applyfunc(lambda value: _below(value) + value * sp.exp(-(value**2) / 2) / sp.sqrt(2 * sp.pi))
    stated, formula = r"Y = X \odot \Phi(X)", r"dX = dY \odot \left(\Phi(X) + X \odot \varphi(X)\right)"
    return {"dx": derive("GELU", gelu(x), {"x": x, "dy": dy}, "x", slopes.multiply_elementwise(dy), stated, formula)}


@counted
def gelu_tanh_derivation(n: int = 2) -> dict[str, Derivation]:
    """dx = dy ⊙ ((1 + t)/2 + x/2 · (1 − t²) · √(2/π) (1 + 3 · 0.044715 x²)),  t = tanh(√(2/π) (x + 0.044715 x³))"""
    x, dy, t = symbols("x", 1, n), symbols("dy", 1, n), symbols("t", 1, n)
    where = {t[j]: sp.tanh(_argument(x[j])) for j in range(n)}
    steep = sp.Rational(3 * 44715, 1000000)
    rule = sp.Matrix(1, n, lambda _, j: dy[j] * ((1 + t[j]) / 2 + x[j] / 2 * (1 - t[j] ** 2) * sp.sqrt(2 / sp.pi) * (1 + steep * x[j] ** 2)))
    stated = r"Y = \tfrac{1}{2} X \odot (1 + \tanh u),\quad u = \sqrt{2/\pi}\,(X + 0.044715\,X^3)"
    formula = r"dX = dY \odot \left(\tfrac{1}{2}(1 + \tanh u) + \tfrac{1}{2} X \odot (1 - \tanh^2 u) \odot u'\right)"
    return {"dx": derive("GELU, tanh form", gelu_tanh(x), {"x": x, "dy": dy}, "x", rule, stated, formula, where=where)}


@counted
def silu_derivation(n: int = 2) -> dict[str, Derivation]:
    """dx = dy ⊙ σ(x) (1 + x (1 − σ(x)))"""
    x, dy = symbols("x", 1, n), symbols("dy", 1, n)
    s, where = _sigmoids(x)
    rule = sp.Matrix(1, n, lambda _, j: dy[j] * s[j] * (1 + x[j] * (1 - s[j])))
    formula = r"dX = dY \odot \sigma(X) \odot \left(1 + X \odot (1 - \sigma(X))\right)"
    return {"dx": derive("SiLU", silu(x), {"x": x, "dy": dy}, "x", rule, r"Y = X \odot \sigma(X)", formula, where=where)}


@counted
def swiglu_derivation(n: int = 2) -> dict[str, Derivation]:
    """dhidden = dy ⊙ gate ⊙ σ(h) (1 + h (1 − σ(h))),  dgate = dy ⊙ silu(h)"""
    h, gate, dy = symbols("h", 1, n), symbols("g", 1, n), symbols("dy", 1, n)
    s, where = _sigmoids(h)
    inputs, stated = {"hidden": h, "gate": gate, "dy": dy}, r"Y = \operatorname{silu}(H) \odot G"
    dhidden = sp.Matrix(1, n, lambda _, j: dy[j] * gate[j] * s[j] * (1 + h[j] * (1 - s[j])))
    dgate = sp.Matrix(1, n, lambda _, j: dy[j] * h[j] * s[j])
    y = swiglu(h, gate)
    return {
        "dhidden": derive("SwiGLU", y, inputs, "hidden", dhidden, stated, r"dH = dY \odot G \odot \operatorname{silu}'(H)", where=where),
        "dgate": derive("SwiGLU", y, inputs, "gate", dgate, stated, r"dG = dY \odot \operatorname{silu}(H)", where=where),
    }


def _sigmoids(x):
    s = symbols("sigma", 1, x.cols)
    return s, {s[j]: sigmoid(x[j]) for j in range(x.cols)}


def relu_at_zero() -> dict[str, sp.Expr]:
    """The slopes of max(0, x) at 0, from the left, from the right, and what symbolic differentiation puts there.

    The one-sided limits of (max(0, h) − 0)/h differ, so there is no derivative. Anything between them is a subgradient: we and
    PyTorch take 0; SymPy's Heaviside function would take 1/2.
    """
    h, x = sp.Symbol("h", real=True), sp.Symbol("x", real=True)
    quotient = (sp.Max(0, h) - sp.Max(0, sp.Integer(0))) / h
    return {
        "left": sp.limit(quotient, h, 0, "-"),
        "right": sp.limit(quotient, h, 0, "+"),
        "heaviside": sp.diff(sp.Max(0, x), x).subs(x, 0),
        "ours": sp.diff(relu(sp.Matrix([[x]]))[0], x).subs(x, 0),
    }


@counted
def feed_forward_derivation(rows: int = 1, d_model: int = 2, d_ff: int = 2) -> dict[str, Derivation]:
    """dhidden = (dy w₂ᵀ) ⊙ 1[hidden > 0],  dx = dhidden w₁ᵀ,  dw₁ = xᵀ dhidden,  db₁ = Σ_rows dhidden,  dw₂ = activeᵀ dy,  db₂ = Σ_rows dy"""
    x, w_1, b_1 = symbols("x", rows, d_model), symbols("w_1", d_model, d_ff), symbols("b_1", 1, d_ff)
    w_2, b_2, dy = symbols("w_2", d_ff, d_model), symbols("b_2", 1, d_model), symbols("dy", rows, d_model)
    inputs = {"x": x, "w_1": w_1, "b_1": b_1, "w_2": w_2, "b_2": b_2, "dy": dy}
    y, hidden, dhidden = feed_forward(x, w_1, b_1, w_2, b_2), symbols("h", rows, d_ff), symbols("dh", rows, d_ff)
    where = dict(zip(hidden, linear(x, w_1, b_1))) | dict(zip(dhidden, (dy * w_2.T).multiply_elementwise(gate(hidden))))
    over_rows = sp.ones(1, rows)
    rules = {
        "x": (dhidden * w_1.T, r"dX = dH\,W_1^\top,\quad dH = (dY\,W_2^\top) \odot \mathbf{1}[H > 0]"),
        "w_1": (x.T * dhidden, r"dW_1 = X^\top dH"),
        "b_1": (over_rows * dhidden, r"db_1 = \textstyle\sum_{\text{rows}} dH"),
        "w_2": (relu(hidden).T * dy, r"dW_2 = \max(0, H)^\top dY"),
        "b_2": (over_rows * dy, r"db_2 = \textstyle\sum_{\text{rows}} dY"),
    }
    stated = r"Y = \max(0, X W_1 + b_1)\,W_2 + b_2"
    return {f"d{name}": derive("feed-forward", y, inputs, name, rule, stated, formula, where=where) for name, (rule, formula) in rules.items()}


def gate(x: sp.Matrix) -> sp.Matrix:
    """1 where x > 0, else 0"""
    return x.applyfunc(lambda value: sp.Piecewise((1, value > 0), (0, True)))
