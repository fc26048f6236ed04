"""The post-norm encoder-decoder of 2017: forward, and the backward of every parameter.

Source: Vaswani et al. 2017, section 3 and figure 1. Dropout is left out.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..config import Config
from ..parameters import ATTENTION, check_config, check_params, draw, encoder_decoder_shapes
from .attention import MultiHeadCache, multi_head_attention, multi_head_attention_gradients
from .embedding import EmbeddingCache, check_tokens, embedding, embedding_backward
from .feed_forward import FeedForwardCache, feed_forward, feed_forward_gradients
from .finite import checked_by_the_model
from .linear import LinearCache, linear, linear_backward
from .loss import check_lengths
from .norm import LayerNormCache, layer_norm, layer_norm_backward
from .position import sinusoidal
from .stages import (
    all_finite,
    attention_activations,
    attention_stages,
    check_dlogits,
    feed_forward_activations,
    feed_forward_stages,
    named,
    norm_activations,
    refuse_non_finite,
)

Array = np.ndarray
Arrays = dict[str, Array]
Rows = Float[Array, "batch time d_model"]


# ---- one encoder layer --------------------------------------------------------------------------


class EncoderLayerCache(NamedTuple):
    self_attention: MultiHeadCache
    residual_1: Rows
    norm_1: LayerNormCache
    normed_1: Rows
    feed_forward: FeedForwardCache
    transformed: Rows
    residual_2: Rows
    norm_2: LayerNormCache
    y: Rows


def encoder_layer(
    x: Rows, params: Arrays, layer: str, config: Config, mask: Bool[Array, "batch 1 1 time"] | None
) -> tuple[Rows, EncoderLayerCache]:
    """n = LN₁(x + attention(x, x)),  y = LN₂(n + FFN(n))"""
    attended, self_attention = _attend(x, x, params, f"{layer}.self_attention", config, mask)
    residual_1 = x + attended
    normed_1, norm_1 = _norm(residual_1, params, f"{layer}.norm_1", config)
    transformed, ff = _feed_forward(normed_1, params, f"{layer}.feed_forward")
    residual_2 = normed_1 + transformed
    y, norm_2 = _norm(residual_2, params, f"{layer}.norm_2", config)
    return y, EncoderLayerCache(self_attention, residual_1, norm_1, normed_1, ff, transformed, residual_2, norm_2, y)


def encoder_layer_backward(dy: Rows, cache: EncoderLayerCache, layer: str) -> tuple[Rows, Arrays, Arrays]:
    """From the gradient at the layer's output to the one at its input.

    Returns dx, the parameters' gradients, and the gradient of every stage, all under dotted names. A stage that
    feeds several others has one entry for each way back, `….via_…`, and their sum.
    """
    # LN₂(n + FFN(n)): n is used twice
    dresidual_2, norm_2 = layer_norm_backward(dy, cache.norm_2)
    ff = feed_forward_gradients(dresidual_2, cache.feed_forward)
    dnormed_1 = dresidual_2 + ff.x

    # LN₁(x + attention(x, x)): x is used four times
    dresidual_1, norm_1 = layer_norm_backward(dnormed_1, cache.norm_1)
    attn = multi_head_attention_gradients(dresidual_1, cache.self_attention)
    dx = dresidual_1 + attn.via_query + attn.via_key + attn.via_value

    grads = (
        named(f"{layer}.self_attention", attn.params)
        | named(f"{layer}.norm_1", norm_1)
        | named(f"{layer}.feed_forward", ff.params)
        | named(f"{layer}.norm_2", norm_2)
    )
    stages = (
        {f"{layer}.norm_2.out": dy, f"{layer}.residual_2": dresidual_2}
        | feed_forward_stages(f"{layer}.feed_forward", dresidual_2, ff)
        | {f"{layer}.norm_1.out.via_residual": dresidual_2, f"{layer}.norm_1.out.via_feed_forward": ff.x}
        | {f"{layer}.norm_1.out": dnormed_1, f"{layer}.residual_1": dresidual_1}
        | attention_stages(f"{layer}.self_attention", dresidual_1, attn)
        | {f"{layer}.input.via_residual": dresidual_1, f"{layer}.input.via_query": attn.via_query}
        | {f"{layer}.input.via_key": attn.via_key, f"{layer}.input.via_value": attn.via_value, f"{layer}.input": dx}
    )
    return dx, grads, stages


# ---- one decoder layer --------------------------------------------------------------------------


class DecoderLayerCache(NamedTuple):
    self_attention: MultiHeadCache
    residual_1: Rows
    norm_1: LayerNormCache
    normed_1: Rows
    cross_attention: MultiHeadCache
    residual_2: Rows
    norm_2: LayerNormCache
    normed_2: Rows
    feed_forward: FeedForwardCache
    transformed: Rows
    residual_3: Rows
    norm_3: LayerNormCache
    y: Rows


def decoder_layer(
    x: Rows,
    memory: Float[Array, "batch t_source d_model"],
    params: Arrays,
    layer: str,
    config: Config,
    mask: Bool[Array, "batch 1 1 time"] | None,
    memory_mask: Bool[Array, "batch 1 1 t_source"] | None,
) -> tuple[Rows, DecoderLayerCache]:
    """n = LN₁(x + causal(x, x)),  c = LN₂(n + attention(n, memory)),  y = LN₃(c + FFN(c))"""
    attended, self_attention = _attend(x, x, params, f"{layer}.self_attention", config, mask, causal=True)
    residual_1 = x + attended
    normed_1, norm_1 = _norm(residual_1, params, f"{layer}.norm_1", config)
    read, cross_attention = _attend(normed_1, memory, params, f"{layer}.cross_attention", config, memory_mask)
    residual_2 = normed_1 + read
    normed_2, norm_2 = _norm(residual_2, params, f"{layer}.norm_2", config)
    transformed, ff = _feed_forward(normed_2, params, f"{layer}.feed_forward")
    residual_3 = normed_2 + transformed
    y, norm_3 = _norm(residual_3, params, f"{layer}.norm_3", config)
    return y, DecoderLayerCache(
        self_attention, residual_1, norm_1, normed_1,
        cross_attention, residual_2, norm_2, normed_2,
        ff, transformed, residual_3, norm_3, y,
    )  # fmt: skip


def decoder_layer_backward(
    dy: Rows, cache: DecoderLayerCache, layer: str
) -> tuple[Rows, Float[Array, "batch t_source d_model"], Arrays, Arrays]:
    """From the gradient at the layer's output to the ones at its two inputs.

    Returns dx, dmemory, the parameters' gradients and the gradient of every stage, as encoder_layer_backward does.
    """
    # LN₃(c + FFN(c)): c is used twice
    dresidual_3, norm_3 = layer_norm_backward(dy, cache.norm_3)
    ff = feed_forward_gradients(dresidual_3, cache.feed_forward)
    dnormed_2 = dresidual_3 + ff.x

    # LN₂(n + attention(n, memory)): n is used twice, the memory twice
    dresidual_2, norm_2 = layer_norm_backward(dnormed_2, cache.norm_2)
    cross = multi_head_attention_gradients(dresidual_2, cache.cross_attention)
    dnormed_1 = dresidual_2 + cross.via_query
    dmemory = cross.via_key + cross.via_value

    # LN₁(x + causal(x, x)): x is used four times
    dresidual_1, norm_1 = layer_norm_backward(dnormed_1, cache.norm_1)
    attn = multi_head_attention_gradients(dresidual_1, cache.self_attention)
    dx = dresidual_1 + attn.via_query + attn.via_key + attn.via_value

    grads = (
        named(f"{layer}.self_attention", attn.params)
        | named(f"{layer}.norm_1", norm_1)
        | named(f"{layer}.cross_attention", cross.params)
        | named(f"{layer}.norm_2", norm_2)
        | named(f"{layer}.feed_forward", ff.params)
        | named(f"{layer}.norm_3", norm_3)
    )
    stages = (
        {f"{layer}.norm_3.out": dy, f"{layer}.residual_3": dresidual_3}
        | feed_forward_stages(f"{layer}.feed_forward", dresidual_3, ff)
        | {f"{layer}.norm_2.out.via_residual": dresidual_3, f"{layer}.norm_2.out.via_feed_forward": ff.x}
        | {f"{layer}.norm_2.out": dnormed_2, f"{layer}.residual_2": dresidual_2}
        | attention_stages(f"{layer}.cross_attention", dresidual_2, cross)
        | {f"{layer}.memory.via_key": cross.via_key, f"{layer}.memory.via_value": cross.via_value}
        | {f"{layer}.norm_1.out.via_residual": dresidual_2, f"{layer}.norm_1.out.via_query": cross.via_query}
        | {f"{layer}.norm_1.out": dnormed_1, f"{layer}.residual_1": dresidual_1}
        | attention_stages(f"{layer}.self_attention", dresidual_1, attn)
        | {f"{layer}.input.via_residual": dresidual_1, f"{layer}.input.via_query": attn.via_query}
        | {f"{layer}.input.via_key": attn.via_key, f"{layer}.input.via_value": attn.via_value, f"{layer}.input": dx}
    )
    return dx, dmemory, grads, stages


# ---- the whole model ----------------------------------------------------------------------------


class Cache(NamedTuple):
    source: EmbeddingCache
    encoder: tuple[EncoderLayerCache, ...]
    target: EmbeddingCache
    decoder: tuple[DecoderLayerCache, ...]
    output: LinearCache
    tied: bool
    names: tuple[str, ...]


class Output(NamedTuple):
    logits: Float[Array, "batch t_target vocab"]
    activations: Arrays
    cache: Cache


class Gradients(NamedTuple):
    params: Arrays
    stages: Arrays


def init(config: Config, seed: int = 0, dtype=np.float64) -> Arrays:
    """Starting parameters: matrices Xavier-uniform, embeddings N(0, 1/d_model), γ = 1, β and biases 0."""
    return draw(encoder_decoder_shapes(_supported(config)), seed, dtype)


@checked_by_the_model()
def forward(
    params: Arrays,
    config: Config,
    source: Int[Array, "batch t_source"],
    decoder_input: Int[Array, "batch t_target"],
    source_lengths: Int[Array, "batch"] | None = None,
    target_lengths: Int[Array, "batch"] | None = None,
) -> Output:
    """logits = decoder(√d E_tgt[y] + PE, encoder(√d E_src[x] + PE)) W_out + b

    Positions at or past a sequence's length are padding: no query attends to them. Returns logits, every activation
    under its dotted name, and the cache that backward needs.
    Raises IndexError for a token outside its vocabulary; ValueError for parameters that are unknown, missing,
    misshapen or not finite, for tokens or lengths that do not fit, and where an activation is not finite (named).
    """
    shapes = encoder_decoder_shapes(_supported(config))
    check_params(params, shapes)
    _check_batch(config, source, decoder_input)
    mask = _key_mask("source_lengths", source_lengths, source)
    target_mask = _key_mask("target_lengths", target_lengths, decoder_input)
    activations = {}

    x, source_cache = _embed("encoder", source, params["source_embedding"], config, activations)
    encoder = []
    for i in range(config.n_layers):
        x, cache = encoder_layer(x, params, f"encoder.{i}", config, mask)
        encoder.append(cache)
        activations |= _encoder_activations(f"encoder.{i}", cache)
    memory = activations["encoder.memory"] = x

    x, target_cache = _embed("decoder", decoder_input, params["target_embedding"], config, activations)
    decoder = []
    for i in range(config.n_layers):
        x, cache = decoder_layer(x, memory, params, f"decoder.{i}", config, target_mask, mask)
        decoder.append(cache)
        activations |= _decoder_activations(f"decoder.{i}", cache)
    activations["decoder.out"] = x

    w_out = params["target_embedding"].T if config.tied else params["output.w"]
    logits, output = linear(x, w_out, params["output.b"])
    activations["logits"] = logits
    if not all_finite(logits, activations):
        refuse_non_finite(activations)
    cache = Cache(source_cache, tuple(encoder), target_cache, tuple(decoder), output, config.tied, tuple(shapes))
    return Output(logits, activations, cache)


def backward(dlogits: Float[Array, "batch t_target vocab"], cache: Cache) -> Arrays:
    """The gradient of every parameter, from the gradient at the logits; names, order and shapes as in params."""
    return _gradients(dlogits, cache, keep=False).params


def gradients(dlogits: Float[Array, "batch t_target vocab"], cache: Cache) -> Gradients:
    """backward with every step kept: the parameters' gradients, and that of every stage in the order of computing."""
    return _gradients(dlogits, cache, keep=True)


