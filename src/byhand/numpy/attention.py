"""Scaled dot-product attention, and several heads of it."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..doors import whole
from ..record import Record, nothing
from ..shapes import PAIRINGS, check_biases, check_choice, check_output_projection, check_projections
from .checks import check_finite, check_mask, checked, described, plain, upstream
from .heads import merge_heads, repeat_heads, split_heads, sum_heads
from .linear import LinearCache, linear, linear_backward
from .position import RopeCache, check_positions, rope, rope_backward
from .softmax import SoftmaxCache, softmax, softmax_backward
from .tiled import check_attention, tiled_attention, tiled_attention_backward  # noqa: F401 (the tiled pair is part of this room)

Array = np.ndarray
linear, linear_backward, rope, rope_backward = plain(linear, linear_backward, rope, rope_backward)
softmax, softmax_backward = plain(softmax, softmax_backward)
merge_heads, repeat_heads, split_heads, sum_heads = plain(merge_heads, repeat_heads, split_heads, sum_heads)


class AttentionCache(NamedTuple):
    q: Float[Array, "batch heads t_q d_k"]
    k: Float[Array, "batch heads t_k d_k"]
    v: Float[Array, "batch heads t_k d_v"]
    weights: Float[Array, "batch heads t_q t_k"]


@checked(check_attention, stages=True)
def attention(
    q: Float[Array, "batch heads t_q d_k"],
    k: Float[Array, "batch heads t_k d_k"],
    v: Float[Array, "batch heads t_k d_v"],
    mask: Bool[Array, "batch heads t_q t_k"] | None = None,
    causal: bool = False,
    record: Record = nothing,
) -> tuple[Float[Array, "batch heads t_q d_v"], AttentionCache]:
    """y = softmax(q kᵀ / √d_k) v

    mask (broadcast to the scores) is True where a query may attend. causal=True aligns
    the last query with the last key: query i sees keys j ≤ i + t_k − t_q. A query that
    may attend to nothing gets zeros.
    Raises ValueError where the shapes do not fit, for a mask that is not boolean, and
    for what is not finite.
    Source: Vaswani et al. 2017, equation 1.
    """
    allowed = attention_mask.rule(q.shape[-2], k.shape[-2], mask, causal)
    scores = q @ k.swapaxes(-1, -2)
    scores /= math.sqrt(q.shape[-1])
    record("scores", scores)
    weights, _ = softmax(scores, allowed)
    mixed = record("mixed", record("weights", weights) @ v)
    return mixed, AttentionCache(q, k, v, weights)


@upstream(lambda cache: (*cache.q.shape[:3], cache.v.shape[3]))
def attention_backward(
    dy: Float[Array, "batch heads t_q d_v"], cache: AttentionCache,
    record: Record = nothing,
) -> tuple[Array, Array, Array]:
    """dq = dS k / √d_k,  dk = dSᵀ q / √d_k,  dv = Aᵀ dy;  dS = softmax′(dy vᵀ)

    Where a key is masked A is 0, so dS and that key's share of dk and dv are 0 too.
    Returns dq, dk, dv.
    """
    q, k, v, weights = cache
    record("mixed", dy)
    dv = weights.swapaxes(-1, -2) @ dy
    dweights = record("weights", dy @ v.swapaxes(-1, -2))
    dscores, _ = softmax_backward(dweights, SoftmaxCache(weights))
    record("scores", dscores)
    scale = 1 / math.sqrt(q.shape[-1])
    dq = dscores @ k * scale
    dk = dscores.swapaxes(-1, -2) @ q * scale
    return dq, dk, dv


def _check_attention_mask(t_q, t_k, mask):
    whole("t_q", t_q)
    whole("t_k", t_k)
    if mask is not None:
        check_mask(mask, (*np.shape(mask)[:-2], t_q, t_k), "the scores")


@checked(_check_attention_mask)
def attention_mask(
    t_q: int, t_k: int, mask: Bool[Array, "..."] | None, causal: bool
) -> Bool[Array, "..."] | None:
    """The given mask and the causal one together; None where nothing is hidden."""
    if not causal:
        return mask
    past = np.tri(t_q, t_k, t_k - t_q, dtype=bool)
    return past if mask is None else past & mask


class MultiHeadCache(NamedTuple):
    q: LinearCache
    k: LinearCache
    v: LinearCache
    attention: AttentionCache
    out: LinearCache
    keys: Float[Array, "batch kv_heads t_k d_k"]  # as a KV cache stores them: rotated, not repeated
    values: Float[Array, "batch kv_heads t_k d_v"]
    rotation: tuple[RopeCache, RopeCache] | None  # the queries' and the keys'
    has_past: bool


def _check_multi_head(x, memory, w_q, w_k, w_v, w_o, n_heads, mask, n_kv_heads, positions, past, b_q, b_k, b_v, b_o, pairing):
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    check_projections(x, memory, w_q, w_k, w_v, n_heads, n_kv_heads)
    check_output_projection(x, w_v, w_o, n_heads, n_kv_heads)
    check_biases(dict(w_q=w_q, w_k=w_k, w_v=w_v, w_o=w_o), dict(b_q=b_q, b_k=b_k, b_v=b_v, b_o=b_o))
    check_choice("pairing", pairing, PAIRINGS)
    if positions is not None:
        check_positions(positions, x)
        check_positions(positions, memory)
    shapes = [(len(x), n_kv_heads, w.shape[1] // n_kv_heads) for w in (w_k, w_v)]
    t_past = 0 if past is None else check_past(past, shapes, x.dtype)
    if mask is not None:
        check_mask(mask, (len(x), n_heads, x.shape[1], t_past + memory.shape[1]), "the scores")


def check_past(past, shapes, dtype):
    """How many tokens past holds, after a look at its keys and values; shapes are theirs without the time."""
    if len(past) != 2 or not all(isinstance(value, np.ndarray) and value.ndim == 4 and value.dtype == dtype for value in past):
        raise ValueError(f"past was {', '.join(map(described, past))}; it must be keys and values, two arrays (batch, kv_heads, time, width) in {dtype}")
    time = past[0].shape[2]
    for name, value, (batch, heads, width) in zip(("keys", "values"), past, shapes):
        if value.shape != (batch, heads, time, width):
            raise ValueError(f"past held {name} of shape {value.shape}; it must be {(batch, heads, time, width)}")
        check_finite(**{f"past's {name}": value})
    return time


@checked(_check_multi_head, stages=True)
def multi_head_attention(
    x: Float[Array, "batch t_q d_model"],
    memory: Float[Array, "batch t_k d_model"],
    w_q: Float[Array, "d_model heads*d_k"],
    w_k: Float[Array, "d_model kv_heads*d_k"],
    w_v: Float[Array, "d_model kv_heads*d_v"],
    w_o: Float[Array, "heads*d_v d_model"],
    n_heads: int,
    mask: Bool[Array, "#batch #heads #t_q t_k"] | None = None,
    causal: bool = False,
    n_kv_heads: int | None = None,
    positions: Int[Array, "t_q"] | Int[Array, "batch t_q"] | None = None,
    past: tuple[Array, Array] | None = None,
    record: Record = nothing,
    b_q: Float[Array, "heads*d_k"] | None = None,
    b_k: Float[Array, "kv_heads*d_k"] | None = None,
    b_v: Float[Array, "kv_heads*d_v"] | None = None,
    b_o: Float[Array, "d_model"] | None = None,
    pairing: str = "interleaved",
) -> tuple[Float[Array, "batch t_q d_model"], MultiHeadCache]:
    """y = concat_h(attention(x w_q, memory w_k, memory w_v)) w_o

    Queries come from x, keys and values from memory; self-attention passes one array
    twice. Heads are column blocks of w_q, w_k and w_v. With fewer n_kv_heads than
    n_heads (grouped-query attention) neighbouring query heads share a key-value head.
    Each of the four products may add a bias, b_q, b_k, b_v and b_o, and then all do.
    positions rotates queries and keys (rope, by pairing); they are then x's and
    memory's both. past is keys and values of earlier tokens, as cache.keys and
    cache.values hold them; they stand in front.
    Raises ValueError where n_kv_heads does not divide n_heads, where the shapes do not
    fit, and for what is not finite.
    Source: Vaswani et al. 2017, section 3.2.2; Ainslie et al. 2023 for the shared
    heads.
    """
    n_kv_heads, rotation = n_kv_heads or n_heads, None
    q, q_cache = linear(x, w_q, b_q)
    k, k_cache = linear(memory, w_k, b_k)
    v, v_cache = linear(memory, w_v, b_v)
    q = split_heads(q, n_heads)
    k, v = split_heads(k, n_kv_heads), split_heads(v, n_kv_heads)
    if positions is not None:
        q, q_turned = rope(record("q_unrotated", q), positions, pairing=pairing)
        k, k_turned = rope(record("k_unrotated", k), positions, pairing=pairing)
        rotation = q_turned, k_turned
    if past is not None:
        k, v = (np.concatenate(pair, axis=2) for pair in zip(past, (k, v)))
    q, k, v = record("q", q), record("k", k), record("v", v)
    shared = n_heads // n_kv_heads
    mixed, inner = attention.rule(
        q, repeat_heads(k, shared), repeat_heads(v, shared), mask, causal, record
    )
    y, out = linear(record("concat", merge_heads(mixed)), w_o, b_o)
    caches = q_cache, k_cache, v_cache, inner, out
    return record("out", y), MultiHeadCache(*caches, k, v, rotation, past is not None)


def _whole_output(cache):
    if cache.has_past:
        raise ValueError("cache came from a forward pass with a past; a backward needs one pass over all positions")
    return *cache.q.x.shape[:2], cache.out.w.shape[1]


@upstream(_whole_output)
def multi_head_attention_backward(
    dy: Float[Array, "batch t_q d_model"], cache: MultiHeadCache,
    record: Record = nothing,
) -> tuple[tuple[Array, Array, Array], dict]:
    """by queries dq w_qᵀ, to x;  by keys dk w_kᵀ and by values dv w_vᵀ, to the memory

    dk and dv add over the query heads that shared a head; what was rotated by θ is
    rotated back by −θ. The caller adds what reaches one array: in self-attention all
    three.
    Returns the three, and {"w_q", "w_k", "w_v", "w_o"}, where there are biases also
    {"b_q", "b_k", "b_v", "b_o"}.
    Raises ValueError where the forward read a past: its keys came from an earlier call,
    which has its own cache.
    """
    n_heads, n_kv_heads = cache.attention.q.shape[1], cache.keys.shape[1]
    dconcat, out = linear_backward(record("out", dy), cache.out)
    dmixed = split_heads(record("concat", dconcat), n_heads)
    dq, dk, dv = attention_backward.rule(dmixed, cache.attention, record)
    record("q", dq)
    if n_kv_heads < n_heads:  # several query heads used one: their gradients add
        dk = sum_heads(record("k_per_query_head", dk), n_kv_heads)
        dv = sum_heads(record("v_per_query_head", dv), n_kv_heads)
    record("k", dk), record("v", dv)
    if cache.rotation is not None:
        dq = record("q_unrotated", rope_backward(dq, cache.rotation[0])[0])
        dk = record("k_unrotated", rope_backward(dk, cache.rotation[1])[0])
    dquery, q = linear_backward(merge_heads(dq), cache.q)
    dkey, k = linear_backward(merge_heads(dk), cache.k)
    dvalue, v = linear_backward(merge_heads(dv), cache.v)
    grads = {"w_q": q["w"], "w_k": k["w"], "w_v": v["w"], "w_o": out["w"]}
    if cache.out.has_bias:
        grads |= {"b_q": q["b"], "b_k": k["b"], "b_v": v["b"], "b_o": out["b"]}
    return (dquery, dkey, dvalue), grads
