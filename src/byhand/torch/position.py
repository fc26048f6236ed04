"""Where a token stands: added sines and cosines, or rotated queries and keys."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..shapes import check_places, check_rotation, check_sinusoidal
from .inputs import check_device, checked, integers, looks


def _check_sinusoidal(length, d_model, dtype, device, pairing):
    check_sinusoidal(length, d_model, pairing)
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype was {dtype}; it must be a floating-point dtype")
    check_device(device)


def _check_sinusoids(positions, d_model, dtype, pairing):
    _check_sinusoidal(1, d_model, dtype, None, pairing)
    _whole_positions(positions)


def _whole_positions(positions):
    positions = integers("positions", positions)
    if positions.numel() and looks(positions) and positions.min() < 0:
        raise ValueError(f"positions held {positions.min()}; each must be at least 0")
    return positions


def check_positions(positions: Int[Tensor, "..."], x: Float[Tensor, "... time d"]) -> None:
    """Raise ValueError unless positions are whole numbers of at least 0, one for each of x's times, or a row of them a sequence."""
    check_places(_whole_positions(positions), x)


def _check_rope(x, positions, base, pairing):
    check_rotation(x, base, pairing)
    if positions is not None:
        check_positions(positions, x)


@checked(_check_sinusoidal)
def sinusoidal(
    length: int, d_model: int, dtype: torch.dtype | None = None, device=None, pairing: str = "interleaved"
) -> Float[Tensor, "length d_model"]:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d_model)), PE[pos, 2i+1] = cos(the same angle)     (Vaswani et al. 2017, section 3.5)

    With pairing="half" they stand at i and i + d_model/2.
    """
    return sinusoids.rule(torch.arange(length, device=device), d_model, dtype or torch.get_default_dtype(), pairing)


@checked(_check_sinusoids)
def sinusoids(positions: Int[Tensor, "..."], d_model: int, dtype: torch.dtype, pairing: str = "interleaved") -> Float[Tensor, "... d_model"]:
    """The rows of sinusoidal at these positions."""
    positions = torch.as_tensor(positions)
    pos = positions.to(_angles_on(positions.device), torch.float64)
    angle = pos[..., None] / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64, device=pos.device) / d_model)
    return _joined(angle.sin(), angle.cos(), pairing).to(dtype).to(positions.device)


@checked(_check_rope)
def rope(
    x: Float[Tensor, "*batch time d_k"],
    positions: Int[Tensor, "time"] | Int[Tensor, "batch time"] | None = None,
    base: float = 10000.0,
    pairing: str = "interleaved",
) -> Float[Tensor, "*batch time d_k"]:
    """(y_a, y_b) = (x_a cos θ − x_b sin θ, x_a sin θ + x_b cos θ), θ = pos · base^(−2i/d_k)     (Su et al. 2021, equation 34)

    Pair i is coordinates (2i, 2i+1) with pairing="interleaved", and (i, i + d_k/2) with "half". Without positions they are 0, 1, 2, …; one row of them
    for each sequence is welcome too.
    """
    d_k = x.shape[-1]
    device = _angles_on(x.device)
    positions = torch.arange(x.shape[-2], device=device) if positions is None else torch.as_tensor(positions, device=device)
    # The angles in float64, whatever x is: a large position in float32 has lost the digits that matter.
    frequency = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64, device=device) / d_k)
    angle = positions[..., None] * frequency
    if positions.ndim == 2:  # a row for each sequence: every axis between batch and time shares it
        angle = angle.reshape(len(angle), *[1] * (x.ndim - 3), *angle.shape[1:])
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    a, b = (x[..., 0::2], x[..., 1::2]) if pairing == "interleaved" else x.chunk(2, dim=-1)
    return _joined(a * cos - b * sin, a * sin + b * cos, pairing)


def _joined(a, b, pairing):
    """The first and the second coordinate of every pair, each in its place."""
    return torch.stack([a, b], dim=-1).flatten(-2) if pairing == "interleaved" else torch.cat([a, b], dim=-1)


def _angles_on(device) -> torch.device:
    """Apple's MPS has no float64, so there the angles are worked on the CPU."""
    device = torch.device(device or "cpu")
    return torch.device("cpu") if device.type == "mps" else device
