"""Linear layer: a matrix product and a bias, on the last axis."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .finite import check_arrays, check_finite, inside_a_model

Array = np.ndarray


class LinearCache(NamedTuple):
    x: Float[Array, "... d_in"]
    w: Float[Array, "d_in d_out"]
    has_bias: bool


def linear(
    x: Float[Array, "... d_in"], w: Float[Array, "d_in d_out"], b: Float[Array, "d_out"] | None = None
) -> tuple[Float[Array, "... d_out"], LinearCache]:
    """y = x w + b

    Every row of x, whatever axes stand before the last, meets the same w and b.
    Raises ValueError where the shapes do not fit, and for what is not finite.
    """
    _check_linear(x, w, b)
    d_in, d_out = w.shape
    y = x.reshape(-1, d_in) @ w  # one large matrix product is quicker than one for each sequence
    if b is not None:
        y = y + b
    return y.reshape(*x.shape[:-1], d_out), LinearCache(x, w, b is not None)


def linear_backward(dy: Float[Array, "... d_out"], cache: LinearCache) -> tuple[Float[Array, "... d_in"], dict]:
    """dx = dy wᵀ,  dw = xᵀ dy,  db = Σ_rows dy

    w and b served every row, so their gradients add over the rows. Returns dx, {"w", "b"}.
    """
    x, w, has_bias = cache
    x_rows, dy_rows = x.reshape(-1, w.shape[0]), dy.reshape(-1, w.shape[1])
    grads = {"w": x_rows.T @ dy_rows}
    if has_bias:
        grads["b"] = dy_rows.sum(axis=0)
    return (dy_rows @ w.T).reshape(x.shape), grads


def _check_linear(x, w, b):
    if inside_a_model():  # which has looked at the shapes of its parameters
        return
    values = {"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b}
    check_arrays(**values)
    if w.ndim != 2:
        raise ValueError(f"w had shape {w.shape}; it must be (d_in, d_out)")
    if x.shape[-1:] != w.shape[:1]:
        raise ValueError(f"x had shape {x.shape}; its last axis must be w's first, {len(w)}")
    if b is not None and b.shape != w.shape[1:]:
        raise ValueError(f"b had shape {b.shape}; it must be {w.shape[1:]}, w's last axis")
    check_finite(**values)
