"""The decoder-only stack: forward with or without a KV cache, and the backward of every parameter.

Sources: Radford et al. 2019 (GPT-2) for the pre-norm stack, Xiong et al. 2020 for where the norm stands. The embedding is
scaled by √d_model and the feed-forward network keeps its biases, as in the encoder-decoder beside it. Dropout is left out.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..config import Config
from ..parameters import ATTENTION, check_params, decoder_shapes, draw
from .attention import MultiHeadCache, multi_head_attention, multi_head_attention_gradients
from .embedding import EmbeddingCache, check_tokens, embedding, embedding_backward
from .feed_forward import FeedForwardCache, FeedForwardGradients, feed_forward, feed_forward_gradients
from .finite import checked_by_the_model
from .linear import LinearCache, linear, linear_backward
from .loss import check_lengths
from .norm import LayerNormCache, RmsNormCache, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from .position import sinusoids
from .sampling import greedy
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
NormCache = LayerNormCache | RmsNormCache
Positions = Int[Array, "time"] | Int[Array, "batch time"]
Past = tuple[Float[Array, "batch kv_heads t_past d_k"], Float[Array, "batch kv_heads t_past d_v"]]


# ---- one block ----------------------------------------------------------------------------------


class BlockCache(NamedTuple):
    norm_1: NormCache
    normed_1: Rows
    attention: MultiHeadCache
    residual_1: Rows
    norm_2: NormCache
    normed_2: Rows
    feed_forward: FeedForwardCache
    transformed: Rows
    residual_2: Rows


def pre_norm_block(
    x: Rows,
    params: Arrays,
    block: str,
    config: Config,
    mask: Bool[Array, "batch 1 1 t_k"] | None = None,
    positions: Positions | None = None,
    past: Past | None = None,
) -> tuple[Rows, BlockCache]:
    """u = x + attention(norm₁(x)),  y = u + FFN(norm₂(u))

    The norms stand inside the branches, so x reaches y through additions alone.
    """
    normed_1, norm_1 = _norm(x, params, f"{block}.norm_1", config)
    attended, attention = _attend(normed_1, params, f"{block}.attention", config, mask, positions, past)
    residual_1 = x + attended
    normed_2, norm_2 = _norm(residual_1, params, f"{block}.norm_2", config)
    transformed, ff = _feed_forward(normed_2, params, f"{block}.feed_forward", config)
    residual_2 = residual_1 + transformed
    return residual_2, BlockCache(norm_1, normed_1, attention, residual_1, norm_2, normed_2, ff, transformed, residual_2)


def pre_norm_block_backward(dy: Rows, cache: BlockCache, block: str) -> tuple[Rows, Arrays, Arrays]:
    """From the gradient at the block's output to the one at its input.

    Returns dx, the parameters' gradients, and the gradient of every stage, all under dotted names. A stage that
    feeds several others has one entry for each way back, `….via_…`, and their sum.
    """
    # u + FFN(norm₂(u)): u is used twice
    ff = feed_forward_gradients(dy, cache.feed_forward)
    residual_1_via_norm, norm_2 = _norm_backward(ff.x, cache.norm_2)
    dresidual_1 = dy + residual_1_via_norm

    # x + attention(norm₁(x)): x is used twice, norm₁(x) three times
    attn = multi_head_attention_gradients(dresidual_1, cache.attention)
    dnormed_1 = attn.via_query + attn.via_key + attn.via_value
    input_via_norm, norm_1 = _norm_backward(dnormed_1, cache.norm_1)
    dx = dresidual_1 + input_via_norm

    stages = (
        {f"{block}.residual_2": dy}
        | feed_forward_stages(f"{block}.feed_forward", dy, ff)
        | _gate_ways(f"{block}.norm_2.out", ff)
        | {f"{block}.norm_2.out": ff.x}
        | {f"{block}.residual_1.via_residual": dy, f"{block}.residual_1.via_norm": residual_1_via_norm}
        | {f"{block}.residual_1": dresidual_1}
        | attention_stages(f"{block}.attention", dresidual_1, attn)
        | {f"{block}.norm_1.out.via_query": attn.via_query, f"{block}.norm_1.out.via_key": attn.via_key}
        | {f"{block}.norm_1.out.via_value": attn.via_value, f"{block}.norm_1.out": dnormed_1}
        | {f"{block}.input.via_residual": dresidual_1, f"{block}.input.via_norm": input_via_norm, f"{block}.input": dx}
    )
    return dx, _block_grads(block, attn.params, norm_1, norm_2, ff.params), stages


def post_norm_block(
    x: Rows,
    params: Arrays,
    block: str,
    config: Config,
    mask: Bool[Array, "batch 1 1 t_k"] | None = None,
    positions: Positions | None = None,
    past: Past | None = None,
) -> tuple[Rows, BlockCache]:
    """u = norm₁(x + attention(x)),  y = norm₂(u + FFN(u))"""
    attended, attention = _attend(x, params, f"{block}.attention", config, mask, positions, past)
    residual_1 = x + attended
    normed_1, norm_1 = _norm(residual_1, params, f"{block}.norm_1", config)
    transformed, ff = _feed_forward(normed_1, params, f"{block}.feed_forward", config)
    residual_2 = normed_1 + transformed
    normed_2, norm_2 = _norm(residual_2, params, f"{block}.norm_2", config)
    return normed_2, BlockCache(norm_1, normed_1, attention, residual_1, norm_2, normed_2, ff, transformed, residual_2)


def post_norm_block_backward(dy: Rows, cache: BlockCache, block: str) -> tuple[Rows, Arrays, Arrays]:
    """From the gradient at the block's output to the one at its input; returns what pre_norm_block_backward does."""
    # norm₂(u + FFN(u)): u is used twice
    dresidual_2, norm_2 = _norm_backward(dy, cache.norm_2)
    ff = feed_forward_gradients(dresidual_2, cache.feed_forward)
    dnormed_1 = dresidual_2 + ff.x

    # norm₁(x + attention(x)): x is used four times
    dresidual_1, norm_1 = _norm_backward(dnormed_1, cache.norm_1)
    attn = multi_head_attention_gradients(dresidual_1, cache.attention)
    dx = dresidual_1 + attn.via_query + attn.via_key + attn.via_value

    stages = (
        {f"{block}.norm_2.out": dy, f"{block}.residual_2": dresidual_2}
        | feed_forward_stages(f"{block}.feed_forward", dresidual_2, ff)
        | {f"{block}.norm_1.out.via_residual": dresidual_2}
        | (_gate_ways(f"{block}.norm_1.out", ff) or {f"{block}.norm_1.out.via_feed_forward": ff.x})
        | {f"{block}.norm_1.out": dnormed_1, f"{block}.residual_1": dresidual_1}
        | attention_stages(f"{block}.attention", dresidual_1, attn)
        | {f"{block}.input.via_residual": dresidual_1, f"{block}.input.via_query": attn.via_query}
        | {f"{block}.input.via_key": attn.via_key, f"{block}.input.via_value": attn.via_value, f"{block}.input": dx}
    )
    return dx, _block_grads(block, attn.params, norm_1, norm_2, ff.params), stages


