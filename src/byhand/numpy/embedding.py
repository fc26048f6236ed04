"""Embedding: a token picks its row of the table, scaled by √d_model; so does a position whose row is learned, unscaled."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .checks import check_tokens, checked, upstream

Array = np.ndarray


class EmbeddingCache(NamedTuple):
    tokens: Int[Array, "batch time"]
    table_shape: tuple[int, int]
    scaled: bool = True


def _check_embedding(tokens, table):
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"table had shape {table.shape}; it must be (vocab, d_model), neither of them 0")
    check_tokens("tokens", tokens, len(table))


@checked(_check_embedding)
def embedding(
    tokens: Int[Array, "batch time"], table: Float[Array, "vocab d_model"],
    scaled: bool = True,
) -> tuple[Float[Array, "batch time d_model"], EmbeddingCache]:
    """y[b, t] = √d_model · table[tokens[b, t]];  without √d_model where scaled is False

    Raises ValueError for tokens that are not whole numbers and a table that is not
    finite, IndexError for a token outside it.
    Source: Vaswani et al. 2017, section 3.4.
    """
    y = table[tokens]
    if scaled:
        y *= math.sqrt(table.shape[1])
    return y, EmbeddingCache(tokens, table.shape, scaled)


@upstream(lambda cache: (*cache.tokens.shape, cache.table_shape[1]))
def embedding_backward(
    dy: Float[Array, "batch time d_model"], cache: EmbeddingCache
) -> tuple[None, dict]:
    """dtable[v] = √d_model · Σ_{(b, t): tokens[b, t] = v} dy[b, t]

    A token that stands twice adds both its gradients; a row never looked up gets 0.
    Tokens have no gradient.
    Returns None, {"table"}.
    """
    tokens, (vocab, d_model), scaled = cache
    dtable = np.zeros(vocab * d_model, dy.dtype)
    entries = tokens[..., None] * d_model + np.arange(d_model)
    # dtable[entries] += dy would add a token that stands twice only once
    np.add.at(dtable, entries.ravel(), dy.ravel())
    if scaled:
        dtable *= math.sqrt(d_model)
    return None, {"table": dtable.reshape(vocab, d_model)}
