"""Written-out steps that are neither a product nor a row's normalisation: a rotation by its position, and Adam for one weight."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byhand.numpy.optimizer import adam
from byhand.numpy.position import rope
from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, equations
from byhand.worked.formatting import LATEX, TEXT


def rope_row(x: Any, position: int, base: float = 10000.0, pairing: str = "interleaved", digits: int = 3) -> Written:
    """(y_a, y_b) = (x_a cos θ - x_b sin θ, x_a sin θ + x_b cos θ), one pair after the other: its angle, then its two entries.

    x: (d,), d even; position: a whole number of at least 0.
    """
    x = f.as_array(x, "x").astype(float)
    y = rope(x[None], np.array([position]), base, pairing)[0][0]
    digits, scale = f.checked_digits(digits), f.scale_of(x)

    def lines(form):
        dot = form(r" \cdot ", "·")
        for i in range(len(x) // 2):
            a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + len(x) // 2)
            step = base ** (-2 * i / len(x))
            c, s = math.cos(position * step), math.sin(position * step)
            angle = f"{position}{dot}{form.number(step, digits + 1, 0.0)} = {form.number(position * step, digits + 1, 0.0)}"
            yield form(rf"\theta_{{{i}}}", f"θ[{i}]"), angle
            # the names of the functions stay in the formula, so that a calculator can follow
            for place, p, q, first, sign, second in ((a, c, s, "cos", "-", "sin"), (b, s, c, "sin", "+", "cos")):
                rule = form(rf"x_{{{a}}}\{first}\theta_{{{i}}} {sign} x_{{{b}}}\{second}\theta_{{{i}}} = ", "")
                left, right = (f"{form.factor(v, digits, scale)}{dot}{form.factor(w, digits, 1.0)}" for v, w in ((x[a], p), (x[b], q)))
                yield form(f"y_{{{place}}}", f"y[{place}]"), f"{rule}{left} {sign} {right} = {form.number(y[place], digits, scale)}"

    return equations(lines, y)


def adam_steps(
    gradients: Any,
    weight: float = 1.0,
    lr: float | Sequence[float] | Callable[[int], float] = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    name: str = "w",
    digits: int = 4,
    first: int = 1,
) -> Written:
    """m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², w ← w - lr · m̂ / (√v̂ + ε), m̂ = m / (1-β₁ᵗ), v̂ = v / (1-β₂ᵗ), for one weight.

    gradients: one number for each step. lr: one number, one for each step, or a function of the step (from 1). first: the first step
    to write out; the steps before it are taken unseen. digits: significant figures here. `value` holds the weight after each step.
    """
    gradients = np.atleast_1d(f.as_floats(gradients, "gradients"))
    if gradients.ndim != 1 or not len(gradients):
        raise ValueError(f"gradients had shape {gradients.shape}; it must hold one finite number for each step")
    rates = _rates(lr, len(gradients))
    if not 1 <= first <= len(gradients):
        raise ValueError(f"first was {first}; it must be a step from 1 to {len(gradients)}")
    params, state, weights, steps = {name: np.array([float(weight)])}, None, [], []
    for t, (g, rate) in enumerate(zip(gradients, rates), 1):
        before = (params[name].item(), state.m[name].item(), state.v[name].item()) if state else (float(weight), 0.0, 0.0)
        params, state = adam(params, {name: np.array([g])}, state, rate, betas, eps)
        after = (params[name].item(), state.m[name].item(), state.v[name].item())
        weights.append(after[0])
        if t >= first:
            steps.append((t, float(g), rate, before, after))

    def lines(form):
        return [line for step in steps for line in _adam_block(form, *step, betas, eps, name, digits)]

    return Written("\n".join(lines(TEXT)), aligned(lines(LATEX)), value=np.array(weights))


def _adam_block(form, t, g, rate, before, after, betas, eps, name, digits) -> list[str]:
    (w0, m0, v0), (w, m, v) = before, after
    m_hat, v_hat = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    step = rate * m_hat / (math.sqrt(v_hat) + eps)
    fine = max(digits, math.ceil(-math.log10(abs(step))) + 1) if step else digits  # enough places to see the weight move

    def n(x):
        return form.significant(x, digits)

    def b(x):
        return n(x) if x >= 0 else form(rf"\left({n(x)}\right)", f"({n(x)})")

    def over(a, c):
        return form(rf"\frac{{{a}}}{{{c}}}", f"{a} / ({c})")

    dot, power = form(r" \cdot ", "·"), form(f"^{{{t}}}", f"^{t}")
    (b1, c1), (b2, c2) = ((n(beta), n(1 - beta)) for beta in betas)
    root = form(rf"\sqrt{{{n(v_hat)}}}", f"√{n(v_hat)}") + f" + {n(eps)}"
    rows = [
        (form(f"m_{{{t}}}", f"m_{t}"), f"{b1}{dot}{b(m0)} + {c1}{dot}{b(g)} = {n(m)}"),
        (form(f"v_{{{t}}}", f"v_{t}"), f"{b2}{dot}{n(v0)} + {c2}{dot}{b(g)}{form('^2', '²')} = {n(v)}"),
        (form(rf"\hat{{m}}_{{{t}}}", f"m̂_{t}"), f"{over(n(m), f'1 - {b1}{power}')} = {n(m_hat)}"),
        (form(rf"\hat{{v}}_{{{t}}}", f"v̂_{t}"), f"{over(n(v), f'1 - {b2}{power}')} = {n(v_hat)}"),
        (form(r"\text{step}", "step"), f"{n(rate)}{dot}{over(n(m_hat), root)} = {n(step)}"),
        (form.name(name) + form(f"^{{({t})}}", f"({t})"), f"{form.number(w0, fine, 0.0)} - {b(step)} = {form.number(w, fine, 0.0)}"),
    ]
    heading = form(rf"t = {t}: \quad & g = ", f"t = {t}: g = ") + n(g)
    return [heading, *(form(f"{left} &= {right}", f"  {left} = {right}") for left, right in rows)]


def _rates(lr, steps) -> list[float]:
    if callable(lr):
        rates = [float(lr(t)) for t in range(1, steps + 1)]
    elif np.ndim(lr):
        rates = [float(rate) for rate in lr]
    else:
        rates = [float(lr)] * steps
    if len(rates) != steps:
        raise ValueError(f"lr gave {rates}; it must give one finite rate of at least 0 for each of the {steps} steps")
    return rates
