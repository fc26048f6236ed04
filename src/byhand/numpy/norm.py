"""Layer normalisation and RMS normalisation, over the last axis."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..record import Record, nothing
from ..shapes import check_norm
from .checks import checked, plain, upstream
from .rows import mean_of

Array = np.ndarray
(mean_of,) = plain(mean_of)


class LayerNormCache(NamedTuple):
    normalised: Float[Array, "... d"]
    inverse_std: Float[Array, "... 1"]
    gamma: Float[Array, "d"]


def _check_layer_norm(x, gamma, beta, eps):
    _check_norm(x, eps, gamma=gamma, beta=beta)


def _check_rms_norm(x, gamma, eps):
    _check_norm(x, eps, gamma=gamma)


def _check_norm(x, eps, **gain):
    check_norm(x, eps, **gain)
    if x.size:
        _check_size(x)


def _check_size(x):
    """A square that overflows would divide its row by infinity, and leave a row of zeros."""
    largest = np.abs(x).max()
    if largest > math.sqrt(np.finfo(x.dtype).max / x.shape[-1]) / 2:
        raise ValueError(f"x held ±{largest}, whose square overflows {x.dtype}; its rows must be small enough to be squared and summed")


@checked(_check_layer_norm)
def layer_norm(
    x: Float[Array, "... d"],
    gamma: Float[Array, "d"],
    beta: Float[Array, "d"],
    eps: float = 1e-5,
    record: Record = nothing,
) -> tuple[Float[Array, "... d"], LayerNormCache]:
    """y = γ x̂ + β,  x̂ = (x − μ) / √(σ² + ε)

    μ and σ² are the mean and the variance (divided by d, not d − 1) of each row.
    Raises ValueError for ε < 0, for shapes that do not fit, for a constant row under ε
    = 0, and for what is not finite.
    Source: Ba, Kiros and Hinton 2016, equations 3 and 4.
    """
    mean = record("mean", mean_of(x))
    centred = x - mean
    var = record("var", mean_of(centred * centred))
    if eps == 0 and _has_constant_row(x, var):
        _refuse_row("a constant row")
    inverse_std = 1 / np.sqrt(var + eps)
    normalised = record("normalised", centred * inverse_std)
    y = record("out", gamma * normalised + beta)
    return y, LayerNormCache(normalised, inverse_std, gamma)


@upstream(lambda cache: cache.normalised.shape)
def layer_norm_backward(
    dy: Float[Array, "... d"], cache: LayerNormCache
) -> tuple[Float[Array, "... d"], dict]:
    """dx = (dx̂ − mean(dx̂) − x̂ · mean(dx̂ ⊙ x̂)) / √(σ² + ε),  dx̂ = γ ⊙ dy

    γ stands inside both means: pulled in front of them, it is right only where all its
    entries are equal. dγ = Σ_rows dy ⊙ x̂, dβ = Σ_rows dy. Returns dx, {"gamma",
    "beta"}.
    """
    normalised, inverse_std, gamma = cache
    dnormalised = dy * gamma
    along_ones = mean_of(dnormalised)
    along_normalised = mean_of(dnormalised * normalised)
    dx = inverse_std * (dnormalised - along_ones - normalised * along_normalised)
    rows = tuple(range(dy.ndim - 1))
    return dx, {"gamma": (dy * normalised).sum(axis=rows), "beta": dy.sum(axis=rows)}


def _has_constant_row(x, var):
    # the mean of equal numbers can round to another one, and then var is not 0
    return not var.all() or (x == x[..., :1]).all(axis=-1).any()


def _refuse_row(kind):
    raise ValueError(f"x has {kind} and eps was 0; such a row has no direction to normalise: eps must be above 0")


class RmsNormCache(NamedTuple):
    normalised: Float[Array, "... d"]
    inverse_rms: Float[Array, "... 1"]
    gamma: Float[Array, "d"]


@checked(_check_rms_norm)
def rms_norm(
    x: Float[Array, "... d"], gamma: Float[Array, "d"], eps: float = 1e-05,
    record: Record = nothing,
) -> tuple[Float[Array, "... d"], RmsNormCache]:
    """y = γ x̂,  x̂ = x / √(mean(x²) + ε)

    Layer norm without the centring and without β. Raises ValueError for ε < 0, for
    shapes that do not fit, for a row of zeros under ε = 0, and for what is not finite.
    Source: Zhang and Sennrich 2019, equation 4.
    """
    mean_square = record("mean_square", mean_of(x * x))
    if eps == 0 and not mean_square.all():
        _refuse_row("a row of zeros")
    inverse_rms = 1 / np.sqrt(mean_square + eps)
    normalised = record("normalised", x * inverse_rms)
    y = record("out", gamma * normalised)
    return y, RmsNormCache(normalised, inverse_rms, gamma)


@upstream(lambda cache: cache.normalised.shape)
def rms_norm_backward(
    dy: Float[Array, "... d"], cache: RmsNormCache
) -> tuple[Float[Array, "... d"], dict]:
    """dx = (dx̂ − x̂ · mean(dx̂ ⊙ x̂)) / √(mean(x²) + ε),  dx̂ = γ ⊙ dy

    Only the part along x̂ is taken out: nothing was centred, so the part along the ones
    stays. dγ = Σ_rows dy ⊙ x̂. Returns dx, {"gamma"}.
    """
    normalised, inverse_rms, gamma = cache
    dnormalised = dy * gamma
    along_normalised = mean_of(dnormalised * normalised)
    dx = inverse_rms * (dnormalised - normalised * along_normalised)
    return dx, {"gamma": (dy * normalised).sum(axis=tuple(range(dy.ndim - 1)))}


NORMS = {"layer": (layer_norm, ("gamma", "beta")), "rms": (rms_norm, ("gamma",))}  # by config.norm_kind: the rule, and its parameters


@upstream(lambda cache: cache.normalised.shape)
def norm_backward(
    dy: Float[Array, "... d"], cache: LayerNormCache | RmsNormCache
) -> tuple[Float[Array, "... d"], dict]:
    """layer_norm_backward or rms_norm_backward, by whose cache it is."""
    rms = isinstance(cache, RmsNormCache)
    return (rms_norm_backward if rms else layer_norm_backward).rule(dy, cache)
