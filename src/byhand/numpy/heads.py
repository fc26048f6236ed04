"""Heads as an axis of their own: cut out of a row's columns, and put side by side again."""

import numpy as np
from jaxtyping import Float

from ..doors import whole
from ..shapes import check_split
from .checks import checked

Array = np.ndarray


def _check_four(name, x):
    if x.ndim != 4:
        raise ValueError(f"{name} had shape {x.shape}; it must be (batch, heads, time, d)")


def _check_heads(x, shared):
    _check_four("x", x)
    whole("shared", shared)


@checked(_check_heads)
def repeat_heads(
    x: Float[Array, "batch kv_heads time d"], shared: int
) -> Float[Array, "batch kv_heads*shared time d"]:
    """y_h = x_(h // shared): each key-value head once for every reader of it."""
    return x if shared == 1 else np.repeat(x, shared, axis=1)


def _check_sum(dy, n_kv_heads):
    _check_four("dy", dy)
    whole("n_kv_heads", n_kv_heads)
    if dy.shape[1] % n_kv_heads:
        raise ValueError(f"n_kv_heads was {n_kv_heads}; it must divide dy's heads, {dy.shape[1]}")


@checked(_check_sum)
def sum_heads(
    dy: Float[Array, "batch heads time d"], n_kv_heads: int
) -> Float[Array, "batch kv_heads time d"]:
    """dx_g = Σ_(h: h // shared = g) dy_h: the backward of repeat_heads."""
    batch, heads, time, d = dy.shape
    if heads == n_kv_heads:
        return dy
    return dy.reshape(batch, n_kv_heads, heads // n_kv_heads, time, d).sum(axis=2)


@checked(check_split)
def split_heads(
    x: Float[Array, "batch time heads*d"], n_heads: int
) -> Float[Array, "batch heads time d"]:
    """(batch, time, heads·d) to (batch, heads, time, d): a block of columns each."""
    batch, time, width = x.shape
    return x.reshape(batch, time, n_heads, width // n_heads).swapaxes(1, 2)


@checked()
def merge_heads(
    x: Float[Array, "batch heads time d"]
) -> Float[Array, "batch time heads*d"]:
    """The inverse of split_heads, and its backward."""
    batch, heads, time, d = x.shape
    return x.swapaxes(1, 2).reshape(batch, time, heads * d)
