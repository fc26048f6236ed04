"""The decoder-only stack: forward with or without a KV cache, and the backward of every parameter.

Sources: Radford et al. 2019 (GPT-2) for the pre-norm stack, Xiong et al. 2020 for where the norm stands. Unless the Config says
otherwise the embedding is scaled by √d_model and the feed-forward network keeps its biases, as in the encoder-decoder beside it.
Dropout is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..config import Config
from ..doors import whole
from ..parameters import check_params, decoder_shapes, draw
from ..record import Record, nothing
from . import passes
from .checks import check_dtype, check_lengths, check_tokens, check_upstream, checked, plain
from .generation import Choose, KVCache, check_kv_cache, check_time, places, read_so_far, with_cache, without_cache
from .layers import BLOCKS, BlockCache, EmbedCache, NormCache, Rooms, embed, embed_backward, flat, logits_of, norm
from .linear import LinearCache, linear_backward
from .norm import norm_backward
from .passes import Gradients, run_backward, run_forward
from .sampling import greedy

Array = np.ndarray
Arrays = dict[str, Array]
embed, embed_backward, logits_of, norm, flat = plain(embed, embed_backward, logits_of, norm, flat)
linear_backward, norm_backward = plain(linear_backward, norm_backward)
places, read_so_far, with_cache, without_cache = plain(places, read_so_far, with_cache, without_cache)


class Cache(NamedTuple):
    tokens: EmbedCache
    blocks: tuple[BlockCache, ...]
    norm: NormCache | None
    output: LinearCache
    config: Config


@dataclass(frozen=True, eq=False)
class Output(passes.Output):
    """What passes.Output has, and the KV cache with these tokens in it; with keep=False activations is empty and cache None."""

    kv_cache: KVCache | None = field(default=None, kw_only=True)


@checked(lambda dtype: check_dtype(dtype))
def init(config: Config, seed: int = 0, dtype=np.float64) -> Arrays:
    """Starting parameters: matrices Xavier-uniform, embeddings N(0, 1/d_model), γ = 1, β and biases 0."""
    return draw(decoder_shapes(config), seed, dtype)


def _check_forward(params, config, tokens, kv_cache, lengths):
    check_params(params, decoder_shapes(config), finite=False)
    check_tokens("tokens", tokens, config.target_vocab)
    if kv_cache is not None:
        check_kv_cache(kv_cache, params, config, len(tokens))
    check_time(config, tokens.shape[1], kv_cache)
    if lengths is not None:
        check_lengths("lengths", lengths, *tokens.shape)


@checked(_check_forward)
def forward(
    params: Arrays,
    config: Config,
    tokens: Int[Array, "batch time"],
    kv_cache: KVCache | None = None,
    lengths: Int[Array, "batch"] | None = None,
    keep: bool = True,
    record: Record = nothing,
) -> Output:
    """logits[b, t] = norm(blocks(√d E[tokens])) W_out + b: what is expected after tokens[b, :t + 1]

    kv_cache, from an earlier call, stands for the tokens before these (a prompt is read at once, then token by token):
    the logits are those of the whole sequence at its last places. Positions at or past a sequence's length are padding:
    nothing attends to them, and the next call's tokens go on where the length ended.
    Returns logits, every activation under its dotted name, the cache for backward, and the KV cache with these tokens in
    it. With keep=False activations and cache are left out, and only the KV cache outlives the call; with a kv_cache
    there is no cache for backward either. A record given keeps the activations while they are computed.
    Raises IndexError for a token outside the vocabulary; ValueError for parameters that are unknown, missing, misshapen
    or not finite, for tokens or lengths that do not fit, for more tokens than max_length, for a kv_cache of another
    model, batch or dtype, and where an activation is not finite (named).
    """
    lengths = None if lengths is None else np.asarray(lengths)
    run = partial(_run, params, config, tokens, kv_cache, lengths, keep)
    logits, cache, kv_cache = run_forward(run, record, partial(check_params, params, decoder_shapes(config)))
    return Output(logits, cache, run if keep else None, record.kept if record.on and keep else None, kv_cache=kv_cache)


def _run(params, config, tokens, kv_cache, lengths, keep, record):
    """forward without its checks."""
    valid = read_so_far(tokens, lengths, kv_cache)
    mask = None if valid.all() else valid[:, None, None, :]
    positions = places(tokens, kv_cache)
    x, token_cache = embed(tokens, params["embedding"], config, record, None if kv_cache is None else positions, params.get("positions"))
    blocks, keys, values = [], [], []
    for i in range(config.n_layers):
        rooms = Rooms(params, config, f"block.{i}", record.inside(f"block.{i}"))
        turned = positions if config.positions == "rope" else None
        past = None if kv_cache is None else (kv_cache.keys[i], kv_cache.values[i])
        x, cache = BLOCKS[config.norm][0](x, rooms, mask, True, turned, past)
        keys.append(cache.attention.keys)
        values.append(cache.attention.values)
        blocks.append(cache if keep else None)
        del cache  # with keep=False one block's arrays are free before the next block's are made
    x, last_norm = norm(x, params, "norm", config, record.inside("norm")) if config.norm_position.last else (x, None)
    logits, output = logits_of(record("out", x), params, "embedding", config, record)
    cache = Cache(token_cache, tuple(blocks), last_norm, output, config) if keep and kv_cache is None else None
    return logits, cache, KVCache(tuple(keys), tuple(values), valid, config, params)


def _check_backward(dlogits, cache):
    if cache is None:
        raise ValueError("cache was None; a backward needs the cache of a forward pass with keep=True and no kv_cache")
    check_upstream("dlogits", dlogits, cache.output, cache.output.x.shape[:-1] + cache.output.w.shape[1:])


@checked(_check_backward)
def backward(dlogits: Float[Array, "batch time vocab"], cache: Cache | None, record: Record = nothing) -> Arrays:
    """The gradient of every parameter, from the gradient at the logits; names, order and shapes as in params.

    A record given keeps the gradient of every stage, in the order of computing.
    """
    return run_backward(partial(_run_backward, cache=cache), dlogits, record)


@checked(_check_backward)
def gradients(dlogits: Float[Array, "batch time vocab"], cache: Cache | None) -> Gradients:
    """backward with a record: the parameters' gradients, and that of every stage in the order of computing."""
    record = Record()
    return Gradients(backward.rule(dlogits, cache, record), record.kept)


