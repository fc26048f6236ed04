"""Scaled dot-product attention, and several heads of it."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .linear import LinearCache, linear, linear_backward
from .softmax import SoftmaxCache, softmax, softmax_backward

Array = np.ndarray


class AttentionCache(NamedTuple):
    q: Float[Array, "batch heads t_q d_k"]
    k: Float[Array, "batch heads t_k d_k"]
    v: Float[Array, "batch heads t_k d_v"]
    scores: Float[Array, "batch heads t_q t_k"]
    weights: Float[Array, "batch heads t_q t_k"]


class AttentionGradients(NamedTuple):
    q: Float[Array, "batch heads t_q d_k"]
    k: Float[Array, "batch heads t_k d_k"]
    v: Float[Array, "batch heads t_k d_v"]
    weights: Float[Array, "batch heads t_q t_k"]
    scores: Float[Array, "batch heads t_q t_k"]


def attention(
    q: Float[Array, "batch heads t_q d_k"],
    k: Float[Array, "batch heads t_k d_k"],
    v: Float[Array, "batch heads t_k d_v"],
    mask: Bool[Array, "batch heads t_q t_k"] | None = None,
    causal: bool = False,
) -> tuple[Float[Array, "batch heads t_q d_v"], AttentionCache]:
    """y = softmax(q kᵀ / √d_k) v

    mask (broadcast to the scores) is True where a query may attend. causal=True aligns the last query with the
    last key: query i sees keys j ≤ i + t_k − t_q. A query that may attend to nothing gets zeros.
    Raises ValueError where the shapes do not fit. Source: Vaswani et al. 2017, equation 1.
    """
    _check_attention(q, k, v)
    allowed = attention_mask(q.shape[-2], k.shape[-2], mask, causal)
    scores = (q @ k.swapaxes(-1, -2)) / math.sqrt(q.shape[-1])
    weights, _ = softmax(scores, allowed)
    return weights @ v, AttentionCache(q, k, v, scores, weights)


def attention_backward(dy: Float[Array, "batch heads t_q d_v"], cache: AttentionCache) -> tuple[Array, Array, Array]:
    """dq = dS k / √d_k,  dk = dSᵀ q / √d_k,  dv = Aᵀ dy,  with dA = dy vᵀ and dS through the softmax

    Where a key is masked A is 0, so dS and that key's share of dk and dv are 0 too. Returns dq, dk, dv.
    """
    return attention_gradients(dy, cache)[:3]


def attention_gradients(dy: Float[Array, "batch heads t_q d_v"], cache: AttentionCache) -> AttentionGradients:
    """attention_backward with every step kept."""
    q, k, v, _, weights = cache
    dv = weights.swapaxes(-1, -2) @ dy
    dweights = dy @ v.swapaxes(-1, -2)
    dscores, _ = softmax_backward(dweights, SoftmaxCache(weights))
    scale = 1 / math.sqrt(q.shape[-1])
    dq = dscores @ k * scale
    dk = dscores.swapaxes(-1, -2) @ q * scale
    return AttentionGradients(dq, dk, dv, dweights, dscores)


def attention_mask(t_q: int, t_k: int, mask: Bool[Array, "..."] | None, causal: bool) -> Bool[Array, "..."] | None:
    """The given mask and the causal one together; None where every query may attend to every key."""
    if not causal:
        return mask
    past = np.tri(t_q, t_k, t_k - t_q, dtype=bool)
    return past if mask is None else past & mask


class MultiHeadCache(NamedTuple):
    q: LinearCache
    k: LinearCache
    v: LinearCache
    attention: AttentionCache
    mixed: Float[Array, "batch heads t_q d_v"]
    out: LinearCache
    y: Float[Array, "batch t_q d_model"]


class MultiHeadGradients(NamedTuple):
    """The gradient of every stage. x was used once, for the queries; memory twice, for keys and for values."""

    via_query: Float[Array, "batch t_q d_model"]
    via_key: Float[Array, "batch t_k d_model"]
    via_value: Float[Array, "batch t_k d_model"]
    params: dict
    attention: AttentionGradients
    mixed: Float[Array, "batch heads t_q d_v"]
    concat: Float[Array, "batch t_q heads*d_v"]


def multi_head_attention(
    x: Float[Array, "batch t_q d_model"],
    memory: Float[Array, "batch t_k d_model"],
    w_q: Float[Array, "d_model heads*d_k"],
    w_k: Float[Array, "d_model heads*d_k"],
    w_v: Float[Array, "d_model heads*d_v"],
    w_o: Float[Array, "heads*d_v d_model"],
    n_heads: int,
    mask: Bool[Array, "batch heads t_q t_k"] | None = None,
    causal: bool = False,
) -> tuple[Float[Array, "batch t_q d_model"], MultiHeadCache]:
    """y = concat_h(attention(x w_q, memory w_k, memory w_v)) w_o

    Queries come from x, keys and values from memory; self-attention passes one array twice. Heads are column
    blocks of w_q, w_k and w_v. Source: Vaswani et al. 2017, section 3.2.2.
    """
    queries, q_cache = linear(x, w_q)
    keys, k_cache = linear(memory, w_k)
    values, v_cache = linear(memory, w_v)
    mixed, attention_cache = attention(
        split_heads(queries, n_heads), split_heads(keys, n_heads), split_heads(values, n_heads), mask, causal
    )
    y, out_cache = linear(merge_heads(mixed), w_o)
    return y, MultiHeadCache(q_cache, k_cache, v_cache, attention_cache, mixed, out_cache, y)


def multi_head_attention_backward(
    dy: Float[Array, "batch t_q d_model"], cache: MultiHeadCache
) -> tuple[Float[Array, "batch t_q d_model"], Float[Array, "batch t_k d_model"], dict]:
    """dx = dq w_qᵀ,  dmemory = dk w_kᵀ + dv w_vᵀ

    In self-attention x is the memory, and the caller adds the two. Returns dx, dmemory, {"w_q", "w_k", "w_v", "w_o"}.
    """
    gradients = multi_head_attention_gradients(dy, cache)
    return gradients.via_query, gradients.via_key + gradients.via_value, gradients.params


def multi_head_attention_gradients(dy: Float[Array, "batch t_q d_model"], cache: MultiHeadCache) -> MultiHeadGradients:
    """multi_head_attention_backward with every step kept."""
    dconcat, out = linear_backward(dy, cache.out)
    dmixed = split_heads(dconcat, cache.mixed.shape[1])
    inner = attention_gradients(dmixed, cache.attention)
    via_query, q = linear_backward(merge_heads(inner.q), cache.q)
    via_key, k = linear_backward(merge_heads(inner.k), cache.k)
    via_value, v = linear_backward(merge_heads(inner.v), cache.v)
    grads = {"w_q": q["w"], "w_k": k["w"], "w_v": v["w"], "w_o": out["w"]}
    return MultiHeadGradients(via_query, via_key, via_value, grads, inner, dmixed, dconcat)


def split_heads(x: Float[Array, "batch time heads*d"], n_heads: int) -> Float[Array, "batch heads time d"]:
    """(batch, time, heads·d) to (batch, heads, time, d): head h is the h-th block of columns."""
    batch, time, width = x.shape
    if width % n_heads:
        raise ValueError(f"n_heads was {n_heads}; it must divide the projected width {width}")
    return x.reshape(batch, time, n_heads, width // n_heads).swapaxes(1, 2)


def merge_heads(x: Float[Array, "batch heads time d"]) -> Float[Array, "batch time heads*d"]:
    """The inverse of split_heads, and its backward."""
    batch, heads, time, d = x.shape
    return x.swapaxes(1, 2).reshape(batch, time, heads * d)


def _check_attention(q, k, v):
    for name, value in (("q", q), ("k", k), ("v", v)):
        if value.ndim != 4:
            raise ValueError(f"{name} had shape {value.shape}; it must be (batch, heads, time, width)")
    if k.shape[:2] != q.shape[:2] or k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k had shape {k.shape}; batch, heads and width must be q's, {q.shape}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v had shape {v.shape}; batch, heads and time must be k's, {k.shape}")
