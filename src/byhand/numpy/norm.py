"""Layer normalisation and RMS normalisation, over the last axis."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .finite import check_arrays, check_finite, inside_a_model

Array = np.ndarray


class LayerNormCache(NamedTuple):
    normalised: Float[Array, "... d"]
    inverse_std: Float[Array, "... 1"]
    gamma: Float[Array, "d"]
    mean: Float[Array, "... 1"]
    var: Float[Array, "... 1"]


def layer_norm(
    x: Float[Array, "... d"], gamma: Float[Array, "d"], beta: Float[Array, "d"], eps: float = 1e-5
) -> tuple[Float[Array, "... d"], LayerNormCache]:
    """y = γ x̂ + β,  x̂ = (x − μ) / √(σ² + ε)

    μ and σ² are the mean and the variance (divided by d, not d − 1) of each row.
    Raises ValueError for ε < 0, for shapes that do not fit, for a constant row under ε = 0, and for what is not finite.
    Source: Ba, Kiros and Hinton 2016, equations 3 and 4.
    """
    _check_norm(x, gamma, eps, beta=beta)
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    var = (centred * centred).mean(axis=-1, keepdims=True)
    if eps == 0 and not var.all():
        raise ValueError("x has a constant row and eps was 0; such a row has no direction to normalise: eps must be above 0")
    inverse_std = 1 / np.sqrt(var + eps)
    normalised = centred * inverse_std
    return gamma * normalised + beta, LayerNormCache(normalised, inverse_std, gamma, mean, var)


def layer_norm_backward(dy: Float[Array, "... d"], cache: LayerNormCache) -> tuple[Float[Array, "... d"], dict]:
    """dx = (dx̂ − mean(dx̂) − x̂ · mean(dx̂ ⊙ x̂)) / √(σ² + ε),  dx̂ = γ ⊙ dy

    γ stands inside both means: pulled in front of them, it is right only where all its entries are equal.
    dγ = Σ_rows dy ⊙ x̂, dβ = Σ_rows dy. Returns dx, {"gamma", "beta"}.
    """
    normalised, inverse_std, gamma = cache[:3]
    dnormalised = dy * gamma
    along_ones = dnormalised.mean(axis=-1, keepdims=True)
    along_normalised = (dnormalised * normalised).mean(axis=-1, keepdims=True)
    dx = inverse_std * (dnormalised - along_ones - normalised * along_normalised)
    rows = tuple(range(dy.ndim - 1))
    return dx, {"gamma": (dy * normalised).sum(axis=rows), "beta": dy.sum(axis=rows)}


class RmsNormCache(NamedTuple):
    normalised: Float[Array, "... d"]
    inverse_rms: Float[Array, "... 1"]
    gamma: Float[Array, "d"]
    mean_square: Float[Array, "... 1"]


def rms_norm(
    x: Float[Array, "... d"], gamma: Float[Array, "d"], eps: float = 1e-5
) -> tuple[Float[Array, "... d"], RmsNormCache]:
    """y = γ x̂,  x̂ = x / √(mean(x²) + ε)

    Layer norm without the centring and without β. Raises ValueError for ε < 0, for shapes that do not fit, for a row
    of zeros under ε = 0, and for what is not finite. Source: Zhang and Sennrich 2019, equation 4.
    """
    _check_norm(x, gamma, eps)
    mean_square = (x * x).mean(axis=-1, keepdims=True)
    if eps == 0 and not mean_square.all():
        raise ValueError("x has a row of zeros and eps was 0; such a row has no direction to normalise: eps must be above 0")
    inverse_rms = 1 / np.sqrt(mean_square + eps)
    normalised = x * inverse_rms
    return gamma * normalised, RmsNormCache(normalised, inverse_rms, gamma, mean_square)


def rms_norm_backward(dy: Float[Array, "... d"], cache: RmsNormCache) -> tuple[Float[Array, "... d"], dict]:
    """dx = (dx̂ − x̂ · mean(dx̂ ⊙ x̂)) / √(mean(x²) + ε),  dx̂ = γ ⊙ dy

    Only the part along x̂ is taken out: nothing was centred, so the part along the ones stays.
    dγ = Σ_rows dy ⊙ x̂. Returns dx, {"gamma"}.
    """
    normalised, inverse_rms, gamma = cache[:3]
    dnormalised = dy * gamma
    along_normalised = (dnormalised * normalised).mean(axis=-1, keepdims=True)
    dx = inverse_rms * (dnormalised - normalised * along_normalised)
    return dx, {"gamma": (dy * normalised).sum(axis=tuple(range(dy.ndim - 1)))}


def _check_norm(x, gamma, eps, **others):
    if not 0 <= eps < np.inf:
        raise ValueError(f"eps was {eps}; it must be a finite number of at least 0")
    if not inside_a_model():  # which has looked at the shapes of its parameters
        _check_entry(x, gamma=gamma, **others)
    if eps == 0 and "beta" in others and (x == x[..., :1]).all(axis=-1).any():  # the mean of equal numbers can round to another one
        raise ValueError("x has a constant row and eps was 0; such a row has no direction to normalise: eps must be above 0")


def _check_entry(x, **others):
    check_arrays(x=x, **others)
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"x had shape {x.shape}; it must be (..., d) with a d of at least 1")
    for name, value in others.items():
        if value.shape != x.shape[-1:]:
            raise ValueError(f"{name} had shape {value.shape}; it must be {x.shape[-1:]}, x's last axis")
    check_finite(x=x, **others)
    if x.size and x.dtype.kind == "f":
        _check_size(x)


def _check_size(x):
    """A square that overflows would divide its row by infinity, and leave a row of zeros."""
    largest = np.abs(x).max()
    if largest > math.sqrt(np.finfo(x.dtype).max / x.shape[-1]) / 2:
        raise ValueError(f"x held ±{largest}, whose square overflows {x.dtype}; its rows must be small enough to be squared and summed")
