"""Written-out steps that are neither a product nor a row's normalisation: positions, and Adam for one weight."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned
from byhand.worked.matrices import GAP, SHOWN, kept


def sinusoid_row(position: int, d_model: int, digits: int = 3, base: float = 10000.0, limit: int | None = SHOWN) -> Written:
    """PE[pos, 2i] = sin(pos / base^{2i/d}), PE[pos, 2i+1] = cos(pos / base^{2i/d}): one position's row, entry by entry."""
    if isinstance(position, bool) or not isinstance(position, (int, np.integer)) or position < 0:
        raise ValueError(f"position was {position!r}; it must be a whole number of at least 0")
    if isinstance(d_model, bool) or not isinstance(d_model, (int, np.integer)) or d_model < 2 or d_model % 2:
        raise ValueError(f"d_model was {d_model!r}; it must be an even whole number of at least 2")
    lines, text, values = [], [], []
    for k in range(d_model):
        angle = position / base ** (2 * (k // 2) / d_model)
        values.append(math.cos(angle) if k % 2 else math.sin(angle))
    for k in kept(d_model, limit):
        if k is GAP:
            lines.append(r"&\;\;\vdots")
            text.append("⋮")
            continue
        name, power = ("cos" if k % 2 else "sin"), 2 * (k // 2)
        angle = position / base ** (power / d_model)
        fraction = rf"{position} / {f.latex(base, digits)}^{{{power}/{d_model}}}"
        lines.append(rf"PE_{{{position},{k}}} &= \{name}\left({fraction}\right) = \{name}({f.latex(angle, digits)}) = {f.latex(values[k], digits)}")
        written = f"{name}({position} / {f.text(base, digits)}^({power}/{d_model}))"
        text.append(f"PE[{position}, {k}] = {written} = {name}({f.text(angle, digits)}) = {f.text(values[k], digits)}")
    return Written("\n".join(text), aligned(lines), value=np.array(values))


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
    gradients = f.as_array(gradients, "gradients").astype(float)
    gradients = gradients.reshape(1) if gradients.ndim == 0 else gradients
    if gradients.ndim != 1 or not len(gradients) or not np.isfinite(gradients).all():
        raise ValueError(f"gradients had shape {gradients.shape}; it must hold one finite number for each step")
    for which, beta in zip(("β₁", "β₂"), betas):
        if not 0 <= beta < 1:
            raise ValueError(f"betas: {which} was {beta}; it must lie in [0, 1)")
    if not eps >= 0:
        raise ValueError(f"eps was {eps}; it must be at least 0")
    rates = _rates(lr, len(gradients))
    if not 1 <= first <= len(gradients):
        raise ValueError(f"first was {first}; it must be a step from 1 to {len(gradients)}")
    m = v = 0.0
    blocks, texts, weights = [], [], []
    for t, (g, rate) in enumerate(zip(gradients, rates), 1):
        before = (float(weight), m, v)
        m = betas[0] * m + (1 - betas[0]) * float(g)
        v = betas[1] * v + (1 - betas[1]) * float(g) ** 2
        m_hat, v_hat = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
        if v_hat == 0 and eps == 0:
            raise ValueError(f"gradients were 0 up to step {t} and eps was 0; then Adam divides 0 by 0")
        step = rate * m_hat / (math.sqrt(v_hat) + eps)
        weight = float(weight) - step
        weights.append(weight)
        if t >= first:
            latex, text = _adam_block(t, g, rate, before, (m, v, m_hat, v_hat, step, weight), betas, eps, name, digits)
            blocks += latex
            texts.append(text)
    return Written("\n".join(texts), aligned(blocks), value=np.array(weights))


def _adam_block(t, g, rate, before, after, betas, eps, name, digits):
    (w0, m0, v0), (m, v, m_hat, v_hat, step, w) = before, after
    fine = max(digits, math.ceil(-math.log10(abs(step))) + 1) if step else digits  # enough places to see the weight move
    w_latex = f.name_latex(name)

    def lines(form):
        write = f.latex if form == "latex" else f.text

        def n(x, places=None):
            return f.significant(x, digits, form) if places is None else write(x, places, 0.0)

        def b(x):
            return n(x) if x >= 0 else (rf"\left({n(x)}\right)" if form == "latex" else f"({n(x)})")

        dot = r" \cdot " if form == "latex" else "·"
        power = f"^{{{t}}}" if form == "latex" else f"^{t}"
        b1, b2, c1, c2 = n(betas[0]), n(betas[1]), n(1 - betas[0]), n(1 - betas[1])
        over = (lambda a, c: rf"\frac{{{a}}}{{{c}}}") if form == "latex" else (lambda a, c: f"{a} / ({c})")
        root = rf"\sqrt{{{n(v_hat)}}} + {n(eps)}" if form == "latex" else f"√{n(v_hat)} + {n(eps)}"
        return [
            f"{b1}{dot}{b(m0)} + {c1}{dot}{b(g)} = {n(m)}",
            f"{b2}{dot}{n(v0)} + {c2}{dot}{b(g)}{'^2' if form == 'latex' else '²'} = {n(v)}",
            f"{over(n(m), f'1 - {b1}{power}')} = {n(m_hat)}",
            f"{over(n(v), f'1 - {b2}{power}')} = {n(v_hat)}",
            f"{n(rate)}{dot}{over(n(m_hat), root)} = {n(step)}",
            f"{n(w0, fine)} - {b(step)} = {n(w, fine)}",
        ]

    heads = [f"m_{{{t}}}", f"v_{{{t}}}", rf"\hat{{m}}_{{{t}}}", rf"\hat{{v}}_{{{t}}}", r"\text{step}", f"{w_latex}^{{({t})}}"]
    plain = [f"m_{t}", f"v_{t}", f"m̂_{t}", f"v̂_{t}", "step", f"{f.name_text(name)}({t})"]
    latex = [rf"t = {t}: \quad & g = {f.significant(g, digits, 'latex')}"] + [f"{head} &= {line}" for head, line in zip(heads, lines("latex"))]
    text = [f"t = {t}: g = {f.significant(g, digits)}"] + [f"  {head} = {line}" for head, line in zip(plain, lines("text"))]
    return latex, "\n".join(text)


def _rates(lr, steps) -> list[float]:
    if callable(lr):
        rates = [float(lr(t)) for t in range(1, steps + 1)]
    elif np.ndim(lr):
        rates = [float(rate) for rate in lr]
    else:
        rates = [float(lr)] * steps
    if len(rates) != steps or not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        raise ValueError(f"lr gave {rates}; it must give one finite rate of at least 0 for each of the {steps} steps")
    return rates