def _run_backward(dlogits, record, cache):
    config = cache.config
    dx, output = linear_backward(record("logits", dlogits), cache.output)
    grads = {f"output.{name}": grad for name, grad in output.items()}
    record("out", dx)
    if cache.norm is not None:
        dx, last_norm = norm_backward(record("norm.out", dx), cache.norm)
        grads |= {f"norm.{name}": grad for name, grad in last_norm.items()}
    for i in reversed(range(len(cache.blocks))):
        dx, rooms = BLOCKS[config.norm][1](dx, cache.blocks[i], record.inside(f"block.{i}"))
        grads |= flat(f"block.{i}", rooms)
    _, looked_up = embed_backward(record("input", dx), cache.tokens)
    grads |= looked_up
    if config.tied:  # the table was used twice: to look up the input, and as the output layer
        record.via("embedding", input=looked_up["embedding"], output=output["w"].T)
        grads["embedding"] = looked_up["embedding"] + output["w"].T
    return {name: grads[name] for name in decoder_shapes(config)}


def _check_generate(params, config, tokens, n_new, lengths):
    check_params(params, decoder_shapes(config))
    check_tokens("tokens", tokens, config.target_vocab)
    whole("n_new", n_new)
    check_time(config, tokens.shape[1] + n_new)
    if lengths is not None:
        check_lengths("lengths", lengths, *tokens.shape)


@checked(_check_generate)
def generate(
    params: Arrays,
    config: Config,
    tokens: Int[Array, "batch time"],
    n_new: int,
    choose: Choose = greedy,
    lengths: Int[Array, "batch"] | None = None,
    cached: bool = True,
) -> Iterator[Int[Array, "batch"]]:
    """token_(t+1) = choose(logits after token_t), n_new times, each yielded at once

    The first step reads the whole prompt (prefill), every other one a single token
    (decode). cached=False reads everything again at each step: the same tokens, at a
    growing price. lengths are the prompts' own.
    Raises as forward does, at the call and not at the first step, and ValueError for
    n_new below 1.
    """
    if lengths is None:
        lengths = np.full(len(tokens), tokens.shape[1])
    lengths = np.asarray(lengths)

    def read(tokens, kv_cache, lengths):
        run = partial(_run, params, config, tokens, kv_cache, lengths, False)
        logits, _, kv_cache = run_forward(run, nothing, lambda: None)
        return logits, kv_cache

    loop = with_cache if cached else without_cache
    return loop(read, tokens, n_new, choose, lengths)
