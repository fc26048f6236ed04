"""The post-norm encoder-decoder of 2017: forward, and the backward of every parameter.

Source: Vaswani et al. 2017, section 3 and figure 1. Dropout is left out.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..config import Config
from ..parameters import check_params, draw, encoder_decoder_shapes
from ..record import Record, nothing
from . import layers
from .checks import check_dtype, check_lengths, check_tokens, check_upstream, checked, plain
from .layers import BlockCache, DecoderLayerCache, EmbedCache, Rooms, embed, embed_backward, flat, logits_of
from .linear import LinearCache, linear_backward
from .passes import Gradients, Output, run_backward, run_forward

Array = np.ndarray
Arrays = dict[str, Array]
embed, embed_backward, linear_backward, logits_of, flat = plain(embed, embed_backward, linear_backward, logits_of, flat)


class Cache(NamedTuple):
    source: EmbedCache
    encoder: tuple[BlockCache, ...]
    target: EmbedCache
    decoder: tuple[DecoderLayerCache, ...]
    output: LinearCache
    tied: bool
    names: tuple[str, ...]


def _check_forward(params, config, source, decoder_input, source_lengths, target_lengths):
    check_params(params, encoder_decoder_shapes(config), finite=False)
    check_tokens("source", source, config.source_vocab)
    check_tokens("decoder_input", decoder_input, config.target_vocab)
    if len(source) != len(decoder_input):
        raise ValueError(f"source had {len(source)} sequences and decoder_input {len(decoder_input)}; the batches must be equal")
    for name, tokens in (("source", source), ("decoder_input", decoder_input)):
        if config.max_length is not None and tokens.shape[1] > config.max_length:
            raise ValueError(f"{name} had time {tokens.shape[1]}; it must be at most max_length, {config.max_length}")
    for name, lengths, tokens in (("source_lengths", source_lengths, source), ("target_lengths", target_lengths, decoder_input)):
        if lengths is not None:
            check_lengths(name, lengths, *tokens.shape)


def _check_backward(dlogits, cache):
    check_upstream("dlogits", dlogits, cache.output, cache.output.x.shape[:-1] + cache.output.w.shape[1:])


@checked(lambda dtype: check_dtype(dtype))
def init(config: Config, seed: int = 0, dtype=np.float64) -> Arrays:
    """Starting parameters: matrices Xavier-uniform, embeddings N(0, 1/d_model), γ = 1, β and biases 0."""
    return draw(encoder_decoder_shapes(config), seed, dtype)


@checked(_check_forward)
def forward(
    params: Arrays,
    config: Config,
    source: Int[Array, "batch t_source"],
    decoder_input: Int[Array, "batch t_target"],
    source_lengths: Int[Array, "batch"] | None = None,
    target_lengths: Int[Array, "batch"] | None = None,
    record: Record = nothing,
) -> Output:
    """logits = decoder(√d E_tgt[y] + PE, encoder(√d E_src[x] + PE)) W_out + b

    Positions at or past a sequence's length are padding: no query attends to them. Returns logits, every activation
    under its dotted name, and the cache that backward needs. A record given keeps the activations while they are computed.
    Raises IndexError for a token outside its vocabulary; ValueError for parameters that are unknown, missing,
    misshapen or not finite, for tokens or lengths that do not fit, and where an activation is not finite (named).
    """
    shapes = encoder_decoder_shapes(config)
    mask = _key_mask(source_lengths, source)
    target_mask = _key_mask(target_lengths, decoder_input)
    run = partial(_run, params, config, source, decoder_input, mask, target_mask)
    logits, cache = run_forward(run, record, partial(check_params, params, shapes))
    return Output(logits, cache, run, record.kept if record.on else None)


def _run(params, config, source, decoder_input, mask, target_mask, record):
    """forward without its checks."""
    def embedded(side, tokens, table, positions):
        return embed(tokens, params[table], config, record.inside(side), learned=params.get(positions))

    def rooms(layer):
        return Rooms(params, config, layer, record.inside(layer), "self_attention")

    source_table, target_table = config.tables
    x, source_cache = embedded("encoder", source, source_table, "source_positions")
    encoder = []
    for i in range(config.n_layers):
        x, cache = layers.post_norm_block.rule(x, rooms(f"encoder.{i}"), mask, causal=False)
        encoder.append(cache)
    memory = record("encoder.memory", x)

    x, target_cache = embedded("decoder", decoder_input, target_table, "target_positions")
    decoder = []
    for i in range(config.n_layers):
        x, cache = layers.decoder_layer.rule(x, memory, rooms(f"decoder.{i}"), target_mask, mask)
        decoder.append(cache)
    logits, output = logits_of(record("decoder.out", x), params, target_table, config, record)
    return logits, Cache(source_cache, tuple(encoder), target_cache, tuple(decoder), output, config.tied, tuple(params))


@checked(_check_backward)
def backward(dlogits: Float[Array, "batch t_target vocab"], cache: Cache, record: Record = nothing) -> Arrays:
    """The gradient of every parameter, from the gradient at the logits; names, order and shapes as in params.

    A record given keeps the gradient of every stage, in the order of computing.
    """
    return run_backward(partial(_run_backward, cache=cache), dlogits, record)


@checked(_check_backward)
def gradients(dlogits: Float[Array, "batch t_target vocab"], cache: Cache) -> Gradients:
    """backward with a record: the parameters' gradients, and that of every stage in the order of computing."""
    record = Record()
    return Gradients(backward.rule(dlogits, cache, record), record.kept)


def _run_backward(dlogits, record, cache):
    dx, output = linear_backward(record("logits", dlogits), cache.output)
    grads = {f"output.{name}": grad for name, grad in output.items()}
    record("decoder.out", dx)

    dmemory = 0.0
    for i in reversed(range(len(cache.decoder))):
        dx, dmemory_i, rooms = layers.decoder_layer_backward.rule(dx, cache.decoder[i], record.inside(f"decoder.{i}"))
        dmemory = dmemory + dmemory_i  # every decoder layer reads the one memory
        grads |= flat(f"decoder.{i}", rooms)
    _, target = embed_backward(record("decoder.input", dx), cache.target)

    dx = record("encoder.memory", dmemory)
    for i in reversed(range(len(cache.encoder))):
        dx, rooms = layers.post_norm_block_backward.rule(dx, cache.encoder[i], record.inside(f"encoder.{i}"), "self_attention")
        grads |= flat(f"encoder.{i}", rooms)
    _, source = embed_backward(record("encoder.input", dx), cache.source)

    grads |= {f"{side}_{name}": grad for side, own in (("source", source), ("target", target)) for name, grad in own.items()}
    if cache.tied:  # the table was used twice: to look up the input, and as the output layer
        grads["target_embedding"] = target["embedding"] + output["w"].T
    if "embedding" in cache.names:  # one table for both sides
        grads["embedding"] = grads["source_embedding"] + grads["target_embedding"]
    return {name: grads[name] for name in cache.names}


def _key_mask(lengths, tokens):
    """True where a key is a real token, shaped to broadcast over heads and queries."""
    if lengths is None:
        return None
    return (np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None])[:, None, None, :]