BLOCKS = {"pre": (pre_norm_block, pre_norm_block_backward), "post": (post_norm_block, post_norm_block_backward)}


# ---- the whole stack ----------------------------------------------------------------------------


class KVCache(NamedTuple):
    """Keys and values of every block for the tokens read so far, so that the next token need not compute them again.

    Nothing in it is ever changed: a forward pass that continues from it returns a longer one. `valid` is False at
    padding. config and params are those it was made with; a cache of another model is refused.
    """

    keys: tuple[Float[Array, "batch kv_heads time d_k"], ...]  # rotated already, where positions are "rope"
    values: tuple[Float[Array, "batch kv_heads time d_v"], ...]
    valid: Bool[Array, "batch time"]
    config: Config
    params: Arrays

    @property
    def time(self) -> int:
        """Places filled, padding included."""
        return self.valid.shape[1]

    @property
    def nbytes(self) -> int:
        """What keys and values take: batch · layers · time · kv_heads · (d_k + d_v) · bytes a number."""
        return sum(array.nbytes for array in self.keys + self.values)

    def __repr__(self):
        batch, heads, time, _ = self.keys[0].shape
        return f"KVCache({len(self.keys)} layers, batch {batch}, {heads} heads, time {time}, {self.nbytes} bytes)"


class Cache(NamedTuple):
    tokens: EmbeddingCache
    blocks: tuple[BlockCache, ...]
    norm: NormCache | None
    output: LinearCache
    config: Config


