"""Adam and the paper's learning-rate schedule, exactly; and what Adam's first step tends to."""

from typing import NamedTuple

import sympy as sp

Matrices = dict[str, sp.Matrix]


class AdamState(NamedTuple):
    t: int
    m: Matrices
    v: Matrices


BETAS = (sp.Rational(9, 10), sp.Rational(98, 100))
EPS = sp.Rational(1, 10**9)


def noam(step: int, d_model: int, warmup: int = 4000) -> sp.Expr:
    """lr(t) = d_model^(−1/2) · min(t^(−1/2), t · warmup^(−3/2))

    Raises ValueError for a step, width or warm-up below 1. Source: Vaswani et al. 2017, equation 3.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"{name} was {value}; it must be at least 1")
    step, d_model, warmup = map(sp.Integer, (step, d_model, warmup))
    return sp.Min(1 / sp.sqrt(step), step / sp.sqrt(warmup) ** 3) / sp.sqrt(d_model)


def adam(
    params: Matrices,
    grads: Matrices,
    state: AdamState | None = None,
    lr: sp.Expr = sp.Rational(1, 1000),
    betas: tuple[sp.Expr, sp.Expr] = BETAS,
    eps: sp.Expr = EPS,
) -> tuple[Matrices, AdamState]:
    """θ ← θ − lr · m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

    m ← β₁ m + (1 − β₁) g and v ← β₂ v + (1 − β₂) g², from 0. Returns new params and the new state.
    Source: Kingma and Ba 2015, algorithm 1.
    """
    old = AdamState(0, {}, {}) if state is None else state
    t, new_params, m, v = old.t + 1, {}, {}, {}
    for name, theta in params.items():
        zero = sp.zeros(*theta.shape)
        m[name] = moment(old.m.get(name, zero), grads[name], betas[0])
        v[name] = moment(old.v.get(name, zero), grads[name].multiply_elementwise(grads[name]), betas[1])
        new_params[name] = theta - update(corrected(m[name], betas[0], t), corrected(v[name], betas[1], t), lr, eps)
    return new_params, AdamState(t, m, v)


def moment(old: sp.Matrix, new: sp.Matrix, beta: sp.Expr) -> sp.Matrix:
    """β · old + (1 − β) · new"""
    return beta * old + (1 - beta) * new


def corrected(value: sp.Matrix, beta: sp.Expr, t: int) -> sp.Matrix:
    """value / (1 − βᵗ)"""
    return (value / (1 - beta**t)).applyfunc(sp.cancel)


def update(m_hat: sp.Matrix, v_hat: sp.Matrix, lr: sp.Expr, eps: sp.Expr) -> sp.Matrix:
    """lr · m̂ / (√v̂ + ε)"""
    return sp.ImmutableMatrix(*m_hat.shape, lambda i, j: lr * m_hat[i, j] / (sp.sqrt(v_hat[i, j]) + eps))


def first_step_limit() -> sp.Expr:
    """−lr · sign(g): Adam's first step as ε → 0, whatever the size of the gradient g ≠ 0."""
    g, lr, eps = sp.Symbol("g", real=True, nonzero=True), sp.Symbol("eta", positive=True), sp.Symbol("epsilon", positive=True)
    after, _ = adam({"theta": sp.zeros(1, 1)}, {"theta": sp.Matrix([[g]])}, None, lr, sp.symbols("beta_1 beta_2", positive=True), eps)
    return sp.simplify(after["theta"][0].subs(eps, 0).rewrite(sp.sign))
