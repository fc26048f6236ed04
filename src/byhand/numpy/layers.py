"""The layers that both models are made of: attention and a feed-forward network, each with its norm and its residual path."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..config import Config
from ..parameters import ATTENTION
from ..record import Record, nothing
from .attention import MultiHeadCache, multi_head_attention, multi_head_attention_backward
from .checks import plain
from .embedding import EmbeddingCache, embedding
from .feed_forward import FeedForwardCache, feed_forward, feed_forward_backward
from .linear import LinearCache, linear
from .norm import NORMS, LayerNormCache, RmsNormCache, norm_backward
from .position import first_sinusoids, sinusoids

Array = np.ndarray
Arrays = dict[str, Array]
Rows = Float[Array, "batch time d_model"]
NormCache = LayerNormCache | RmsNormCache
Mask = Bool[Array, "batch 1 1 t_k"]
Positions = Int[Array, "time"] | Int[Array, "batch time"]
Past = tuple[Float[Array, "batch kv_heads t_past d_k"], Float[Array, "batch kv_heads t_past d_v"]]

multi_head_attention, feed_forward, embedding, linear = plain(multi_head_attention, feed_forward, embedding, linear)


class Rooms(NamedTuple):
    """The operations of one layer, each with its parameters looked up and its stages recorded under the layer's name.

    attention is the name of the room in which the layer attends to its own input.
    """

    params: Arrays
    config: Config
    layer: str
    record: Record = nothing  # already inside the layer
    attention: str = "attention"

    def attend(self, x, memory, mask=None, causal=False, positions=None, past=None, name=None) -> tuple[Rows, MultiHeadCache]:
        name, config = name or self.attention, self.config
        weights = [self.params[f"{self.layer}.{name}.{w}"] for w in ATTENTION]
        how = config.n_heads, mask, causal, config.n_kv_heads, positions, past
        return multi_head_attention(x, memory, *weights, *how, self.record.inside(name))

    def norm(self, name: str, x: Rows) -> tuple[Rows, NormCache]:
        return norm(x, self.params, f"{self.layer}.{name}", self.config, self.record.inside(name))

    def feed_forward(self, x: Rows) -> tuple[Rows, FeedForwardCache]:
        params, name = self.params, f"{self.layer}.feed_forward"
        weights = [params[f"{name}.{w}"] for w in ("w_1", "b_1", "w_2", "b_2")]
        return feed_forward(x, *weights, self.config.activation, params.get(f"{name}.w_3"), self.record.inside("feed_forward"))


class Back:
    """The same operations on the way back: each takes the gradient at its output and its cache, and leaves its parameters' in `grads`."""

    def __init__(self, record: Record):
        self.record, self.grads = record, {}

    def attend(self, name: str, dy: Rows, cache: MultiHeadCache) -> tuple[Rows, Rows, Rows]:
        """By queries, keys and values."""
        ways, self.grads[name] = multi_head_attention_backward(dy, cache, self.record.inside(name))
        return ways

    def norm(self, name: str, dy: Rows, cache: NormCache) -> Rows:
        dx, self.grads[name] = norm_backward(dy, cache)
        return dx

    def feed_forward(self, dy: Rows, cache: FeedForwardCache) -> tuple[Rows, dict[str, Rows]]:
        """And the ways that it is the sum of, by name."""
        inside = self.record.inside("feed_forward")
        dx, self.grads["feed_forward"], ways = feed_forward_backward(dy, cache, inside)
        return dx, ways


def norm(x: Rows, params: Arrays, name: str, config: Config, record: Record) -> tuple[Rows, NormCache]:
    """Layer norm or RMS norm, as config.norm_kind says; norm.norm_backward goes back through either."""
    operation, gains = NORMS[config.norm_kind]
    return operation.rule(x, *(params[f"{name}.{gain}"] for gain in gains), config.eps, record)


# ---- one block of a stack, or one encoder layer -------------------------------------------------


class BlockCache(NamedTuple):
    attention: MultiHeadCache
    norm_1: NormCache
    feed_forward: FeedForwardCache
    norm_2: NormCache