class Output(NamedTuple):
    """activations is empty and cache None where the pass kept nothing for a backward."""

    logits: Float[Array, "batch time vocab"]
    activations: Arrays
    cache: Cache | None
    kv_cache: KVCache


class Gradients(NamedTuple):
    params: Arrays
    stages: Arrays


def init(config: Config, seed: int = 0, dtype=np.float64) -> Arrays:
    """Starting parameters: matrices Xavier-uniform, embeddings N(0, 1/d_model), γ = 1, β and biases 0."""
    return draw(decoder_shapes(config), seed, dtype)


def forward(
    params: Arrays,
    config: Config,
    tokens: Int[Array, "batch time"],
    kv_cache: KVCache | None = None,
    lengths: Int[Array, "batch"] | None = None,
    keep: bool = True,
) -> Output:
    """logits[b, t] = norm(blocks(√d E[tokens])) W_out + b: what is expected after tokens[b, :t + 1]

    kv_cache, from an earlier call, stands for the tokens before these (a prompt is read at once, then token by token):
    the logits are those of the whole sequence at its last places. Positions at or past a sequence's length are padding:
    nothing attends to them, and the next call's tokens go on where the length ended.
    Returns logits, every activation under its dotted name, the cache for backward, and the KV cache with these tokens in
    it. With keep=False activations and cache are left out, and only the KV cache outlives the call; with a kv_cache
    there is no cache for backward either.
    Raises IndexError for a token outside the vocabulary; ValueError for parameters that are unknown, missing, misshapen
    or not finite, for tokens or lengths that do not fit, for more tokens than max_length, for a kv_cache of another
    model, batch or dtype, and where an activation is not finite (named).
    """
    check_params(params, decoder_shapes(config))
    check_tokens("tokens", tokens, config.target_vocab)
    if kv_cache is not None:
        _check_kv_cache(kv_cache, params, config, len(tokens))
    _check_time(config, tokens.shape[1], kv_cache)
    if lengths is not None:
        lengths = check_lengths("lengths", lengths, *tokens.shape)
    return _run(params, config, tokens, kv_cache, lengths, keep)


@checked_by_the_model()
def _run(params, config, tokens, kv_cache, lengths, keep):
    """forward without its checks."""
    valid = _valid(tokens, lengths, kv_cache)
    mask = None if valid.all() else valid[:, None, None, :]
    positions = _positions(tokens, kv_cache)
    activations = {}

    def require_finite(rows, stages):
        if not all_finite(rows, stages):
            if not keep:  # once more, this time keeping what there is to be named
                _run(params, config, tokens, kv_cache, lengths, keep=True)
            refuse_non_finite(activations)

    x, token_cache = _embed(tokens, params["embedding"], config, positions, activations)
    blocks, keys, values = [], [], []
    for i in range(config.n_layers):
        past = None if kv_cache is None else (kv_cache.keys[i], kv_cache.values[i])
        x, cache = BLOCKS[config.norm][0](
            x, params, f"block.{i}", config, mask, positions if config.positions == "rope" else None, past
        )  # fmt: skip
        keys.append(cache.attention.keys)
        values.append(cache.attention.values)
        stages = _block_activations(f"block.{i}", cache, config)
        if keep:
            blocks.append(cache)
            activations |= stages
        require_finite(x, stages)
        del cache, stages  # with keep=False one block's arrays are free before the next block's are made
    norm = None
    if config.norm == "pre":  # nothing has normalised the sum yet
        x, norm = _norm(x, params, "norm", config)
        stages = norm_activations("norm", norm, x)
        activations |= stages
        require_finite(x, stages)
    activations["out"] = x

    w_out = params["embedding"].T if config.tied else params["output.w"]
    logits, output = linear(x, w_out, params["output.b"])
    activations["logits"] = logits
    require_finite(logits, {})
    kept = Cache(token_cache, tuple(blocks), norm, output, config) if keep and kv_cache is None else None
    return Output(logits, activations if keep else {}, kept, KVCache(tuple(keys), tuple(values), valid, config, params))


def backward(dlogits: Float[Array, "batch time vocab"], cache: Cache) -> Arrays:
    """The gradient of every parameter, from the gradient at the logits; names, order and shapes as in params."""
    return _gradients(dlogits, cache, keep=False).params


