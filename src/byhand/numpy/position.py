"""Positions: sinusoids added to the input."""

import numpy as np
from jaxtyping import Float

Array = np.ndarray


def sinusoidal(length: int, d_model: int) -> Float[Array, "length d_model"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)),  PE[pos, 2i+1] = cos(the same angle)

    float64. Raises ValueError for a length below 1 or an odd d_model.
    Source: Vaswani et al. 2017, section 3.5.
    """
    if length < 1:
        raise ValueError(f"length was {length}; it must be at least 1")
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model was {d_model}; it must be even, since sine and cosine come in pairs")
    divisors = 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    angles = np.arange(length)[:, None] / divisors
    return np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(length, d_model)