def post_norm_block(
    x: Rows, rooms: Rooms, mask: Mask | None = None, causal: bool = True,
    positions: Positions | None = None, past: Past | None = None,
) -> tuple[Rows, BlockCache]:
    """u = norm₁(x + attention(x, x)),  y = norm₂(u + FFN(u))

    The encoder's layer, with causal=False. Source: Vaswani et al. 2017, figure 1.
    """
    attended, attention = rooms.attend(x, x, mask, causal, positions, past)
    u, norm_1 = rooms.norm("norm_1", rooms.record("residual_1", x + attended))
    transformed, feed_forward = rooms.feed_forward(u)
    y, norm_2 = rooms.norm("norm_2", rooms.record("residual_2", u + transformed))
    return y, BlockCache(attention, norm_1, feed_forward, norm_2)


def post_norm_block_backward(
    dy: Rows, cache: BlockCache, record: Record = nothing, name: str = "attention"
) -> tuple[Rows, dict[str, Arrays]]:
    """dr₂ = norm₂(dy),  du = dr₂ + FFN(dr₂);  dr₁ = norm₁(du),  dx = dr₁ + attn(dr₁)

    Each name stands for the way back through it. Returns dx and the parameters'
    gradients by room; name is the attention's room.
    """
    back = Back(record)
    # norm₂(u + FFN(u)): u was used twice
    dr_2 = back.norm("norm_2", record("norm_2.out", dy), cache.norm_2)
    dffn, ways = back.feed_forward(record("residual_2", dr_2), cache.feed_forward)
    record.via("norm_1.out", residual=dr_2, **ways)
    du = record("norm_1.out", dr_2 + dffn)

    # norm₁(x + attention(x, x)): x was used four times
    dr_1 = record("residual_1", back.norm("norm_1", du, cache.norm_1))
    dquery, dkey, dvalue = back.attend(name, dr_1, cache.attention)
    record.via("input", residual=dr_1, query=dquery, key=dkey, value=dvalue)
    dx = record("input", dr_1 + dquery + dkey + dvalue)
    return dx, back.grads


def pre_norm_block(
    x: Rows, rooms: Rooms, mask: Mask | None = None, causal: bool = True,
    positions: Positions | None = None, past: Past | None = None,
) -> tuple[Rows, BlockCache]:
    """u = x + attention(n, n), n = norm₁(x);  y = u + FFN(norm₂(u))

    The norms stand inside the branches, so x reaches y through additions alone.
    Sources: Radford et al. 2019; Xiong et al. 2020 for where the norm stands.
    """
    n, norm_1 = rooms.norm("norm_1", x)
    attended, attention = rooms.attend(n, n, mask, causal, positions, past)
    u = rooms.record("residual_1", x + attended)
    normed, norm_2 = rooms.norm("norm_2", u)
    transformed, feed_forward = rooms.feed_forward(normed)
    y = rooms.record("residual_2", u + transformed)
    return y, BlockCache(attention, norm_1, feed_forward, norm_2)


def pre_norm_block_backward(
    dy: Rows, cache: BlockCache, record: Record = nothing, name: str = "attention"
) -> tuple[Rows, dict[str, Arrays]]:
    """du = dy + norm₂(FFN(dy)),  dx = du + norm₁(attn(du))

    Each name stands for the way back through it. Returns dx and the parameters'
    gradients by room; name is the attention's room.
    """
    back = Back(record)
    # u + FFN(norm₂(u)): u was used twice
    dffn, ways = back.feed_forward(record("residual_2", dy), cache.feed_forward)
    record.via("norm_2.out", **ways)
    dnorm = back.norm("norm_2", record("norm_2.out", dffn), cache.norm_2)
    record.via("residual_1", residual=dy, norm=dnorm)
    du = record("residual_1", dy + dnorm)

    # x + attention(n, n), n = norm₁(x): x was used twice, n three times
    dquery, dkey, dvalue = back.attend(name, du, cache.attention)
    record.via("norm_1.out", query=dquery, key=dkey, value=dvalue)
    dn = record("norm_1.out", dquery + dkey + dvalue)
    dnorm = back.norm("norm_1", dn, cache.norm_1)
    record.via("input", residual=du, norm=dnorm)
    dx = record("input", du + dnorm)
    return dx, back.grads


BLOCKS = {"post": (post_norm_block, post_norm_block_backward), "pre": (pre_norm_block, pre_norm_block_backward)}


# ---- one decoder layer of the encoder-decoder ---------------------------------------------------


class DecoderLayerCache(NamedTuple):
    self_attention: MultiHeadCache
    norm_1: NormCache
    cross_attention: MultiHeadCache
    norm_2: NormCache
    feed_forward: FeedForwardCache
    norm_3: NormCache


