"""Softmax over the last axis, with a mask."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray


class SoftmaxCache(NamedTuple):
    y: Float[Array, "... n"]


def softmax(x: Float[Array, "... n"], mask: Bool[Array, "... n"] | None = None) -> tuple[Float[Array, "... n"], SoftmaxCache]:
    """y_i = e^(x_i − m) / Σ_j e^(x_j − m),  m = max_j x_j

    mask (broadcast to x) is True where an entry takes part; the others are exactly 0, as if x were −∞ there.
    A row with nothing left is all zeros. The shift by the largest allowed entry changes nothing but keeps e^x finite.
    NaN or +∞ in a place that takes part makes its row NaN; the model's forward says which activation was the first.
    """
    if mask is not None:
        x = np.where(mask, x, -np.inf)
    peak = x.max(axis=-1, keepdims=True)
    peak = np.where(peak == -np.inf, 0, peak)  # a row with nothing left has no largest entry
    y = np.exp(x - peak)
    total = y.sum(axis=-1, keepdims=True)
    y /= np.where(total == 0, 1, total)
    return y, SoftmaxCache(y)


def softmax_backward(dy: Float[Array, "... n"], cache: SoftmaxCache) -> tuple[Float[Array, "... n"], dict]:
    """dx_i = y_i (dy_i − Σ_j dy_j y_j)

    The Jacobian ∂y_j/∂x_i = y_j (δ_ij − y_i), applied without building it. Where y is 0, dx is 0.
    Returns dx, {}.
    """
    y = cache.y
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True)), {}
