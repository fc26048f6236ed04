"""Positions: sinusoids, exactly."""

import sympy as sp


def sinusoidal(length: int, d_model: int) -> sp.Matrix:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)),  PE[pos, 2i+1] = cos(the same angle)

    Raises ValueError for a length below 1 or an odd d_model. Source: Vaswani et al. 2017, section 3.5.
    """
    if length < 1:
        raise ValueError(f"length was {length}; it must be at least 1")
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model was {d_model}; it must be even, since sine and cosine come in pairs")

    def entry(position, column):
        angle = position / sp.Integer(10000) ** sp.Rational(column - column % 2, d_model)
        return sp.cos(angle) if column % 2 else sp.sin(angle)

    return sp.ImmutableMatrix(length, d_model, entry)
