"""The layers that both models are made of: attention and a feed-forward network, each with its norm and its residual path."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..config import Config
from ..parameters import ATTENTION, ATTENTION_BIASES, attention_shapes, feed_forward_shapes, norm_shapes, output_shapes
from ..record import Record, nothing
from ..shapes import check_learned
from .attention import MultiHeadCache, check_past, multi_head_attention, multi_head_attention_backward
from .checks import check_finite, check_mask, check_tokens, checked, described, plain, upstream
from .embedding import EmbeddingCache, embedding, embedding_backward
from .feed_forward import FeedForwardCache, feed_forward, feed_forward_backward
from .linear import LinearCache, linear
from .norm import NORMS, LayerNormCache, RmsNormCache, norm_backward
from .position import check_positions, sinusoids

Array = np.ndarray
Arrays = dict[str, Array]
Rows = Float[Array, "batch time d_model"]
NormCache = LayerNormCache | RmsNormCache
Mask = Bool[Array, "batch 1 1 t_k"]
Positions = Int[Array, "time"] | Int[Array, "batch time"]
Past = tuple[Float[Array, "batch kv_heads t_past d_k"], Float[Array, "batch kv_heads t_past d_v"]]

multi_head_attention, multi_head_attention_backward = plain(multi_head_attention, multi_head_attention_backward)
feed_forward, feed_forward_backward, norm_backward = plain(feed_forward, feed_forward_backward, norm_backward)
embedding, embedding_backward, linear, sinusoids = plain(embedding, embedding_backward, linear, sinusoids)


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
        biases = [self.params.get(f"{self.layer}.{name}.{b}") for b in ATTENTION_BIASES]
        how = config.n_heads, mask, causal, config.n_kv_heads, positions, past
        return multi_head_attention(x, memory, *weights, *how, self.record.inside(name), *biases, config.pairing)

    def norm(self, name: str, x: Rows) -> tuple[Rows, NormCache]:
        return norm.rule(x, self.params, f"{self.layer}.{name}", self.config, self.record.inside(name))

    def feed_forward(self, x: Rows) -> tuple[Rows, FeedForwardCache]:
        params, name = self.params, f"{self.layer}.feed_forward"
        weights = [params.get(f"{name}.{w}") for w in ("w_1", "b_1", "w_2", "b_2")]
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


def _check_norm(x, params, name, config):
    _check_rows("x", x, config)
    _check_params(params, {f"{name}.{gain}": shape for gain, shape in norm_shapes(config).items()}, x.dtype)


def _check_rows(name, x, config):
    if x.ndim != 3 or x.shape[2] != config.d_model:
        raise ValueError(f"{name} had shape {x.shape}; it must be (batch, time, {config.d_model})")


def _check_params(params, shapes, dtype):
    for name, shape in shapes.items():
        value = params.get(name)
        if not isinstance(value, np.ndarray) or value.shape != shape:
            raise ValueError(f"parameter {name!r} was {described(value)}; it must be an array of shape {shape}")
        if value.dtype != dtype:
            raise ValueError(f"x had dtype {dtype} and parameter {name!r} {value.dtype}; all arrays of one call must share one")
        check_finite(**{f"parameter {name!r}": value})


@checked(_check_norm)
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


def _check_block(x, rooms, mask, positions, past):
    _check_rooms(x, rooms, rooms.attention)
    config, time = rooms.config, x.shape[1]
    if positions is not None:
        check_positions(positions, x)
    if past is not None:
        time += check_past(past, [(len(x), config.n_kv_heads, width) for width in (config.d_k, config.d_v)], x.dtype)
    if mask is not None:
        check_mask(mask, (len(x), config.n_heads, x.shape[1], time), "the scores")


def _check_rooms(x, rooms, *attentions):
    """Raise ValueError unless x has rows of the model's width, and rooms has the layer's parameters."""
    config = rooms.config
    _check_rows("x", x, config)
    shapes = {name: attention_shapes(config) for name in attentions} | {"feed_forward": feed_forward_shapes(config)}
    shapes |= {f"norm_{i}": norm_shapes(config) for i in range(1, len(attentions) + 2)}
    flat_shapes = {f"{rooms.layer}.{room}.{name}": shape for room, named in shapes.items() for name, shape in named.items()}
    _check_params(rooms.params, flat_shapes, x.dtype)


@checked(_check_block)
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


@upstream(lambda cache: cache.norm_2.normalised.shape)
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


@checked(_check_block)
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


@upstream(lambda cache: cache.norm_1.normalised.shape)
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


BLOCKS = {"post": plain(post_norm_block, post_norm_block_backward), "pre": plain(pre_norm_block, pre_norm_block_backward)}


# ---- one decoder layer of the encoder-decoder ---------------------------------------------------


class DecoderLayerCache(NamedTuple):
    self_attention: MultiHeadCache
    norm_1: NormCache
    cross_attention: MultiHeadCache
    norm_2: NormCache
    feed_forward: FeedForwardCache
    norm_3: NormCache


def _check_decoder_layer(x, memory, rooms, mask, memory_mask):
    _check_rooms(x, rooms, "self_attention", "cross_attention")
    _check_rows("memory", memory, rooms.config)
    if len(memory) != len(x):
        raise ValueError(f"memory had {len(memory)} sequences; it must have x's, {len(x)}")
    for name, given, keys in (("mask", mask, x), ("memory_mask", memory_mask, memory)):
        if given is not None:
            check_mask(given, (len(x), rooms.config.n_heads, x.shape[1], keys.shape[1]), "the scores", name)


@checked(_check_decoder_layer)
def decoder_layer(
    x: Rows, memory: Float[Array, "batch t_source d_model"], rooms: Rooms,
    mask: Mask | None = None,
    memory_mask: Bool[Array, "batch 1 1 t_source"] | None = None,
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


@upstream(lambda cache: cache.norm_3.normalised.shape)
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


@lru_cache
def _first_sinusoids(length: int, d_model: int, pairing: str, dtype: np.dtype) -> Float[Array, "length d_model"]:
    """sinusoidal in this dtype, worked out once and read-only, as a training step needs it again and again."""
    table = sinusoids(np.arange(length), d_model, pairing).astype(dtype)
    table.flags.writeable = False
    return table


class EmbedCache(NamedTuple):
    tokens: EmbeddingCache
    positions: EmbeddingCache | None = None  # where they are learned


def _check_embed(tokens, table, config, positions, learned):
    if table.ndim != 2 or table.shape[1] != config.d_model:
        raise ValueError(f"table had shape {table.shape}; it must be (vocab, {config.d_model})")
    check_tokens("tokens", tokens, len(table))
    if positions is not None:
        check_positions(positions, tokens[..., None])
    check_learned(learned, config, tokens.shape[1] - 1 if positions is None else np.asarray(positions).max())


@checked(_check_embed)
def embed(
    tokens: Int[Array, "batch time"], table: Float[Array, "vocab d_model"], config: Config, record: Record, positions: Positions | None = None,
    learned: Float[Array, "max_length d_model"] | None = None,
) -> tuple[Rows, EmbedCache]:
    """x = √d E[tokens] + P[positions];  P: sinusoids, or the table of those that are learned, where the model has either

    Without positions they are 0, 1, 2, …
    """
    x, looked_up = embedding(tokens, table, config.scaled)
    record("embedded", x)
    rows = places = None
    if config.positions == "learned":
        positions = np.arange(tokens.shape[1]) if positions is None else np.asarray(positions)
        rows, places = embedding(np.atleast_2d(positions), learned, False)
        rows = rows.reshape(*positions.shape, config.d_model)
    elif config.positions == "sinusoidal" and positions is None:  # a constant is added: the gradient passes unchanged
        rows = _first_sinusoids(tokens.shape[1], config.d_model, config.pairing, x.dtype)
    elif config.positions == "sinusoidal":
        rows = sinusoids(positions, config.d_model, config.pairing).astype(x.dtype)
    x = x if rows is None else x + record("positions", rows)
    return record("input", x), EmbedCache(looked_up, places)


@upstream(lambda cache: (*cache.tokens.tokens.shape, cache.tokens.table_shape[1]))
def embed_backward(dy: Rows, cache: EmbedCache) -> tuple[None, Arrays]:
    """dE[v] = √d Σ_{(b, t): tokens[b, t] = v} dy[b, t],  dP[p] = Σ_{(b, t): positions[t] = p} dy[b, t]

    Returns None, {"embedding"}, and "positions" where they are learned.
    """
    grads = {"embedding": embedding_backward(dy, cache.tokens)[1]["table"]}
    if cache.positions is not None:
        one_row = len(cache.positions.tokens) == 1  # of positions, which served every sequence
        grads["positions"] = embedding_backward(dy.sum(axis=0, keepdims=True) if one_row else dy, cache.positions)[1]["table"]
    return None, grads


def _check_logits(x, params, table, config):
    _check_rows("x", x, config)
    weights = {table: (config.target_vocab, config.d_model)} if config.tied else {}
    _check_params(params, weights | output_shapes(config), x.dtype)


@checked(_check_logits)
def logits_of(x: Rows, params: Arrays, table: str, config: Config, record: Record) -> tuple[Float[Array, "batch time vocab"], LinearCache]:
    """z = x W + b; with tied weights W is the table, transposed"""
    logits, cache = linear(x, params[table].T if config.tied else params["output.w"], params.get("output.b"))
    return record("logits", logits), cache


def _check_flat(rooms):
    for name, grads in rooms.items():
        if not isinstance(grads, dict):
            raise ValueError(f"rooms[{name!r}] was {type(grads).__name__}; it must be a dict of arrays")


@checked(_check_flat)
def flat(layer: str, rooms: dict[str, Arrays]) -> Arrays:
    """A layer's gradients under their dotted names."""
    return {f"{layer}.{room}.{name}": grad for room, grads in rooms.items() for name, grad in grads.items()}
