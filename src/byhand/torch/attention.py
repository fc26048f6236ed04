"""Attention: softmax(Q Kᵀ / √d_k) V, one head or many."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config
from ..doors import whole
from ..record import Record, nothing
from ..shapes import PAIRINGS, check_biases, check_choice, check_output_projection, check_product, check_projections, check_split
from .inputs import check_device, check_mask, checked, plain
from .linear import linear, weight, zeros
from .position import check_positions, rope
from .softmax import softmax

linear, rope, softmax = plain(linear, rope, softmax)


def _check_attention(q, k, v, mask):
    for name, value in (("q", q), ("k", k), ("v", v)):
        if value.ndim != 4 or 0 in value.shape:
            raise ValueError(f"{name} had shape {tuple(value.shape)}; it must be (batch, heads, time, width), none of them 0")
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3] or q.shape[1] % k.shape[1]:
        raise ValueError(f"k had shape {tuple(k.shape)}; batch and width must be q's, {tuple(q.shape)}, and its heads must divide q's")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v had shape {tuple(v.shape)}; batch, heads and time must be k's, {tuple(k.shape)}")
    if mask is not None:
        check_mask(mask, (*q.shape[:3], k.shape[2]), "the scores")


@checked(_check_attention)
def attention(
    q: Float[Tensor, "batch heads t_q d_k"],
    k: Float[Tensor, "batch kv_heads t_k d_k"],
    v: Float[Tensor, "batch kv_heads t_k d_v"],
    mask: Bool[Tensor, "#batch #heads #t_q t_k"] | None = None,
    causal: bool = False,
    plain: bool = False,
    record: Record = nothing,
) -> Float[Tensor, "batch heads t_q d_v"]:
    """mixed = softmax(q kᵀ / √d_k) v     (Vaswani et al. 2017, equation 1)

    mask: True where a query may attend (as in scaled_dot_product_attention; nn.MultiheadAttention means the opposite).
    causal: the last query sees every key, the one before it all but the last, and so on: where t_q ≠ t_k that is not
    scaled_dot_product_attention's is_causal, which aligns the first query with the first key.
    A query that may attend to nothing gets zeros. Fewer kv_heads than heads: neighbouring heads share one.

    PyTorch's own scaled_dot_product_attention does the work. It never shows its scores, so plain=True, and every recording, takes
    the same four steps one by one.
    """
    t_q, t_k = q.shape[-2], k.shape[-2]
    if plain or record.on:
        mask = _both(mask, causal_mask.rule(t_q, t_k, q.device) if causal else None)
        return _plain_attention(q, k, v, mask, record)
    causal = causal and t_q > 1  # a single query, the last one, sees every key
    if causal and (mask is not None or t_q != t_k):
        mask, causal = _both(mask, causal_mask.rule(t_q, t_k, q.device)), False
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def _plain_attention(q, k, v, mask, record):
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    scores = record("scores", q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5)
    weights = record("weights", softmax(scores, None if mask is None else mask.expand_as(scores)))
    return weights @ v


def _check_causal(t_q, t_k, device):
    check_device(device)
    whole("t_q", t_q)
    whole("t_k", t_k)


@checked(_check_causal)
def causal_mask(t_q: int, t_k: int, device=None) -> Bool[Tensor, "t_q t_k"]:
    """mask[i, j] = j ≤ i + t_k − t_q: the last query is aligned with the last key."""
    return torch.ones(t_q, t_k, dtype=torch.bool, device=device).tril(t_k - t_q)


def _both(mask, other):
    return other if mask is None else mask if other is None else mask & other


def _check_multi_head(x, memory, w_q, w_k, w_v, w_o, n_heads, mask, n_kv_heads, positions, b_q, b_k, b_v, b_o, pairing):
    _check_project(x, memory, w_q, w_k, w_v, n_heads, n_kv_heads, positions, b_q, b_k, b_v, pairing)
    check_output_projection(x, w_v, w_o, n_heads, n_kv_heads or n_heads)
    check_biases(dict(w_q=w_q, w_o=w_o), dict(b_q=b_q, b_o=b_o))
    if mask is not None:
        check_mask(mask, (len(x), n_heads, x.shape[1], memory.shape[1]), "the scores")


def _check_project(x, memory, w_q, w_k, w_v, n_heads, n_kv_heads, positions, b_q, b_k, b_v, pairing):
    check_projections(x, memory, w_q, w_k, w_v, n_heads, n_heads if n_kv_heads is None else n_kv_heads)
    check_biases(dict(w_q=w_q, w_k=w_k, w_v=w_v), dict(b_q=b_q, b_k=b_k, b_v=b_v))
    check_choice("pairing", pairing, PAIRINGS)
    if positions is not None:
        check_positions(positions, x)
        check_positions(positions, memory)


def _check_mix(q, k, v, w_o, mask, b_o):
    _check_attention(q, k, v, mask)
    check_product(concat=v.new_empty(0, q.shape[1] * v.shape[3]), w_o=w_o)
    check_biases(dict(w_o=w_o), dict(b_o=b_o))


@checked(_check_multi_head)
def multi_head_attention(
    x: Float[Tensor, "batch t_q d_model"],
    memory: Float[Tensor, "batch t_k d_model"],
    w_q: Float[Tensor, "d_model n_heads*d_k"],
    w_k: Float[Tensor, "d_model n_kv_heads*d_k"],
    w_v: Float[Tensor, "d_model n_kv_heads*d_v"],
    w_o: Float[Tensor, "n_heads*d_v d_model"],
    n_heads: int,
    mask: Bool[Tensor, "#batch #heads #t_q t_k"] | None = None,
    causal: bool = False,
    n_kv_heads: int | None = None,
    positions: Int[Tensor, "t_q"] | Int[Tensor, "batch t_q"] | None = None,
    plain: bool = False,
    record: Record = nothing,
    b_q: Float[Tensor, "n_heads*d_k"] | None = None,
    b_k: Float[Tensor, "n_kv_heads*d_k"] | None = None,
    b_v: Float[Tensor, "n_kv_heads*d_v"] | None = None,
    b_o: Float[Tensor, "d_model"] | None = None,
    pairing: str = "interleaved",
) -> Float[Tensor, "batch t_q d_model"]:
    """y = concat_h(attention(x w_q, memory w_k, memory w_v)) w_o     (Vaswani et al. 2017, section 3.2.2)

    Queries come from x, keys and values from memory; self-attention passes one tensor twice. Heads are blocks of columns of w_q, w_k
    and w_v, from left to right. Each product may add a bias, and then all do. positions rotates queries and keys (rope, by pairing).
    """
    q, k, v = project.rule(x, memory, w_q, w_k, w_v, n_heads, n_kv_heads, positions, record, b_q, b_k, b_v, pairing)
    return mix.rule(q, k, v, w_o, mask, causal, plain, record, b_o)


@checked(_check_project)
def project(
    x: Float[Tensor, "batch t_q d_model"],
    memory: Float[Tensor, "batch t_k d_model"],
    w_q: Float[Tensor, "d_model n_heads*d_k"],
    w_k: Float[Tensor, "d_model n_kv_heads*d_k"],
    w_v: Float[Tensor, "d_model n_kv_heads*d_v"],
    n_heads: int,
    n_kv_heads: int | None = None,
    positions: Int[Tensor, "t_q"] | Int[Tensor, "batch t_q"] | None = None,
    record: Record = nothing,
    b_q: Float[Tensor, "n_heads*d_k"] | None = None,
    b_k: Float[Tensor, "n_kv_heads*d_k"] | None = None,
    b_v: Float[Tensor, "n_kv_heads*d_v"] | None = None,
    pairing: str = "interleaved",
) -> tuple[Tensor, Tensor, Tensor]:
    """q = x w_q, k = memory w_k, v = memory w_v, a head each: the first half of multi_head_attention"""
    n_kv_heads = n_kv_heads or n_heads
    products = (x, w_q, b_q, n_heads), (memory, w_k, b_k, n_kv_heads), (memory, w_v, b_v, n_kv_heads)
    q, k, v = (split_heads.rule(linear(rows, w, b), heads) for rows, w, b, heads in products)
    if positions is not None:
        q, k = (rope(record(f"{name}_unrotated", rows), positions, pairing=pairing) for name, rows in (("q", q), ("k", k)))
    return q, k, v


@checked(_check_mix)
def mix(
    q: Float[Tensor, "batch heads t_q d_k"],
    k: Float[Tensor, "batch kv_heads t_k d_k"],
    v: Float[Tensor, "batch kv_heads t_k d_v"],
    w_o: Float[Tensor, "heads*d_v d_model"],
    mask: Bool[Tensor, "#batch #heads #t_q t_k"] | None = None,
    causal: bool = False,
    plain: bool = False,
    record: Record = nothing,
    b_o: Float[Tensor, "d_model"] | None = None,
) -> Float[Tensor, "batch t_q d_model"]:
    """y = concat_h(attention(q, k, v)) w_o: the second half, where keys and values may have come from a KV cache"""
    mixed = attention.rule(record("q", q), record("k", k), record("v", v), mask, causal, plain, record)
    concat = merge_heads.rule(record("mixed", mixed))
    return record("out", linear(record("concat", concat), w_o, b_o))


@checked(check_split)
def split_heads(x: Float[Tensor, "batch time n_heads*d"], n_heads: int) -> Float[Tensor, "batch n_heads time d"]:
    """Head h is the h-th block of columns."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


