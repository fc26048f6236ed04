"""Token embeddings: one row of a table for each token, scaled."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


def embedding(tokens: Int[Tensor, "batch time"], table: Float[Tensor, "vocab d_model"]) -> Float[Tensor, "batch time d_model"]:
    """y = √d_model · table[tokens]     (Vaswani et al. 2017, section 3.4)"""
    return functional.embedding(tokens, table) * table.shape[1] ** 0.5


def table(vocab: int, d_model: int) -> nn.Parameter:
    """A (vocab, d_model) table, normal with variance 1/d_model, so that a scaled row has entries of size 1."""
    return nn.Parameter(torch.randn(vocab, d_model) * d_model**-0.5)