def gradients(dlogits: Float[Array, "batch time vocab"], cache: Cache) -> Gradients:
    """backward with every step kept: the parameters' gradients, and that of every stage in the order of computing."""
    return _gradients(dlogits, cache, keep=True)


def _gradients(dlogits, cache, keep):
    if cache is None:
        raise ValueError("cache was None; a backward needs the cache of a forward pass with keep=True and no kv_cache")
    check_dlogits(dlogits, cache.output.x.shape[:-1] + cache.output.w.shape[1:])
    config = cache.config
    dx, output = linear_backward(dlogits, cache.output)
    grads = {"output.b": output["b"]}
    stages = {"logits": dlogits, "out": dx}
    if cache.norm is not None:
        stages["norm.out"] = dx
        dx, norm = _norm_backward(dx, cache.norm)
        grads |= named("norm", norm)

    for i in reversed(range(len(cache.blocks))):
        dx, block_grads, block_stages = BLOCKS[config.norm][1](dx, cache.blocks[i], f"block.{i}")
        grads |= block_grads
        if keep:
            stages |= block_stages
    _, looked_up = embedding_backward(dx, cache.tokens)
    stages["input"] = dx

    if config.tied:  # the table was used twice: to look up the input, and as the output layer
        stages |= {"embedding.via_input": looked_up["table"], "embedding.via_output": output["w"].T}
        grads["embedding"] = looked_up["table"] + output["w"].T
    else:
        grads["embedding"] = looked_up["table"]
        grads["output.w"] = output["w"]
    return Gradients({name: grads[name] for name in decoder_shapes(config)}, stages)


def generate(
    params: Arrays,
    config: Config,
    tokens: Int[Array, "batch time"],
    n_new: int,
    choose: Callable[[Float[Array, "batch vocab"]], Int[Array, "batch"]] = greedy,
    lengths: Int[Array, "batch"] | None = None,
    cached: bool = True,
) -> Iterator[Int[Array, "batch"]]:
    """token_(t+1) = choose(logits after token_t), n_new times; yields each step's tokens as soon as they are known

    The first step reads the whole prompt (prefill), every other one a single token (decode). cached=False reads
    everything again at each step: the same tokens, at a growing price. lengths are the prompts' own.
    Raises as forward does, at the call and not at the first step, and ValueError for n_new below 1.
    """
    check_params(params, decoder_shapes(config))
    check_tokens("tokens", tokens, config.target_vocab)
    if isinstance(n_new, bool) or not hasattr(n_new, "__index__") or n_new < 1:
        raise ValueError(f"n_new was {n_new!r}; it must be a whole number of at least 1")
    _check_time(config, tokens.shape[1] + n_new, None)
    if lengths is None:
        lengths = np.full(len(tokens), tokens.shape[1])
    lengths = check_lengths("lengths", lengths, *tokens.shape)
    return (_generate_cached if cached else _generate_again)(params, config, tokens, n_new, choose, lengths)


def _generate_cached(params, config, tokens, n_new, choose, lengths):
    out = _run(params, config, tokens, None, lengths, keep=False)
    last = out.logits[np.arange(len(tokens)), lengths - 1]
    for step in range(n_new):
        new = choose(last)
        yield new
        if step < n_new - 1:  # the last token is never read
            out = _run(params, config, new[:, None], out.kv_cache, None, keep=False)
            last = out.logits[:, 0]


def _generate_again(params, config, tokens, n_new, choose, lengths):
    rows = np.arange(len(tokens))
    tokens = np.pad(tokens, ((0, 0), (0, n_new)))
    for step in range(n_new):
        ends = lengths + step
        out = _run(params, config, tokens[:, : ends.max()], None, ends, keep=False)
        new = choose(out.logits[rows, ends - 1])
        tokens[rows, ends] = new
        yield new


# ---- rooms with their parameters looked up ------------------------------------------------------


def _attend(x, params, name, config, mask, positions, past):
    weights = (params[f"{name}.{w}"] for w in ATTENTION)
    return multi_head_attention(x, x, *weights, config.n_heads, mask, True, config.n_kv_heads, positions, past)


def _norm(x, params, name, config):
    if config.norm_kind == "rms":
        return rms_norm(x, params[f"{name}.gamma"], config.eps)
    return layer_norm(x, params[f"{name}.gamma"], params[f"{name}.beta"], config.eps)


def _norm_backward(dy, cache):
    return (rms_norm_backward if isinstance(cache, RmsNormCache) else layer_norm_backward)(dy, cache)


