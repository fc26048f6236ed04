"""Scaled dot-product attention, and several heads of it."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .finite import check_finite
from .linear import LinearCache, linear, linear_backward
from .position import RopeCache, rope, rope_backward
from .softmax import SoftmaxCache, softmax, softmax_backward
from .tiled import check_attention, tiled_attention, tiled_attention_backward  # noqa: F401 (the tiled pair is part of this room)

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
    Raises ValueError where the shapes do not fit, for a mask that is not boolean, and for what is not finite.
    Source: Vaswani et al. 2017, equation 1.
    """
    check_attention(q, k, v, mask)
    allowed = attention_mask(q.shape[-2], k.shape[-2], mask, causal)
    scores = (q @ k.swapaxes(-1, -2)) / math.sqrt(q.shape[-1])
    check_finite(scores=scores)
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


class Rotation(NamedTuple):
    """Queries and keys before they were rotated by their positions, and what the way back needs."""

    q: Float[Array, "batch heads t_q d_k"]
    k: Float[Array, "batch kv_heads t_q d_k"]
    q_rope: RopeCache
    k_rope: RopeCache


class MultiHeadCache(NamedTuple):
    q: LinearCache
    k: LinearCache
    v: LinearCache
    attention: AttentionCache
    mixed: Float[Array, "batch heads t_q d_v"]
    out: LinearCache
    y: Float[Array, "batch t_q d_model"]
    keys: Float[Array, "batch kv_heads t_k d_k"]  # as a KV cache stores them: rotated, not repeated
    values: Float[Array, "batch kv_heads t_k d_v"]
    rotation: Rotation | None = None
    has_past: bool = False


class MultiHeadGradients(NamedTuple):
    """The gradient of every stage. x was used once, for the queries; memory twice, for keys and for values."""

    via_query: Float[Array, "batch t_q d_model"]
    via_key: Float[Array, "batch t_k d_model"]
    via_value: Float[Array, "batch t_k d_model"]
    params: dict
    attention: AttentionGradients
    mixed: Float[Array, "batch heads t_q d_v"]
    concat: Float[Array, "batch t_q heads*d_v"]
    keys: Float[Array, "batch kv_heads t_k d_k"]  # attention.k and attention.v, summed over the query heads that shared them
    values: Float[Array, "batch kv_heads t_k d_v"]
    q_unrotated: Float[Array, "batch heads t_q d_k"] | None = None
    k_unrotated: Float[Array, "batch kv_heads t_k d_k"] | None = None


def multi_head_attention(
    x: Float[Array, "batch t_q d_model"],
    memory: Float[Array, "batch t_k d_model"],
    w_q: Float[Array, "d_model heads*d_k"],
    w_k: Float[Array, "d_model kv_heads*d_k"],
    w_v: Float[Array, "d_model kv_heads*d_v"],
    w_o: Float[Array, "heads*d_v d_model"],
    n_heads: int,
    mask: Bool[Array, "batch heads t_q t_k"] | None = None,
    causal: bool = False,
    n_kv_heads: int | None = None,
    positions: Int[Array, "t_q"] | Int[Array, "batch t_q"] | None = None,
    past: tuple[Array, Array] | None = None,
) -> tuple[Float[Array, "batch t_q d_model"], MultiHeadCache]:
    """y = concat_h(attention(x w_q, memory w_k, memory w_v)) w_o

    Queries come from x, keys and values from memory; self-attention passes one array twice. Heads are column
    blocks of w_q, w_k and w_v. With fewer n_kv_heads than n_heads (grouped-query attention) neighbouring query heads
    share a key-value head. positions rotates queries and keys (rope); they are then x's and memory's both.
    past is keys and values of earlier tokens, as cache.keys and cache.values hold them; they stand in front.
    Raises ValueError where n_kv_heads does not divide n_heads and where the shapes do not fit.
    Source: Vaswani et al. 2017, section 3.2.2; Ainslie et al. 2023 for the shared heads.
    """
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    _check_heads(n_heads, n_kv_heads)
    q, q_cache = linear(x, w_q)
    k, k_cache = linear(memory, w_k)
    v, v_cache = linear(memory, w_v)
    queries, keys, values = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)
    rotation = None
    if positions is not None:
        unrotated = queries, keys
        queries, q_rope = rope(queries, positions)
        keys, k_rope = rope(keys, positions)
        rotation = Rotation(*unrotated, q_rope, k_rope)
    if past is not None:
        keys, values = np.concatenate((past[0], keys), axis=2), np.concatenate((past[1], values), axis=2)
    shared = n_heads // n_kv_heads
    mixed, attention_cache = attention(queries, repeat_heads(keys, shared), repeat_heads(values, shared), mask, causal)
    y, out_cache = linear(merge_heads(mixed), w_o)
    return y, MultiHeadCache(
        q_cache, k_cache, v_cache, attention_cache, mixed, out_cache, y, keys, values, rotation, past is not None
    )  # fmt: skip


