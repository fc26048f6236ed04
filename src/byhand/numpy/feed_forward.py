"""Position-wise feed-forward network: widen, bend, narrow."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..record import Record, nothing
from ..shapes import check_feed_forward
from .checks import checked, plain, upstream
from .linear import LinearCache, linear, linear_backward

linear, linear_backward = plain(linear, linear_backward)

Array = np.ndarray


class ReluCache(NamedTuple):
    positive: Bool[Array, "..."]


@checked()
def relu(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ReluCache]:
    """y = max(0, x)"""
    return np.maximum(x, 0), ReluCache(x > 0)


@upstream(lambda cache: cache.positive.shape)
def relu_backward(
    dy: Float[Array, "..."], cache: ReluCache
) -> tuple[Float[Array, "..."], dict]:
    """dx = dy where x > 0, else 0

    At x = 0 there is no derivative; 0 is the usual choice, and PyTorch's.
    """
    return dy * cache.positive, {}


class GeluCache(NamedTuple):
    x: Float[Array, "..."]
    below: Float[Array, "..."]


@checked()
def gelu(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], GeluCache]:
    """y = x Φ(x),  Φ(x) = (1 + erf(x/√2)) / 2, the normal distribution's share below x

    Source: Hendrycks and Gimpel 2016, section 2.
    """
    below = (1 + _erf(x / math.sqrt(2))) / 2
    return x * below, GeluCache(x, below)


@upstream(lambda cache: cache.x.shape)
def gelu_backward(
    dy: Float[Array, "..."], cache: GeluCache
) -> tuple[Float[Array, "..."], dict]:
    """dx = dy ⊙ (Φ(x) + x φ(x)),  φ(x) = e^(−x²/2) / √(2π), Φ's derivative"""
    x, below = cache
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return dy * (below + x * density), {}


class GeluTanhCache(NamedTuple):
    x: Float[Array, "..."]
    bent: Float[Array, "..."]


@checked()
def gelu_tanh(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], GeluTanhCache]:
    """y = x/2 · (1 + tanh(u)),  u = √(2/π) (x + 0.044715 x³)

    Within 5e-4 of gelu. Source: Hendrycks and Gimpel 2016, section 2; GPT-2's code.
    """
    bent = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return x / 2 * (1 + bent), GeluTanhCache(x, bent)


@upstream(lambda cache: cache.x.shape)
def gelu_tanh_backward(
    dy: Float[Array, "..."], cache: GeluTanhCache
) -> tuple[Float[Array, "..."], dict]:
    """dx = dy ⊙ ((1 + tanh u)/2 + x/2 · (1 − tanh² u) · u′)

    u′ = √(2/π) (1 + 3 · 0.044715 x²)
    """
    x, bent = cache
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return dy * ((1 + bent) / 2 + x / 2 * (1 - bent * bent) * slope), {}


class SiluCache(NamedTuple):
    x: Float[Array, "..."]
    sigmoid: Float[Array, "..."]


@checked()
def silu(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], SiluCache]:
    """y = x σ(x),  σ(x) = 1 / (1 + e^(−x))

    Also called Swish. Source: Ramachandran, Zoph and Le 2017, with β = 1.
    """
    small = np.exp(-np.abs(x))  # never overflows; for x < 0, σ(x) = eˣ / (1 + eˣ)
    sigmoid = np.where(x >= 0, 1, small) / (1 + small)
    return x * sigmoid, SiluCache(x, sigmoid)


@upstream(lambda cache: cache.x.shape)
def silu_backward(
    dy: Float[Array, "..."], cache: SiluCache
) -> tuple[Float[Array, "..."], dict]:
    """dx = dy ⊙ σ(x) (1 + x (1 − σ(x)))"""
    x, sigmoid = cache
    return dy * sigmoid * (1 + x * (1 - sigmoid)), {}


class SwigluCache(NamedTuple):
    bent: Float[Array, "..."]
    gate: Float[Array, "..."]
    silu: SiluCache


@checked()
def swiglu(
    hidden: Float[Array, "*rows d_ff"], gate: Float[Array, "*rows d_ff"]
) -> tuple[Float[Array, "*rows d_ff"], SwigluCache]:
    """y = silu(hidden) ⊙ gate

    Source: Shazeer 2020, equation 6.
    """
    bent, cache = silu.rule(hidden)
    return bent * gate, SwigluCache(bent, gate, cache)


