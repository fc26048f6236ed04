"""Token embeddings: one row of a table for each token, scaled."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ..doors import whole
from .inputs import check_vocabulary, checked, looks


def _check_embedding(tokens, table):
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"table had shape {tuple(table.shape)}; it must be (vocab, d_model), neither of them 0")
    if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"tokens was {getattr(tokens, 'dtype', type(tokens).__name__)}; it must be a tensor of int32 or int64")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"tokens had shape {tuple(tokens.shape)}; it must be (batch, time), neither of them 0")
    if looks(tokens):
        check_vocabulary("tokens", tokens, len(table))


@checked(_check_embedding)
def embedding(tokens: Int[Tensor, "batch time"], table: Float[Tensor, "vocab d_model"]) -> Float[Tensor, "batch time d_model"]:
    """y = √d_model · table[tokens]     (Vaswani et al. 2017, section 3.4)

    Raises IndexError for a token outside the table; to see that, it looks at the tokens, which waits for the device.
    """
    return functional.embedding(tokens, table) * table.shape[1] ** 0.5


def _check_table(vocab, d_model):
    whole("vocab", vocab)
    whole("d_model", d_model)


@checked(_check_table)
def table(vocab: int, d_model: int) -> nn.Parameter:
    """A (vocab, d_model) table, normal with variance 1/d_model, so that a scaled row has entries of size 1."""
    return nn.Parameter(torch.randn(vocab, d_model) * d_model**-0.5)
