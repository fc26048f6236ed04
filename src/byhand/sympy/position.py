"""Positions: sinusoids, and queries and keys rotated, exactly."""

from collections.abc import Sequence

import sympy as sp

from ..shapes import PAIRINGS, check_choice
from .derivation import Derivation, counted, derive, symbols
from .rows import each_row


def sinusoidal(length: int, d_model: int, pairing: str = "interleaved") -> sp.Matrix:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)),  PE[pos, 2i+1] = cos(the same angle)

    With pairing "half" they stand at i and i + d_model/2. Raises ValueError for a length below 1 or an odd d_model. Source: Vaswani et al. 2017, section 3.5.
    """
    if length < 1:
        raise ValueError(f"length was {length}; it must be at least 1")
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model was {d_model}; it must be even, since sine and cosine come in pairs")

    waves = sp.zeros(length, d_model)
    for i, (sine, cosine) in enumerate(_pairs(d_model, pairing)):
        for position in range(length):
            angle = position / sp.Integer(10000) ** sp.Rational(2 * i, d_model)
            waves[position, sine], waves[position, cosine] = sp.sin(angle), sp.cos(angle)
    return sp.ImmutableMatrix(waves)


@each_row("x", "positions")
def rope(x: sp.Matrix, positions: Sequence[int] | None = None, base: sp.Expr = 10000, pairing: str = "interleaved") -> sp.Matrix:
    """(y_a, y_b) = (x_a cos θ − x_b sin θ, x_a sin θ + x_b cos θ),  θ = pos · base^(−2i/d) for pair i

    x (time, d). Pair i is the coordinates (2i, 2i + 1) with pairing "interleaved", (i, i + d/2) with "half". A position may be a
    symbol. Raises ValueError for an odd d and for an unknown pairing. Source: Su et al. 2021, equation 34.
    """
    positions = range(x.rows) if positions is None else positions
    return sp.ImmutableMatrix.vstack(*(x.row(t) * rotation(position, x.cols, base, pairing) for t, position in enumerate(positions)))


def rotation(position: sp.Expr, d: int, base: sp.Expr = 10000, pairing: str = "interleaved") -> sp.ImmutableMatrix:
    """R with y = x R: in the rows and columns of pair i [[cos θ, sin θ], [−sin θ, cos θ]],  θ = pos · base^(−2i/d), else 0"""
    return _turn([position / sp.sympify(base) ** sp.Rational(2 * i, d) for i in range(len(_pairs(d, pairing)))], d, pairing)


@counted
def rope_derivation(d: int = 4, pairing: str = "interleaved") -> dict[str, Derivation]:
    """dx = dy R(−θ): the gradient is rotated back. Derived for one row and any angles, one for each pair."""
    x, dy, theta = symbols("x", 1, d), symbols("dy", 1, d), symbols("theta", 1, len(_pairs(d, pairing)))
    back = dy * _turn([-angle for angle in theta], d, pairing)  # cos(−θ) = cos θ and sin(−θ) = −sin θ, which SymPy applies at once
    inputs, formula = {"x": x, "theta": theta, "dy": dy}, r"dX = dY\,R_{-\theta}"
    return {"dx": derive(f"rope, {pairing}", x * _turn(theta, d, pairing), inputs, "x", back, r"Y = X R_\theta", formula)}


def _turn(angles, d, pairing):
    turn = sp.zeros(d)
    for (a, b), angle in zip(_pairs(d, pairing), angles, strict=True):
        turn[a, a] = turn[b, b] = sp.cos(angle)
        turn[a, b], turn[b, a] = sp.sin(angle), -sp.sin(angle)
    return sp.ImmutableMatrix(turn)


def _pairs(d, pairing):
    check_choice("pairing", pairing, PAIRINGS)
    if d < 2 or d % 2:
        raise ValueError(f"d was {d}; it must be even, since coordinates rotate in pairs")
    return [(2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + d // 2) for i in range(d // 2)]