def multi_head_attention_backward(
    dy: Float[Array, "batch t_q d_model"], cache: MultiHeadCache
) -> tuple[Float[Array, "batch t_q d_model"], Float[Array, "batch t_k d_model"], dict]:
    """dx = dq w_qᵀ,  dmemory = dk w_kᵀ + dv w_vᵀ

    dk and dv add over the query heads that shared a head; what was rotated by θ is rotated back by −θ. In
    self-attention x is the memory, and the caller adds the two. Returns dx, dmemory, {"w_q", "w_k", "w_v", "w_o"}.
    Raises ValueError where the forward read a past: its keys came from an earlier call, which has its own cache.
    """
    gradients = multi_head_attention_gradients(dy, cache)
    return gradients.via_query, gradients.via_key + gradients.via_value, gradients.params


def multi_head_attention_gradients(dy: Float[Array, "batch t_q d_model"], cache: MultiHeadCache) -> MultiHeadGradients:
    """multi_head_attention_backward with every step kept."""
    if cache.has_past:
        raise ValueError("cache came from a forward pass with a past; a backward needs one pass over all positions")
    dconcat, out = linear_backward(dy, cache.out)
    dmixed = split_heads(dconcat, cache.mixed.shape[1])
    inner = attention_gradients(dmixed, cache.attention)
    # a key-value head was used by several query heads: their gradients add
    dkeys, dvalues = sum_heads(inner.k, cache.keys.shape[1]), sum_heads(inner.v, cache.values.shape[1])
    dq, dk = inner.q, dkeys
    if cache.rotation is not None:
        dq, _ = rope_backward(inner.q, cache.rotation.q_rope)
        dk, _ = rope_backward(dkeys, cache.rotation.k_rope)
    via_query, q = linear_backward(merge_heads(dq), cache.q)
    via_key, k = linear_backward(merge_heads(dk), cache.k)
    via_value, v = linear_backward(merge_heads(dvalues), cache.v)
    grads = {"w_q": q["w"], "w_k": k["w"], "w_v": v["w"], "w_o": out["w"]}
    unrotated = (dq, dk) if cache.rotation is not None else (None, None)
    return MultiHeadGradients(via_query, via_key, via_value, grads, inner, dmixed, dconcat, dkeys, dvalues, *unrotated)


def repeat_heads(x: Float[Array, "batch kv_heads time d"], shared: int) -> Float[Array, "batch kv_heads*shared time d"]:
    """y_h = x_(h // shared): each key-value head once for every query head that reads it."""
    return x if shared == 1 else np.repeat(x, shared, axis=1)


def sum_heads(dy: Float[Array, "batch heads time d"], n_kv_heads: int) -> Float[Array, "batch kv_heads time d"]:
    """dx_g = Σ_(h: h // shared = g) dy_h: the backward of repeat_heads."""
    batch, heads, time, d = dy.shape
    return dy if heads == n_kv_heads else dy.reshape(batch, n_kv_heads, heads // n_kv_heads, time, d).sum(axis=2)


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


def _check_heads(n_heads, n_kv_heads):
    if n_heads < 1:
        raise ValueError(f"n_heads was {n_heads}; it must be at least 1")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads was {n_kv_heads}; it must divide n_heads, {n_heads}")
