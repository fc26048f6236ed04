"""Position-wise feed-forward network: widen, gate, narrow."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .linear import LinearCache, linear, linear_backward

Array = np.ndarray


class ReluCache(NamedTuple):
    positive: Bool[Array, "..."]


def relu(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ReluCache]:
    """y = max(0, x)"""
    return np.maximum(x, 0), ReluCache(x > 0)


def relu_backward(dy: Float[Array, "..."], cache: ReluCache) -> tuple[Float[Array, "..."], dict]:
    """dx = dy where x > 0, else 0

    At x = 0 there is no derivative; 0 is the usual choice, and PyTorch's.
    """
    return dy * cache.positive, {}


class FeedForwardCache(NamedTuple):
    hidden: Float[Array, "... d_ff"]
    active: Float[Array, "... d_ff"]
    widen: LinearCache
    gate: ReluCache
    narrow: LinearCache


class FeedForwardGradients(NamedTuple):
    x: Float[Array, "... d_model"]
    params: dict
    active: Float[Array, "... d_ff"]
    hidden: Float[Array, "... d_ff"]


def feed_forward(
    x: Float[Array, "... d_model"],
    w_1: Float[Array, "d_model d_ff"],
    b_1: Float[Array, "d_ff"],
    w_2: Float[Array, "d_ff d_model"],
    b_2: Float[Array, "d_model"],
) -> tuple[Float[Array, "... d_model"], FeedForwardCache]:
    """y = max(0, x w₁ + b₁) w₂ + b₂

    Each position on its own, all with the same weights. Source: Vaswani et al. 2017, equation 2.
    """
    hidden, widen = linear(x, w_1, b_1)
    active, gate = relu(hidden)
    y, narrow = linear(active, w_2, b_2)
    return y, FeedForwardCache(hidden, active, widen, gate, narrow)


def feed_forward_backward(dy: Float[Array, "... d_model"], cache: FeedForwardCache) -> tuple[Float[Array, "... d_model"], dict]:
    """dx = ((dy w₂ᵀ) ⊙ 1[x w₁ + b₁ > 0]) w₁ᵀ

    Returns dx, {"w_1", "b_1", "w_2", "b_2"}.
    """
    return feed_forward_gradients(dy, cache)[:2]


def feed_forward_gradients(dy: Float[Array, "... d_model"], cache: FeedForwardCache) -> FeedForwardGradients:
    """feed_forward_backward with every step kept."""
    dactive, narrow = linear_backward(dy, cache.narrow)
    dhidden, _ = relu_backward(dactive, cache.gate)
    dx, widen = linear_backward(dhidden, cache.widen)
    grads = {"w_1": widen["w"], "b_1": widen["b"], "w_2": narrow["w"], "b_2": narrow["b"]}
    return FeedForwardGradients(dx, grads, dactive, dhidden)
