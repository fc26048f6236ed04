"""Token embeddings: one row of a table for each token, scaled."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config
from ..doors import whole
from ..record import Record, nothing
from ..shapes import check_learned
from .inputs import check_vocabulary, checked, integers, looks, plain
from .position import check_positions, sinusoids

(sinusoids,) = plain(sinusoids)


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
def embedding(tokens: Int[Tensor, "batch time"], table: Float[Tensor, "vocab d_model"], scaled: bool = True) -> Float[Tensor, "batch time d_model"]:
    """y = √d_model · table[tokens]     (Vaswani et al. 2017, section 3.4);  without √d_model where scaled is False

    Raises IndexError for a token outside the table; to see that, it looks at the tokens, which waits for the device.
    """
    y = functional.embedding(tokens, table)
    return y * table.shape[1] ** 0.5 if scaled else y


def _check_embed(tokens, positions, table, learned, config):
    _check_embedding(tokens, table)
    if table.shape[1] != config.d_model:
        raise ValueError(f"table had shape {tuple(table.shape)}; it must be (vocab, {config.d_model})")
    check_positions(positions, tokens[..., None])
    last = integers("positions", positions).max()
    check_learned(learned, config, last if looks(last) else None)


@checked(_check_embed)
def embed(
    tokens: Int[Tensor, "batch time"],
    positions: Int[Tensor, "time"] | Int[Tensor, "batch time"],
    table: Float[Tensor, "vocab d_model"],
    learned: Float[Tensor, "max_length d_model"] | None,
    config: Config,
    record: Record = nothing,
) -> Float[Tensor, "batch time d_model"]:
    """x = √d E[tokens] + P[positions];  P: sinusoids, or the table of those that are learned, where the model has either"""
    x = record("embedded", embedding.rule(tokens, table, config.scaled))
    if config.positions == "sinusoidal":
        x = x + record("positions", sinusoids(positions, config.d_model, x.dtype, config.pairing))
    if config.positions == "learned":
        x = x + record("positions", functional.embedding(torch.as_tensor(positions, dtype=torch.int64, device=tokens.device), learned))
    return record("input", x)


def _check_table(vocab, d_model):
    whole("vocab", vocab)
    whole("d_model", d_model)


@checked(_check_table)
def table(vocab: int, d_model: int) -> nn.Parameter:
    """A (vocab, d_model) table, normal with variance 1/d_model, so that a scaled row has entries of size 1."""
    return nn.Parameter(torch.randn(vocab, d_model) * d_model**-0.5)
