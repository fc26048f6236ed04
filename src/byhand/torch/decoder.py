"""The decoder-only stack, as nn.Modules under the parameter names that every floor shares."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..config import Config
from ..parameters import decoder_shapes, draw
from ..record import Record, nothing
from . import norm
from .attention import MultiHeadAttention
from .embedding import embed, table
from .feed_forward import FeedForward
from .inputs import check_activations, check_lengths, check_tokens, key_mask, plain
from .linear import Linear
from .weights import Weights, numpy_default

(embed,) = plain(embed)


class KVCache(NamedTuple):
    """Keys and values of every block for the tokens read so far, so that the next token need not compute them again.

    Nothing in it is ever changed: reading on gives a longer one. `valid` is False at padding, and None where there is none.
    """

    keys: tuple[Float[Tensor, "batch n_kv_heads time d_k"], ...]  # rotated already, where positions are "rope"
    values: tuple[Float[Tensor, "batch n_kv_heads time d_v"], ...]
    valid: Bool[Tensor, "batch time"] | None
    model: "Decoder"  # which made it: another one's is refused

    @property
    def time(self) -> int:
        """Places filled, padding included."""
        return self.keys[0].shape[2]


class Decoder(Weights):
    """logits = norm(blocks(√d E[tokens])) W + b     (pre-norm as in Radford et al. 2019, or post-norm without the last norm)

    module = Decoder(config).load_params(params)           # a dict of arrays, as byhand.numpy has it
    logits = module(tokens)                                # (batch, time, target_vocab)
    logits, kv_cache = module.read(prompt)                 # the same, and what the next call can go on from
    logits, kv_cache = module.read(next_token, kv_cache)

    It starts from the same values as the NumPy floor's decoder.init(config, seed), in PyTorch's default dtype.
    """

    def __init__(self, config: Config, seed: int = 0):
        super().__init__()
        self.config = config
        self.embedding = table(config.target_vocab, config.d_model)
        self.positions = table(config.max_length, config.d_model) if config.positions == "learned" else None
        self.block = nn.ModuleList(BLOCKS[config.norm](config) for _ in range(config.n_layers))
        self.norm = norm.make(config) if config.norm_position.last else None
        self.output = Linear(config.d_model, config.target_vocab, config.tied, "output" in config.biases)
        self.load_params(draw(decoder_shapes(config), seed, numpy_default()))

    def forward(
        self,
        tokens: Int[Tensor, "batch time"],
        kv_cache: KVCache | None = None,
        lengths: Int[Tensor, "batch"] | None = None,
        activations: dict[str, Tensor] | None = None,
        look: bool = True,
    ) -> Float[Tensor, "batch time target_vocab"]:
        """logits[b, t, c]: how strongly class c is expected after tokens[b, :t+1] and whatever kv_cache holds before them"""
        return self.read(tokens, kv_cache, lengths, activations, look)[0]

    def read(
        self,
        tokens: Int[Tensor, "batch time"],
        kv_cache: KVCache | None = None,
        lengths: Int[Tensor, "batch"] | None = None,
        activations: dict[str, Tensor] | None = None,
        look: bool = True,
    ) -> tuple[Float[Tensor, "batch time target_vocab"], KVCache]:
        """The logits of these tokens, and the KV cache with them in it.

        kv_cache, from an earlier call, stands for the tokens before these. Positions at or beyond a sequence's length are padding: nothing
        attends to them, and the next call's tokens go on where the length ended. A dict given as `activations` is filled with every
        intermediate tensor under its dotted name (attention and norm then go step by step).

        look=False takes the tokens' and the lengths' values as they are: once they are on the device, nothing waits for it. The look is left
        out on the meta device and while a compiler traces.

        Raises IndexError for a token outside the vocabulary, ValueError for anything else that cannot be meant.
        """
        check_activations(activations)
        config, record = self.config, nothing if activations is None else Record(activations)
        tokens = check_tokens("tokens", tokens, config.target_vocab, config.max_length, self.embedding.device, look)
        if kv_cache is not None:
            _check_kv_cache(kv_cache, self, tokens)
        valid = _valid(tokens, lengths, kv_cache, look)
        mask = None if valid is None else valid[:, None, None, :]
        positions = _positions(tokens, kv_cache)

        x = embed(tokens, positions, self.embedding, self.positions, config, record)
        keys, values = [], []
        for i, block in enumerate(self.block):
            past = None if kv_cache is None else (kv_cache.keys[i], kv_cache.values[i])
            x, k, v = block(x, mask, positions if config.positions == "rope" else None, past, record.inside(f"block.{i}"))
            keys.append(k)
            values.append(v)
        if self.norm is not None:
            x = self.norm(x, record.inside("norm"))
        w = self.embedding.T if config.tied else None
        logits = record("logits", self.output(record("out", x), w))
        return logits, KVCache(tuple(keys), tuple(values), valid, self)


class Block(nn.Module):
    """Attention and a feed-forward network, each with its norm and its residual path."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm_1 = norm.make(config)
        self.attention = MultiHeadAttention.of(config)
        self.norm_2 = norm.make(config)
        self.feed_forward = FeedForward.of(config)

    def attend(self, x, mask, positions, past, record: Record) -> tuple[Tensor, Tensor, Tensor]:
        """Causal self-attention over the past and x; gives back the keys and values of both as well."""
        record = record.inside("attention")
        q, k, v = self.attention.project(x, x, positions, record)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.attention.mix(q, k, v, mask, causal=True, record=record), k, v