@checked()
def merge_heads(x: Float[Tensor, "batch n_heads time d"]) -> Float[Tensor, "batch time n_heads*d"]:
    """The inverse of split_heads."""
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """multi_head_attention with its four matrices, `w_q`, `w_k`, `w_v` and `w_o`, and with bias=True `b_q`, `b_k`, `b_v` and `b_o`.

    `plain` switches between PyTorch's fused attention (False) and the steps one by one (True).
    """

    def __init__(
        self, d_model: int, n_heads: int, d_k: int, d_v: int, n_kv_heads: int | None = None, bias: bool = False, pairing: str = "interleaved"
    ):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.plain, self.pairing = n_heads, n_kv_heads or n_heads, False, pairing
        widths = {"q": self.n_heads * d_k, "k": self.n_kv_heads * d_k, "v": self.n_kv_heads * d_v, "o": d_model}
        for name, d_out in widths.items():
            setattr(self, f"w_{name}", weight(self.n_heads * d_v if name == "o" else d_model, d_out))
            setattr(self, f"b_{name}", zeros(d_out) if bias else None)

    @classmethod
    def of(cls, config: Config) -> "MultiHeadAttention":
        """A model's attention."""
        sizes = config.d_model, config.n_heads, config.d_k, config.d_v, config.n_kv_heads
        return cls(*sizes, "attention" in config.biases, config.pairing)

    def project(self, x: Tensor, memory: Tensor, positions: Tensor | None = None, record: Record = nothing) -> tuple[Tensor, Tensor, Tensor]:
        heads, biases = (self.n_heads, self.n_kv_heads), (self.b_q, self.b_k, self.b_v)
        return project.rule(x, memory, self.w_q, self.w_k, self.w_v, *heads, positions, record, *biases, self.pairing)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, record: Record = nothing) -> Tensor:
        return mix.rule(q, k, v, self.w_o, mask, causal, self.plain, record, self.b_o)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, causal: bool = False, record: Record = nothing) -> Tensor:
        return self.mix(*self.project(x, memory, record=record), mask, causal, record)