def _gradients(dlogits, cache, keep):
    check_dlogits(dlogits, cache.output.x.shape[:-1] + cache.output.w.shape[1:])
    dx, output = linear_backward(dlogits, cache.output)
    grads = {"output.b": output["b"]}
    stages = {"logits": dlogits, "decoder.out": dx}

    dmemory = 0.0
    for i in reversed(range(len(cache.decoder))):
        dx, dmemory_i, layer_grads, layer_stages = decoder_layer_backward(dx, cache.decoder[i], f"decoder.{i}")
        dmemory = dmemory + dmemory_i  # every decoder layer reads the one memory
        grads |= layer_grads
        if keep:
            stages |= layer_stages
    _, target = embedding_backward(dx, cache.target)
    stages |= {"decoder.input": dx, "encoder.memory": dmemory}

    dx = dmemory
    for i in reversed(range(len(cache.encoder))):
        dx, layer_grads, layer_stages = encoder_layer_backward(dx, cache.encoder[i], f"encoder.{i}")
        grads |= layer_grads
        if keep:
            stages |= layer_stages
    _, source = embedding_backward(dx, cache.source)
    stages["encoder.input"] = dx

    grads["source_embedding"] = source["table"]
    if cache.tied:  # the table was used twice: to look up the input, and as the output layer
        grads["target_embedding"] = target["table"] + output["w"].T
    else:
        grads["target_embedding"] = target["table"]
        grads["output.w"] = output["w"]
    return Gradients({name: grads[name] for name in cache.names}, stages)


