"""Attention in tiles: the same result as attention.attention without ever holding t_q × t_k numbers."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..doors import whole
from .checks import check_dtype, check_finite, check_mask, checked, described, refuse, upstream

Array = np.ndarray


def _check_block(block):
    sizes = block if isinstance(block, (tuple, list)) and len(block) == 2 else (0,)
    if not all(hasattr(size, "__index__") and not isinstance(size, bool) and size >= 1 for size in sizes):
        raise ValueError(f"block was {block}; it must be two whole numbers of at least 1, queries and keys")


def _check_tiled(q, k, v, block):
    check_attention(q, k, v)
    _check_block(block)


def _check_online(running, scores, v):
    rows = scores.shape[:-1]
    if scores.ndim != 4 or v.ndim != 4 or v.shape[:3] != (*rows[:2], scores.shape[3]):
        raise ValueError(f"scores had shape {scores.shape} and v {v.shape}; they must be (batch, heads, rows, keys) and (batch, heads, keys, d_v)")
    for name, value, must in zip(running._fields, running, ((*rows, 1), (*rows, 1), (*rows, v.shape[3]))):
        if getattr(value, "shape", None) != must or value.dtype != scores.dtype:
            raise ValueError(f"running.{name} was {described(value)}; it must be an array of shape {must} in {scores.dtype}")
    check_finite(v=v)
    for name, value in (("scores", scores), ("running.peak", running.peak)):
        if not (value < np.inf).all():
            refuse(name, value, ~(value < np.inf))
    check_finite(total=running.total, mixed=running.mixed)


def _check_start(rows, d_v, dtype):
    for size in rows:
        whole("rows", size)
    whole("d_v", d_v)
    check_dtype(dtype)


def check_attention(q, k, v, mask=None):
    """Raise ValueError unless q, k, v and the mask fit together as attention needs them."""
    for name, value in (("q", q), ("k", k), ("v", v)):
        if value.ndim != 4 or 0 in value.shape:
            raise ValueError(f"{name} had shape {value.shape}; it must be (batch, heads, time, width), none of them 0")
    if k.shape[:2] != q.shape[:2] or k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k had shape {k.shape}; batch, heads and width must be q's, {q.shape}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v had shape {v.shape}; batch, heads and time must be k's, {k.shape}")
    if mask is not None:
        check_mask(mask, (*q.shape[:3], k.shape[2]), "the scores")


class Running(NamedTuple):
    """A softmax-weighted sum over the keys met so far: Σ e^(s_j − peak) v_j, not yet divided by total = Σ e^(s_j − peak)."""

    peak: Float[Array, "batch heads rows 1"]
    total: Float[Array, "batch heads rows 1"]
    mixed: Float[Array, "batch heads rows d_v"]


class TiledCache(NamedTuple):
    q: Float[Array, "batch heads t_q d_k"]
    k: Float[Array, "batch heads t_k d_k"]
    v: Float[Array, "batch heads t_k d_v"]
    y: Float[Array, "batch heads t_q d_v"]
    log_total: Float[Array, "batch heads t_q 1"]  # log Σ_j e^(s_j): with it the weights are e^(s − log_total)
    causal: bool
    block: tuple[int, int]


@checked(_check_online, finite=False)
def online_softmax(
    running: Running, scores: Float[Array, "batch heads rows keys"],
    v: Float[Array, "batch heads keys d_v"],
) -> Running:
    """peak′ = max(peak, max_j s_j)

    total′ = e^(peak − peak′) total + Σ_j e^(s_j − peak′)

    Takes in one more block of keys; mixed′ is likewise, with v_j in the sum. A score of
    −∞ is a masked key. What was summed under the old peak is rescaled, so the order and
    the size of the blocks make no difference but rounding. Source: Milakov and
    Gimelshein 2018, algorithm 3.
    """
    peak = np.maximum(running.peak, scores.max(axis=-1, keepdims=True))
    shift = np.where(peak == -np.inf, 0, peak)  # a row that has met no key yet
    rescale = np.exp(running.peak - shift)
    weights = np.exp(scores - shift)
    total = rescale * running.total + weights.sum(axis=-1, keepdims=True)
    return Running(peak, total, rescale * running.mixed + weights @ v)


@checked(_check_start)
def start(rows: tuple[int, ...], d_v: int, dtype) -> Running:
    """The running sums before any key: peak −∞, total 0, mixed 0; rows is (batch, heads, rows)."""
    return Running(np.full((*rows, 1), -np.inf, dtype), np.zeros((*rows, 1), dtype), np.zeros((*rows, d_v), dtype))


@checked(_check_tiled)
def tiled_attention(
    q: Float[Array, "batch heads t_q d_k"],
    k: Float[Array, "batch heads t_k d_k"],
    v: Float[Array, "batch heads t_k d_v"],
    causal: bool = False,
    block: Sequence[int] = (256, 512),
) -> tuple[Float[Array, "batch heads t_q d_v"], TiledCache]:
    """y = softmax(q kᵀ / √d_k) v, a tile of block[0] queries × block[1] keys at a time

    Exact, and as many multiplications as attention.attention; but the memory beyond q,
    k, v and y is one tile and two numbers a row, so it grows as t_q and not as t_q ·
    t_k. causal=True aligns the last query with the last key, and tiles that lie wholly
    in the future are skipped. A query that may attend to nothing gets zeros.
    Raises ValueError where the shapes do not fit, for a block below 1, and where a
    score is NaN or +∞.
    Source: Dao et al. 2022, algorithm 1, with the loops in the order of Dao 2023.
    """
    scale = 1 / math.sqrt(q.shape[-1])
    y = np.empty((*q.shape[:3], v.shape[-1]), np.result_type(q, k, v))
    log_total = np.empty((*q.shape[:3], 1), y.dtype)
    for rows in _blocks(q.shape[2], block[0]):
        running = start.rule(y[:, :, rows].shape[:3], v.shape[-1], y.dtype)
        for keys in _blocks(k.shape[2], block[1]):
            if causal and _future(rows, keys, q, k):
                break  # this block of keys and every later one
            scores = _tile_scores(q, k, rows, keys, scale, causal)
            running = online_softmax.rule(running, scores, v[:, :, keys])
        if not np.isfinite(running.total).all():
            raise ValueError("q and k gave a score of NaN or +inf; it must be finite")
        seen = running.total > 0
        y[:, :, rows] = running.mixed / np.where(seen, running.total, 1)
        # +∞ where no key was seen, so that e^(s − log_total) = 0 on the way back
        logarithm = running.peak + np.log(np.where(seen, running.total, 1))
        log_total[:, :, rows] = np.where(seen, logarithm, np.inf)
    return y, TiledCache(q, k, v, y, log_total, causal, block)


@upstream(lambda cache: cache.y.shape)
def tiled_attention_backward(
    dy: Float[Array, "batch heads t_q d_v"], cache: TiledCache
) -> tuple[Array, Array, Array]:
    """dS = A ⊙ (dy vᵀ − Σ(dy ⊙ y)),  dq = dS k / √d_k,  dk = dSᵀ q / √d_k,  dv = Aᵀ dy

    No weight was kept: each tile of A is computed again, as e^(s − log_total). The sum
    that softmax's backward takes over a row's keys, Σ_j dA_j A_j, equals dy · y, which
    needs no tile. Returns dq, dk, dv.
    Source: Dao et al. 2022, algorithm 4.
    """
    q, k, v, y, log_total, causal, block = cache
    scale = 1 / math.sqrt(q.shape[-1])
    along_y = (dy * y).sum(axis=-1, keepdims=True)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for keys in _blocks(k.shape[2], block[1]):
        for rows in _blocks(q.shape[2], block[0]):
            if causal and _future(rows, keys, q, k):
                continue
            scores = _tile_scores(q, k, rows, keys, scale, causal)
            weights = np.exp(scores - log_total[:, :, rows])
            dv[:, :, keys] += weights.swapaxes(-1, -2) @ dy[:, :, rows]
            dweights = dy[:, :, rows] @ v[:, :, keys].swapaxes(-1, -2)
            dscores = weights * (dweights - along_y[:, :, rows])
            dq[:, :, rows] += dscores @ k[:, :, keys] * scale
            dk[:, :, keys] += dscores.swapaxes(-1, -2) @ q[:, :, rows] * scale
    return dq, dk, dv


def _blocks(length, size):
    return [slice(first, min(first + size, length)) for first in range(0, length, size)]


def _future(rows, keys, q, k):
    """Whether even the last of these queries may not attend to the first of these keys."""
    return keys.start > rows.stop - 1 + k.shape[2] - q.shape[2]


def _tile_scores(q, k, rows, keys, scale, causal):
    scores = q[:, :, rows] @ k[:, :, keys].swapaxes(-1, -2) * scale
    if (scores == -np.inf).any():  # before the mask puts its own in
        raise ValueError("q and k gave a score of -inf: their product overflows; softmax needs finite numbers")
    first_key_hidden = rows.start + k.shape[2] - q.shape[2] + 1  # from the first query of the tile
    if causal and keys.stop > first_key_hidden:  # the tile crosses the diagonal
        past = np.tri(rows.stop - rows.start, keys.stop - keys.start, first_key_hidden - 1 - keys.start, dtype=bool)
        scores = np.where(past, scores, -np.inf)
    return scores
