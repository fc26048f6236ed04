"""Softmax over the last axis, with a mask."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .checks import check_mask, checked, plain, refuse, upstream
from .rows import sum_of

Array = np.ndarray
(sum_of,) = plain(sum_of)


class SoftmaxCache(NamedTuple):
    y: Float[Array, "... n"]


def _check_softmax(x, mask):
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"x had shape {x.shape}; it must be (..., n) with an n of at least 1")
    spoiled = ~(x < np.inf)  # NaN is not below anything
    if mask is not None:
        check_mask(mask, x.shape, "x")
        spoiled &= mask
    if spoiled.any():
        refuse("x", x, spoiled)


@checked(_check_softmax, finite=False)
def softmax(
    x: Float[Array, "... n"], mask: Bool[Array, "... n"] | None = None
) -> tuple[Float[Array, "... n"], SoftmaxCache]:
    """y_i = e^(x_i − m) / Σ_j e^(x_j − m),  m = max_j x_j

    mask (broadcast to x) is True where an entry takes part; the others are exactly 0,
    as if x were −∞ there. A row with nothing left is all zeros. The shift by the
    largest allowed entry changes nothing but keeps e^x finite.
    Raises ValueError for NaN or +∞ in a place that takes part, and for a mask that is
    not boolean or does not fit x.
    """
    if mask is not None:
        x = np.where(mask, x, -np.inf)
    peak = x.max(axis=-1, keepdims=True)
    peak[peak == -np.inf] = 0  # a row with nothing left has none
    y = np.exp(x - peak)
    total = sum_of(y)
    y /= np.maximum(total, 1)  # it is at least 1, or 0 where nothing is left
    return y, SoftmaxCache(y)


@upstream(lambda cache: cache.y.shape)
def softmax_backward(
    dy: Float[Array, "... n"], cache: SoftmaxCache
) -> tuple[Float[Array, "... n"], dict]:
    """dx_i = y_i (dy_i − Σ_j dy_j y_j)

    The Jacobian ∂y_j/∂x_i = y_j (δ_ij − y_i), applied without building it. Where y is
    0, dx is 0.
    Returns dx, {}.
    """
    y = cache.y
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True)), {}