def _feed_forward(x, params, name, config):
    weights = (params[f"{name}.{w}"] for w in ("w_1", "b_1", "w_2", "b_2"))
    return feed_forward(x, *weights, config.activation, params.get(f"{name}.w_3"))


def _embed(tokens, table, config, positions, activations):
    rows, cache = embedding(tokens, table)
    activations["embedded"] = rows
    if config.positions == "sinusoidal":
        activations["positions"] = sinusoids(positions, config.d_model).astype(rows.dtype)
        rows = rows + activations["positions"]  # a constant is added: the gradient passes unchanged
    activations["input"] = rows
    return rows, cache


def _positions(tokens, kv_cache):
    """Where these tokens stand in their sequences: one row for all, or one a sequence where the past was padded."""
    steps = np.arange(tokens.shape[1])
    if kv_cache is None:
        return steps
    before = kv_cache.valid.sum(axis=1)
    return steps + (before[0] if (before == before[0]).all() else before[:, None])


def _valid(tokens, lengths, kv_cache):
    """True at every token read so far, these included, that is not padding."""
    new = np.ones(tokens.shape, bool) if lengths is None else np.arange(tokens.shape[1]) < lengths[:, None]
    return new if kv_cache is None else np.concatenate((kv_cache.valid, new), axis=1)


# ---- stages under their dotted names ------------------------------------------------------------


def _block_activations(block, cache: BlockCache, config):
    norm_1 = norm_activations(f"{block}.norm_1", cache.norm_1, cache.normed_1)
    norm_2 = norm_activations(f"{block}.norm_2", cache.norm_2, cache.normed_2)
    attention = attention_activations(f"{block}.attention", cache.attention) | {f"{block}.residual_1": cache.residual_1}
    ff = feed_forward_activations(f"{block}.feed_forward", cache.feed_forward, cache.transformed)
    ff |= {f"{block}.residual_2": cache.residual_2}
    return norm_1 | attention | norm_2 | ff if config.norm == "pre" else attention | norm_1 | ff | norm_2


def _gate_ways(name, gradients: FeedForwardGradients):
    """With swiglu the network reads its input twice."""
    if gradients.gate is None:
        return {}
    return {f"{name}.via_hidden": gradients.via_hidden, f"{name}.via_gate": gradients.via_gate}


def _block_grads(block, attention, norm_1, norm_2, ff):
    rooms = {"norm_1": norm_1, "attention": attention, "norm_2": norm_2, "feed_forward": ff}
    return {name: grad for room, grads in rooms.items() for name, grad in named(f"{block}.{room}", grads).items()}


# ---- checks, once, at the entry -----------------------------------------------------------------


def _check_time(config, time, kv_cache):
    past = 0 if kv_cache is None else kv_cache.time
    if config.max_length is not None and past + time > config.max_length:
        read = f" after the {past} in kv_cache" if past else ""
        raise ValueError(f"tokens had time {time}{read}; together they must be at most max_length, {config.max_length}")


def _check_kv_cache(kv_cache, params, config, batch):
    if not isinstance(kv_cache, KVCache):
        raise ValueError(f"kv_cache was {type(kv_cache).__name__}; it must be None or the .kv_cache of an earlier forward")
    if kv_cache.config != config:
        raise ValueError(f"kv_cache was made under another config, {kv_cache.config}; it must be {config}")
    dtype = np.result_type(*params.values())
    shape = (batch, config.n_kv_heads, kv_cache.time)
    for name, arrays, width in (("keys", kv_cache.keys, config.d_k), ("values", kv_cache.values, config.d_v)):
        if len(arrays) != config.n_layers:
            raise ValueError(f"kv_cache had {name} of {len(arrays)} layers; it must have {config.n_layers}")
        for array in arrays:
            if array.dtype != dtype:
                raise ValueError(f"kv_cache held {name} in {array.dtype}; it must be the parameters' dtype, {dtype}")
            if array.shape != (*shape, width):
                raise ValueError(f"kv_cache held {name} of shape {array.shape}; it must be {(*shape, width)}, for this batch and model")
    for name, value in params.items():
        if kv_cache.params[name] is not value and not np.array_equal(kv_cache.params[name], value):
            raise ValueError(f"kv_cache was made by another model: parameter {name!r} differs; read the tokens again with this one")
