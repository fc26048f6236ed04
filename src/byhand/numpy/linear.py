"""Linear layer: a matrix product and a bias, on the last axis."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..shapes import check_linear
from .checks import checked, upstream

Array = np.ndarray


class LinearCache(NamedTuple):
    x: Float[Array, "... d_in"]
    w: Float[Array, "d_in d_out"]
    has_bias: bool


@checked(check_linear)
def linear(
    x: Float[Array, "... d_in"], w: Float[Array, "d_in d_out"],
    b: Float[Array, "d_out"] | None = None,
) -> tuple[Float[Array, "... d_out"], LinearCache]:
    """y = x w + b

    Every row of x, whatever axes stand before the last, meets the same w and b.
    Raises ValueError where the shapes do not fit, and for what is not finite.
    """
    d_in, d_out = w.shape
    # one large matrix product is quicker than one for each sequence
    y = x.reshape(-1, d_in) @ w
    if b is not None:
        y += b
    return y.reshape(*x.shape[:-1], d_out), LinearCache(x, w, b is not None)


@upstream(lambda cache: (*cache.x.shape[:-1], cache.w.shape[1]))
def linear_backward(
    dy: Float[Array, "... d_out"], cache: LinearCache
) -> tuple[Float[Array, "... d_in"], dict]:
    """dx = dy wᵀ,  dw = xᵀ dy,  db = Σ_rows dy

    w and b served every row, so their gradients add over the rows. Returns dx, {"w",
    "b"}.
    """
    x, w, has_bias = cache
    x_rows, dy_rows = x.reshape(-1, w.shape[0]), dy.reshape(-1, w.shape[1])
    grads = {"w": x_rows.T @ dy_rows}
    if has_bias:
        grads["b"] = dy_rows.sum(axis=0)
    return (dy_rows @ w.T).reshape(x.shape), grads
