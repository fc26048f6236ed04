"""One row at a time, for the decoder stack: RMS norm forwards and backwards, and a rotation by its position."""

import math
from typing import Any

import numpy as np

from byhand.numpy.position import rope
from byhand.worked import formatting as f
from byhand.worked.display import Written, aligned, pad
from byhand.worked.matrices import TERMS_SHOWN
from byhand.worked.rows import average
from byhand.worked.vectors import like, mean, named_rows, only_finite, row, shown, sqrt


def rms_norm_row(x: Any, gamma: Any = None, eps: Any = 1e-5, digits: int = 3, limit: int | None = TERMS_SHOWN) -> Written:
    """y = γ · x / √(mean(x²) + ε) for one row: mean square, root, normalised, scaled.

    x, gamma: (n,); γ = 1 unless given. eps ≥ 0. Raises ValueError for a row of zeros under ε = 0.
    """
    x, gamma, square, root, normalised = _rms(x, gamma, eps)
    y = gamma * normalised
    digits, scale = f.checked_digits(digits), f.scale_of(x)

    def lines(form):
        def vector(values):
            return shown(values, digits, None, form, limit)

        def number(value):
            return f.with_decimal(value, digits, form) if f.is_exact(value) else shown(value, digits, None, form)

        inside = shown(square, digits, None, form), shown(eps, digits, 0.0, form)
        return [
            f"{average(x, '^2' if form == 'latex' else '²', digits, scale, form, limit)} = {number(square)}",
            (rf"\sqrt{{{inside[0]} + {inside[1]}}}" if form == "latex" else f"√({inside[0]} + {inside[1]})") + f" = {number(root)}",
            vector(normalised),
            f"{vector(gamma)} " + (r"\odot \hat{x}" if form == "latex" else "· x̂") + f" = {vector(y)}",
        ]

    heads = [
        (r"\operatorname{mean}(x^2)", "mean(x²)"),
        (r"\sqrt{\operatorname{mean}(x^2) + \varepsilon}", "root"),
        (r"\hat{x} = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \varepsilon}}", "x̂"),
        (r"y = \gamma \odot \hat{x}", "y"),
    ]
    text = lines("text")
    text[2] = "x / root = " + text[2]
    return Written(
        "\n".join(f"{pad(name, 8)} = {line}" for (_, name), line in zip(heads, text, strict=True)),
        aligned([f"{name} &= {line}" for (name, _), line in zip(heads, lines("latex"), strict=True)]),
        value=y,
    )


def rms_norm_backward_row(dy: Any, x: Any, gamma: Any = None, eps: Any = 1e-5, digits: int = 3) -> Written:
    """dx = (g - x̂ · mean(g · x̂)) / √(mean(x²) + ε) with g = γ · dy, for one row: a vector less its part along x̂.

    dy, x, gamma: (n,). Raises ValueError for a row of zeros under ε = 0.
    """
    x, gamma, _, root, normalised = _rms(x, gamma, eps)
    g = gamma * like(row(dy, "dy"), x, "dy", 0)
    along_x = mean(g * normalised)
    rest = g - normalised * along_x
    dx, scale = rest / root, f.scale_of(g)
    rows = [
        (r"g = \gamma \odot dy", "g = γ·dy", g, None),
        (r"\hat{x}", "x̂", normalised, None),
        (r"\operatorname{mean}(g \odot \hat{x})", "mean(g·x̂)", along_x, scale),
        (r"g - \hat{x}\, \operatorname{mean}(g \odot \hat{x})", "g - x̂·mean(g·x̂)", rest, scale),
        (r"\sqrt{\operatorname{mean}(x^2) + \varepsilon}", "√(mean(x²) + ε)", root, None),
        ("dx", "dx", dx, scale / f.decimal_of(root)),
    ]
    return named_rows(rows, digits, value=dx)


def rope_row(x: Any, position: int, base: float = 10000.0, pairing: str = "interleaved", digits: int = 3) -> Written:
    """(y_a, y_b) = (x_a cos θ - x_b sin θ, x_a sin θ + x_b cos θ), one pair after the other: its angle, then its two entries.

    x: (d,), d even; position: a whole number of at least 0.
    """
    x = f.as_array(x, "x").astype(float)
    y = rope(x[None], np.array([position]), base, pairing)[0][0]
    digits, scale = f.checked_digits(digits), f.scale_of(x)
    latex, text = [], []
    for i in range(len(x) // 2):
        a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + len(x) // 2)
        step = base ** (-2 * i / len(x))
        theta = position * step
        c, s = math.cos(theta), math.sin(theta)
        write, plain = (lambda v, own=1.0: f.factor_latex(v, digits, own)), (lambda v, own=1.0: f.factor_text(v, digits, own))
        angle = (f.latex(step, digits + 1, 0.0), f.latex(theta, digits + 1, 0.0)), (f.text(step, digits + 1, 0.0), f.text(theta, digits + 1, 0.0))
        latex.append(rf"\theta_{{{i}}} &= {position} \cdot {angle[0][0]} = {angle[0][1]}")
        text.append(f"θ[{i}] = {position}·{angle[1][0]} = {angle[1][1]}")
        # x_a cos θ − x_b sin θ, then x_a sin θ + x_b cos θ; the names of the functions stay, so that a calculator can follow
        for place, (first, sign, second) in ((a, (r"\cos", "-", r"\sin")), (b, (r"\sin", "+", r"\cos"))):
            p, q = (c, s) if place == a else (s, c)
            out = f.latex(y[place], digits, scale), f.text(y[place], digits, scale)
            latex.append(rf"y_{{{place}}} &= x_{{{a}}}{first}\theta_{{{i}}} {sign} x_{{{b}}}{second}\theta_{{{i}}} "
                         rf"= {write(x[a], scale)} \cdot {write(p)} {sign} {write(x[b], scale)} \cdot {write(q)} = {out[0]}")  # fmt: skip
            text.append(f"y[{place}] = {plain(x[a], scale)}·{plain(p)} {sign} {plain(x[b], scale)}·{plain(q)} = {out[1]}")
    return Written("\n".join(text), aligned(latex), value=y)


def _rms(x, gamma, eps):
    x = row(x, "x")
    only_finite(x, "x")
    gamma = like(gamma, x, "gamma", 1)
    if not f.decimal_of(eps) >= 0:
        raise ValueError(f"eps was {eps}; it must be at least 0")
    square = mean(x**2)
    if not f.decimal_of(square + eps) > 0:
        raise ValueError(f"x was a row of zeros and eps was {eps}; such a row needs eps above 0")
    root = sqrt(square + eps)
    return x, gamma, square, root, x / root