# ---- rooms with their parameters looked up ------------------------------------------------------


def _attend(x, memory, params, name, config, mask, causal=False):
    weights = (params[f"{name}.{w}"] for w in ATTENTION)
    return multi_head_attention(x, memory, *weights, config.n_heads, mask, causal)


def _norm(x, params, name, config):
    return layer_norm(x, params[f"{name}.gamma"], params[f"{name}.beta"], config.eps)


def _feed_forward(x, params, name):
    return feed_forward(x, *(params[f"{name}.{w}"] for w in ("w_1", "b_1", "w_2", "b_2")))


def _embed(side, tokens, table, config, activations):
    rows, cache = embedding(tokens, table)
    activations[f"{side}.embedded"] = rows
    if config.positions == "sinusoidal":
        positions = sinusoidal(tokens.shape[1], config.d_model).astype(rows.dtype)
        activations[f"{side}.positions"] = positions
        rows = rows + positions  # a constant is added: the gradient passes unchanged
    activations[f"{side}.input"] = rows
    return rows, cache


# ---- stages under their dotted names ------------------------------------------------------------


def _encoder_activations(layer, cache: EncoderLayerCache):
    return (
        attention_activations(f"{layer}.self_attention", cache.self_attention)
        | {f"{layer}.residual_1": cache.residual_1}
        | norm_activations(f"{layer}.norm_1", cache.norm_1, cache.normed_1)
        | feed_forward_activations(f"{layer}.feed_forward", cache.feed_forward, cache.transformed)
        | {f"{layer}.residual_2": cache.residual_2}
        | norm_activations(f"{layer}.norm_2", cache.norm_2, cache.y)
    )


