"""Embedding: a token picks its row of the table, scaled by √d_model."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .finite import check_finite

Array = np.ndarray


class EmbeddingCache(NamedTuple):
    tokens: Int[Array, "batch time"]
    table_shape: tuple[int, int]


def check_tokens(name: str, tokens: Int[Array, "batch time"], vocab: int) -> None:
    """Raise unless tokens is a filled (batch, time) array of whole numbers in [0, vocab)."""
    if not isinstance(tokens, np.ndarray) or tokens.dtype.kind not in "iu":
        kind = tokens.dtype if isinstance(tokens, np.ndarray) else type(tokens).__name__
        raise ValueError(f"{name} was {kind}; it must be a NumPy array of integers")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"{name} had shape {tokens.shape}; it must be (batch, time), neither of them 0")
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocab:
        raise IndexError(f"{name} held the token {low if low < 0 else high}; it must lie in [0, {vocab})")


def embedding(
    tokens: Int[Array, "batch time"], table: Float[Array, "vocab d_model"]
) -> tuple[Float[Array, "batch time d_model"], EmbeddingCache]:
    """y[b, t] = √d_model · table[tokens[b, t]]

    Raises ValueError for tokens that are not whole numbers and a table that is not finite, IndexError for a token outside it.
    Source: Vaswani et al. 2017, section 3.4.
    """
    check_tokens("tokens", tokens, len(table))
    check_finite(table=table)
    return table[tokens] * math.sqrt(table.shape[1]), EmbeddingCache(tokens, table.shape)


def embedding_backward(dy: Float[Array, "batch time d_model"], cache: EmbeddingCache) -> tuple[None, dict]:
    """dtable[v] = √d_model · Σ_{(b, t): tokens[b, t] = v} dy[b, t]

    A token that stands twice adds both its gradients; a row never looked up gets 0. Tokens have no gradient.
    Returns None, {"table"}.
    """
    tokens, (vocab, d_model) = cache
    dtable = np.zeros((vocab, d_model), dy.dtype)
    np.add.at(dtable, tokens, dy)  # unlike dtable[tokens] += dy, this adds for every repetition
    return None, {"table": dtable * math.sqrt(d_model)}
