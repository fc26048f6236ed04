"""Positions: sinusoids added to the input, or queries and keys rotated."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..shapes import PAIRINGS, check_places, check_rotation, check_sinusoidal  # noqa: F401 (pages go through the pairings)
from .checks import checked, upstream

Array = np.ndarray


@checked(check_sinusoidal)
def sinusoidal(
    length: int, d_model: int, pairing: str = "interleaved"
) -> Float[Array, "length d_model"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)),  PE[pos, 2i+1] = cos(the same angle)

    With pairing "half" they stand at i and i + d_model/2: all sines, then all cosines.
    float64. Raises ValueError for a length below 1, an odd d_model and an unknown
    pairing.
    Source: Vaswani et al. 2017, section 3.5.
    """
    return sinusoids.rule(np.arange(length), d_model, pairing)


def _check_sinusoids(positions, d_model, pairing):
    check_sinusoidal(1, d_model, pairing)
    _whole_positions(positions)


@checked(_check_sinusoids)
def sinusoids(
    positions: Int[Array, "..."], d_model: int, pairing: str = "interleaved"
) -> Float[Array, "... d_model"]:
    """The rows of sinusoidal at these positions."""
    positions = np.asarray(positions)
    angles = positions[..., None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    waves = np.empty((*positions.shape, d_model))
    sines, cosines = _pairs(waves, pairing)
    sines[...], cosines[...] = np.sin(angles), np.cos(angles)
    return waves


class RopeCache(NamedTuple):
    cos: Float[Array, "... time d/2"]
    sin: Float[Array, "... time d/2"]
    pairing: str
    shape: tuple[int, ...]


def _check_rope(x, positions, base, pairing):
    check_rotation(x, base, pairing)
    if positions is not None:
        check_positions(positions, x)


def _whole_positions(positions):
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu":
        raise ValueError(f"positions had dtype {positions.dtype}; it must hold whole numbers")
    if positions.size and positions.min() < 0:
        raise ValueError(f"positions held {positions.min()}; each must be at least 0")
    return positions


def check_positions(positions: Int[Array, "..."], x: Float[Array, "... time d"]) -> None:
    """Raise ValueError unless positions are whole numbers of at least 0, one for each of x's times, or a row of them a sequence."""
    check_places(_whole_positions(positions), x)


@checked(_check_rope)
def rope(
    x: Float[Array, "... time d"],
    positions: Int[Array, "time"] | Int[Array, "batch time"] | None = None,
    base: float = 10000.0,
    pairing: str = "interleaved",
) -> tuple[Float[Array, "... time d"], RopeCache]:
    """(y_a, y_b) = (x_a cos θ − x_b sin θ, x_a sin θ + x_b cos θ)

    θ = pos · base^(−2i/d) for pair i

    Pair i is the coordinates (2i, 2i + 1) with pairing "interleaved", (i, i + d/2) with
    "half": the same rotation of coordinates in another order, so weights made for one
    are wrong under the other. Without positions they are 0, 1, 2, …; one row of them
    for each sequence is welcome too. The product of a rotated query and a rotated key
    depends on the difference of their positions alone.
    Raises ValueError for an odd d, for positions that are negative, not whole or too
    many or few, for a base that is not above 0, and for an unknown pairing. Source: Su
    et al. 2021, equation 34.
    """
    time, d = x.shape[-2:]
    positions = np.arange(time) if positions is None else np.asarray(positions)
    # The angles in float64, whatever x is: float32 loses the digits that matter.
    angles = positions[..., None] * float(base) ** (-np.arange(0, d, 2) / d)
    if positions.ndim == 2:  # a row for each sequence: the axes between share it
        angles = angles.reshape(len(positions), *(1,) * (x.ndim - 3), *angles.shape[1:])
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    return _rotate(x, cos, sin, pairing), RopeCache(cos, sin, pairing, x.shape)


@upstream(lambda cache: cache.shape)
def rope_backward(
    dy: Float[Array, "... time d"], cache: RopeCache
) -> tuple[Float[Array, "... time d"], dict]:
    """dx = dy rotated by −θ

    A rotation's transpose is its inverse. Returns dx, {}.
    """
    cos, sin, pairing, _ = cache
    return _rotate(dy, cos, -sin, pairing), {}


def _rotate(x, cos, sin, pairing):
    y = np.empty_like(x)
    (a, b), (y_a, y_b) = _pairs(x, pairing), _pairs(y, pairing)
    y_a[...] = a * cos - b * sin
    y_b[...] = a * sin + b * cos
    return y


def _pairs(x, pairing):
    """Views of the first and of the second coordinate of every pair."""
    if pairing == "interleaved":
        return x[..., 0::2], x[..., 1::2]
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]