def _decoder_activations(layer, cache: DecoderLayerCache):
    return (
        attention_activations(f"{layer}.self_attention", cache.self_attention)
        | {f"{layer}.residual_1": cache.residual_1}
        | norm_activations(f"{layer}.norm_1", cache.norm_1, cache.normed_1)
        | attention_activations(f"{layer}.cross_attention", cache.cross_attention)
        | {f"{layer}.residual_2": cache.residual_2}
        | norm_activations(f"{layer}.norm_2", cache.norm_2, cache.normed_2)
        | feed_forward_activations(f"{layer}.feed_forward", cache.feed_forward, cache.transformed)
        | {f"{layer}.residual_3": cache.residual_3}
        | norm_activations(f"{layer}.norm_3", cache.norm_3, cache.y)
    )


# ---- checks, once, at the entry -----------------------------------------------------------------


def _supported(config: Config) -> Config:
    check_config(config)
    only = {"norm": ("post",), "norm_kind": ("layer",), "activation": ("relu",), "positions": ("sinusoidal", "none")}
    for name, allowed in only.items():
        if getattr(config, name) not in allowed:
            choices = " or ".join(map(repr, allowed))
            raise ValueError(f"config.{name} was {getattr(config, name)!r}; the encoder-decoder of 2017 takes {choices}")
    if config.n_kv_heads != config.n_heads:
        raise ValueError(f"config.n_kv_heads was {config.n_kv_heads}; the encoder-decoder of 2017 takes n_heads, {config.n_heads}")
    return config


def _check_batch(config, source, decoder_input):
    check_tokens("source", source, config.source_vocab)
    check_tokens("decoder_input", decoder_input, config.target_vocab)
    if len(source) != len(decoder_input):
        raise ValueError(f"source had {len(source)} sequences and decoder_input {len(decoder_input)}; the batches must be equal")
    for name, tokens in (("source", source), ("decoder_input", decoder_input)):
        if config.max_length is not None and tokens.shape[1] > config.max_length:
            raise ValueError(f"{name} had time {tokens.shape[1]}; it must be at most max_length, {config.max_length}")


def _key_mask(name, lengths, tokens):
    """True where a key is a real token, shaped to broadcast over heads and queries."""
    if lengths is None:
        return None
    batch, time = tokens.shape
    return (np.arange(time) < check_lengths(name, lengths, batch, time)[:, None])[:, None, None, :]