@upstream(lambda cache: cache.bent.shape)
def swiglu_backward(
    dy: Float[Array, "..."], cache: SwigluCache
) -> tuple[tuple[Array, Array], dict]:
    """dhidden = (dy ⊙ gate) through silu,  dgate = dy ⊙ silu(hidden)

    Returns (dhidden, dgate), {}.
    """
    dhidden, _ = silu_backward.rule(dy * cache.gate, cache.silu)
    return (dhidden, dy * cache.bent), {}


ACTIVATIONS = {
    "relu": plain(relu, relu_backward),
    "gelu": plain(gelu, gelu_backward),
    "gelu_tanh": plain(gelu_tanh, gelu_tanh_backward),
    "swiglu": plain(swiglu, swiglu_backward),  # takes two arrays, and gives two gradients
}


class FeedForwardCache(NamedTuple):
    widen: LinearCache
    bend: Any  # the activation's own cache
    narrow: LinearCache
    activation: str = "relu"
    widen_gate: LinearCache | None = None  # only with swiglu


def _check_feed_forward(x, w_1, b_1, w_2, b_2, activation, w_3):
    check_feed_forward(x, w_1, b_1, w_2, b_2, activation, w_3, ACTIVATIONS)


@checked(_check_feed_forward, stages=True)
def feed_forward(
    x: Float[Array, "... d_model"],
    w_1: Float[Array, "d_model d_ff"],
    b_1: Float[Array, "d_ff"] | None,
    w_2: Float[Array, "d_ff d_model"],
    b_2: Float[Array, "d_model"] | None,
    activation: str = "relu",
    w_3: Float[Array, "d_model d_ff"] | None = None,
    record: Record = nothing,
) -> tuple[Float[Array, "... d_model"], FeedForwardCache]:
    """y = f(x w₁ + b₁) w₂ + b₂;  with "swiglu" y = (silu(x w₁ + b₁) ⊙ x w₃) w₂ + b₂

    f is max(0, ·) in the paper; "gelu" and "gelu_tanh" are others.
    Each position on its own, all with the same weights. The biases may both be None.
    Raises ValueError for an unknown activation, where w_3 is missing under "swiglu" or
    given without it, and for what is not finite.
    Source: Vaswani et al. 2017, equation 2; Shazeer 2020, equation 6.
    """
    hidden, widen = linear(x, w_1, b_1)
    branches, widen_gate = (record("hidden", hidden),), None
    if activation == "swiglu":
        gate, widen_gate = linear(x, w_3)
        branches = hidden, record("gate", gate)
    active, bend = ACTIVATIONS[activation][0](*branches)
    y, narrow = linear(record("active", active), w_2, b_2)
    record("out", y)
    return y, FeedForwardCache(widen, bend, narrow, activation, widen_gate)


@upstream(lambda cache: (*cache.narrow.x.shape[:-1], cache.narrow.w.shape[1]))
def feed_forward_backward(
    dy: Float[Array, "... d_model"], cache: FeedForwardCache, record: Record = nothing
) -> tuple[Float[Array, "... d_model"], dict, dict]:
    """dx = (dy w₂ᵀ ⊙ f′(x w₁ + b₁)) w₁ᵀ;  with "swiglu" + dgate w₃ᵀ

    Returns dx, {"w_1", "b_1", "w_2", "b_2"}, the biases where there are any, and with
    "swiglu" "w_3", and the ways that dx is the sum of: {"feed_forward"}, or {"hidden",
    "gate"} where x was used twice.
    """
    dactive, narrow = linear_backward(record("out", dy), cache.narrow)
    dbent, _ = ACTIVATIONS[cache.activation][1](record("active", dactive), cache.bend)
    dhidden, dgate = (dbent, None) if cache.widen_gate is None else dbent
    dx, widen = linear_backward(dhidden, cache.widen)
    grads = {f"{name}_1": grad for name, grad in widen.items()}
    grads |= {f"{name}_2": grad for name, grad in narrow.items()}
    ways = {"feed_forward": dx}
    if cache.widen_gate is not None:
        via_gate, gate = linear_backward(record("gate", dgate), cache.widen_gate)
        grads, ways = grads | {"w_3": gate["w"]}, {"hidden": dx, "gate": via_gate}
        dx = dx + via_gate
    record("hidden", dhidden)
    return dx, grads, ways


def _erf(x):
    """math.erf of every entry: exact to the last digit, and quick enough for a NumPy floor without SciPy."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), x.dtype, x.size).reshape(x.shape)