def decoder_layer(
    x: Rows, memory: Float[Array, "batch t_source d_model"], rooms: Rooms,
    mask: Mask | None = None, memory_mask: Mask | None = None,
) -> tuple[Rows, DecoderLayerCache]:
    """n = LN₁(x + causal(x, x)),  c = LN₂(n + cross(n, memory)),  y = LN₃(c + FFN(c))

    Source: Vaswani et al. 2017, figure 1.
    """
    attended, own = rooms.attend(x, x, mask, causal=True)
    n, norm_1 = rooms.norm("norm_1", rooms.record("residual_1", x + attended))
    read, cross = rooms.attend(n, memory, memory_mask, name="cross_attention")
    c, norm_2 = rooms.norm("norm_2", rooms.record("residual_2", n + read))
    transformed, feed_forward = rooms.feed_forward(c)
    y, norm_3 = rooms.norm("norm_3", rooms.record("residual_3", c + transformed))
    return y, DecoderLayerCache(own, norm_1, cross, norm_2, feed_forward, norm_3)


def decoder_layer_backward(
    dy: Rows, cache: DecoderLayerCache, record: Record = nothing
) -> tuple[Rows, Float[Array, "batch t_source d_model"], dict[str, Arrays]]:
    """dc = dr₃ + FFN(dr₃),  dn = dr₂ + cross(dr₂),  dx = dr₁ + causal(dr₁)

    with dr₃ = LN₃(dy), dr₂ = LN₂(dc), dr₁ = LN₁(dn).  dmemory is what cross sends
    there. Each name stands for the way back through it. Returns dx, dmemory and the
    parameters' gradients by room.
    """
    back = Back(record)
    # LN₃(c + FFN(c)): c was used twice
    dr_3 = back.norm("norm_3", record("norm_3.out", dy), cache.norm_3)
    dffn, ways = back.feed_forward(record("residual_3", dr_3), cache.feed_forward)
    record.via("norm_2.out", residual=dr_3, **ways)
    dc = record("norm_2.out", dr_3 + dffn)

    # LN₂(n + cross(n, memory)): n was used twice, and the memory twice
    dr_2 = record("residual_2", back.norm("norm_2", dc, cache.norm_2))
    dquery, dkey, dvalue = back.attend("cross_attention", dr_2, cache.cross_attention)
    record.via("memory", key=dkey, value=dvalue)
    dmemory = dkey + dvalue
    record.via("norm_1.out", residual=dr_2, query=dquery)
    dn = record("norm_1.out", dr_2 + dquery)

    # LN₁(x + causal(x, x)): x was used four times
    dr_1 = record("residual_1", back.norm("norm_1", dn, cache.norm_1))
    dquery, dkey, dvalue = back.attend("self_attention", dr_1, cache.self_attention)
    record.via("input", residual=dr_1, query=dquery, key=dkey, value=dvalue)
    dx = record("input", dr_1 + dquery + dkey + dvalue)
    return dx, dmemory, back.grads


# ---- the two ends of a model --------------------------------------------------------------------


def embed(tokens: Int[Array, "batch time"], table: Array, config: Config, record: Record, positions: Positions | None = None) -> tuple[Rows, EmbeddingCache]:
    """x = √d E[tokens], and the sinusoids of these positions, or of the first ones, added where the model has them"""
    x, cache = embedding(tokens, table)
    record("embedded", x)
    if config.positions == "sinusoidal":  # a constant is added: the gradient passes unchanged
        if positions is None:
            waves = first_sinusoids(tokens.shape[1], config.d_model, x.dtype)
        else:
            waves = sinusoids(positions, config.d_model).astype(x.dtype)
        x = x + record("positions", waves)
    return record("input", x), cache


def logits_of(x: Rows, params: Arrays, table: str, config: Config, record: Record) -> tuple[Float[Array, "batch time vocab"], LinearCache]:
    """z = x W + b; with tied weights W is the table, transposed"""
    logits, cache = linear(x, params[table].T if config.tied else params["output.w"], params["output.b"])
    return record("logits", logits), cache


def flat(layer: str, rooms: dict[str, Arrays]) -> Arrays:
    """A layer's gradients under their dotted names."""
    return {f"{layer}.{room}.{name}": grad for room, grads in rooms.items() for name, grad in grads.items()}
