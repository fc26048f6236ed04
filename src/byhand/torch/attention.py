"""Attention: softmax(Q Kᵀ / √d_k) V, one head or many."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from .linear import weight
from .position import rope
from .record import Record, nothing
from .softmax import softmax


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
        mask = _both(mask, causal_mask(t_q, t_k, q.device) if causal else None)
        return _plain_attention(q, k, v, mask, record)
    if causal and (mask is not None or t_q != t_k):
        mask, causal = _both(mask, causal_mask(t_q, t_k, q.device)), False
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def _plain_attention(q, k, v, mask, record):
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    scores = record("scores", q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5)
    weights = record("weights", softmax(scores, None if mask is None else mask.expand_as(scores)))
    return weights @ v


def causal_mask(t_q: int, t_k: int, device=None) -> Bool[Tensor, "t_q t_k"]:
    """mask[i, j] = j ≤ i + t_k − t_q: the last query is aligned with the last key."""
    return torch.ones(t_q, t_k, dtype=torch.bool, device=device).tril(t_k - t_q)


def _both(mask, other):
    return other if mask is None else mask if other is None else mask & other


class MultiHeadAttention(nn.Module):
    """concat(head_1, …, head_h) W_O, head_i = attention(x W_Q,i, memory W_K,i, memory W_V,i)     (Vaswani et al. 2017, section 3.2.2)

    Parameters, without biases; heads are blocks of columns, from left to right:
    `w_q` (d_model, n_heads·d_k), `w_k` (d_model, n_kv_heads·d_k), `w_v` (d_model, n_kv_heads·d_v), `w_o` (n_heads·d_v, d_model).
    `plain` switches between PyTorch's fused attention and the steps one by one.
    """

    def __init__(self, d_model: int, n_heads: int, d_k: int, d_v: int, n_kv_heads: int | None = None, rotate: bool = False):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.rotate, self.plain = n_heads, n_kv_heads or n_heads, rotate, False
        self.w_q = weight(d_model, self.n_heads * d_k)
        self.w_k = weight(d_model, self.n_kv_heads * d_k)
        self.w_v = weight(d_model, self.n_kv_heads * d_v)
        self.w_o = weight(self.n_heads * d_v, d_model)

    def forward(
        self,
        x: Float[Tensor, "batch t_q d_model"],
        memory: Float[Tensor, "batch t_k d_model"],
        mask: Bool[Tensor, "#batch #heads #t_q t_k"] | None = None,
        causal: bool = False,
        record: Record = nothing,
    ) -> Float[Tensor, "batch t_q d_model"]:
        q = split_heads(x @ self.w_q, self.n_heads)
        k = split_heads(memory @ self.w_k, self.n_kv_heads)
        v = record("v", split_heads(memory @ self.w_v, self.n_kv_heads))
        if self.rotate:
            q, k = rope(q), rope(k)
        q, k = record("q", q), record("k", k)
        mixed = record("mixed", attention(q, k, v, mask, causal, self.plain, record))
        concat = record("concat", join_heads(mixed))
        return record("out", concat @ self.w_o)


def split_heads(x: Float[Tensor, "batch time width"], n_heads: int) -> Float[Tensor, "batch heads time d_head"]:
    """Column block i of the width becomes head i."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def join_heads(x: Float[Tensor, "batch heads time d_head"]) -> Float[Tensor, "batch time width"]:
    """The heads side by side again."""
    return x.transpose(1, 2).flatten(2)