class PreNormBlock(Block):
    """u = x + attention(norm_1(x)), y = u + feed_forward(norm_2(u))"""

    def forward(self, x: Float[Tensor, "batch time d_model"], mask=None, positions=None, past=None, record: Record = nothing):
        attended, k, v = self.attend(self.norm_1(x, record.inside("norm_1")), mask, positions, past, record)
        x = record("residual_1", x + attended)
        x = record("residual_2", x + self.feed_forward(self.norm_2(x, record.inside("norm_2")), record.inside("feed_forward")))
        return x, k, v


class PostNormBlock(Block):
    """u = norm_1(x + attention(x)), y = norm_2(u + feed_forward(u))"""

    def forward(self, x: Float[Tensor, "batch time d_model"], mask=None, positions=None, past=None, record: Record = nothing):
        attended, k, v = self.attend(x, mask, positions, past, record)
        x = self.norm_1(record("residual_1", x + attended), record.inside("norm_1"))
        x = self.norm_2(record("residual_2", x + self.feed_forward(x, record.inside("feed_forward"))), record.inside("norm_2"))
        return x, k, v


BLOCKS = {"pre": PreNormBlock, "post": PostNormBlock}


def _positions(tokens, kv_cache):
    """Where these tokens stand in their sequences: one row for all, or one a sequence where the past was padded."""
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    if kv_cache is None:
        return steps
    return steps + (kv_cache.time if kv_cache.valid is None else kv_cache.valid.sum(1, keepdim=True))


def _valid(tokens, lengths, kv_cache, look):
    """True at every token read so far, these included, that is not padding; None where none is."""
    past = None if kv_cache is None else kv_cache.valid
    if lengths is None and past is None:
        return None
    if lengths is None:
        new = torch.ones_like(tokens, dtype=torch.bool)
    else:
        new = key_mask(check_lengths("lengths", lengths, tokens, look), tokens.shape[1])
    if kv_cache is None:
        return new
    if past is None:
        past = torch.ones(len(tokens), kv_cache.time, dtype=torch.bool, device=tokens.device)
    return torch.cat([past, new], dim=1)


def _check_kv_cache(kv_cache, model, tokens):
    if not isinstance(kv_cache, KVCache):
        raise ValueError(f"kv_cache was {type(kv_cache).__name__}; it must be None or the KVCache that an earlier read returned")
    config = model.config
    batch, time = tokens.shape
    total = kv_cache.time + time
    if config.max_length is not None and total > config.max_length:
        raise ValueError(f"tokens had {time} positions after the {kv_cache.time} in kv_cache; max_length allows {config.max_length} together")
    if len(kv_cache.keys) != config.n_layers:
        raise ValueError(f"kv_cache had {len(kv_cache.keys)} layers; this model has {config.n_layers}")
    for name, tensor, width in (("keys", kv_cache.keys[0], config.d_k), ("values", kv_cache.values[0], config.d_v)):
        shape = (batch, config.n_kv_heads, kv_cache.time, width)
        if tensor.shape != shape:
            raise ValueError(f"kv_cache held {name} of shape {tuple(tensor.shape)}; it must be {shape}, for this batch and model")
    if kv_cache.model is not model:
        raise ValueError("kv_cache was made by another model; read the tokens again with this one")
