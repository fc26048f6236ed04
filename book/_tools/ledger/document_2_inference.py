"""Document 2, inference: the takeaway on training and inference, section 10, and the questions on both."""

import functools
from dataclasses import replace
from unittest import mock

import numpy as np

from byhand import Config, toy
from byhand.check import kv_bytes
from byhand.numpy import attention, decoder, quantize, tiled

from . import claim, claims, named
from .samples import draw, largest


# ---- parameters in training and in inference ----
@named
@functools.cache
def torch_pass():
    """A pass of the toy decoder without gradients, then a training step: what each left behind."""
    import torch

    from byhand.torch.decoder import Decoder

    case = toy.decoder()
    module = Decoder(case.config).load_params(case.params)
    tokens = torch.tensor(case.decoder_input)

    def unchanged():
        return all(torch.equal(torch.tensor(case.params[name]), parameter) for name, parameter in module.named_parameters())

    with torch.no_grad():
        logits = module(tokens)
    found = {"no_graph_under_no_grad": logits.grad_fn is None and not logits.requires_grad, "unchanged_by_forward": unchanged()}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module(tokens).square().mean().backward()
    optimizer.step()
    return found | {"changed_by_optimizer_step": not unchanged()}


# ---- reading token by token ----
TIME = 9
SMALL = Config(d_model=6, n_heads=3, d_ff=8, n_layers=1, source_vocab=1, target_vocab=7, norm="pre", norm_kind="rms", positions="rope", activation="swiglu")


def read(tokens, kv_cache=None):
    return decoder.forward(decoder.init(SMALL, seed=1), SMALL, tokens, kv_cache)


@named
@functools.cache
def token_by_token(cached):
    """Nine tokens, one a step: the last pass of all, each step's logits, and how many keys it computed and scores it took in one head."""
    tokens = np.random.default_rng(0).integers(0, 7, (1, TIME))
    logits, keys, scores, out = [], [], [], None
    for t in range(TIME):
        out = read(tokens[:, t : t + 1], out and out.kv_cache) if cached else read(tokens[:, : t + 1])
        logits.append(out.logits[0, -1])
        keys.append(out.activations["block.0.attention.k_unrotated"].shape[2])
        scores.append(out.activations["block.0.attention.scores"][0, 0].size)
    return {"last": out, "logits": np.array(logits), "keys": keys, "scores": scores}


@claim("d2-s10-cache-equality")
def cached_and_full():
    whole, steps = token_by_token(cached=False), token_by_token(cached=True)
    right = whole["last"].logits[0]
    return {
        "cached_equals_full_residual_below_1e12": largest(steps["logits"] - right, whole["logits"] - right) < 1e-12,
        "key_projections_with_cache": sum(steps["keys"]),
        "key_projections_without_cache": sum(whole["keys"]),
    }


@claim("d2-s10-cache-not-weights")
def what_the_cache_holds():
    kv_cache = token_by_token(cached=True)["last"].kv_cache
    kept = decoder.init(SMALL, seed=1)
    return {
        "weights_unchanged": all(np.array_equal(kept[name], value) for name, value in kv_cache.params.items()),
        "cached_numbers": sum(array.size for array in kv_cache.keys + kv_cache.values),
    }


# ---- KV memory ----
BATCH, LAYERS, CACHED, KV_HEADS, HEAD_WIDTH, BYTES = claims.lookup("d2-kv-parameters")["exact"]
LARGE = Config(d_model=4096, n_heads=32, n_kv_heads=KV_HEADS, d_k=HEAD_WIDTH, d_v=HEAD_WIDTH, d_ff=1, n_layers=LAYERS, source_vocab=1, target_vocab=1)


@named
def payload(time=CACHED, number=BYTES, **choices):
    """The document's example, or one that differs from it."""
    return kv_bytes(replace(LARGE, **choices), BATCH, time, number)


def allocated(batch, layers, time, kv_heads, d_h, dtype):
    """Bytes that a cache of such a stack really takes."""
    config = replace(SMALL, n_heads=4, n_kv_heads=kv_heads, n_layers=layers, d_k=d_h, d_v=d_h)
    return decoder.forward(decoder.init(config, dtype=dtype), config, np.zeros((batch, time), dtype=int)).kv_cache.nbytes


@claim("d2-kv-formula")
def payload_formula():
    cases = [(1, 1, 5, 4, 2, 8), (3, 2, 7, 2, 6, 4), (2, 3, 4, 1, 8, 4)]
    return max(abs(2 * b * l * t * h * d * size - allocated(b, l, t, h, d, f"f{size}")) for b, l, t, h, d, size in cases)


@claim("d2-s10-gqa")
def shared_heads():
    """Two key-value heads for four query heads, and four heads with the same two matrices, each twice."""
    x, w_q, w_k, w_v, w_o = draw(1, 5, 6), draw(6, 8), draw(6, 4), draw(6, 4, seed=1), draw(8, 6)
    repeated = [np.repeat(w.reshape(6, 2, 2), 2, axis=1).reshape(6, 8) for w in (w_k, w_v)]
    grouped, cache = attention.multi_head_attention(x, x, w_q, w_k, w_v, w_o, n_heads=4, causal=True, n_kv_heads=2)
    full, full_cache = attention.multi_head_attention(x, x, w_q, *repeated, w_o, n_heads=4, causal=True)
    return {"shared_heads_residual_below_1e12": largest(grouped - full) < 1e-12, "cache_ratio": cache.keys.nbytes / full_cache.keys.nbytes}


@claim("d2-s10-quantization")
def keys_in_one_byte():
    keys = token_by_token(cached=True)["last"].kv_cache.keys[0]
    small = quantize.quantize(keys)
    moved = np.abs(keys - quantize.dequantize(small))
    return {
        "kv_gib_at_1_byte": payload(number=1) / 2**30,
        "max_error_within_half_step": bool((moved <= small.scale / 2 * (1 + 1e-12)).all()),
        "error_nonzero": moved.max() > 0,
    }


# ---- attention in tiles ----
def tiles(n, width=8):
    """One head over n tokens in tiles: how far it is from attention's result, and the shapes of the scores that it held."""
    q, k, v = (draw(1, 1, n, 4, seed=i) for i in range(3))
    with mock.patch.object(tiled.online_softmax, "rule", wraps=tiled.online_softmax.rule) as seen:
        y, _ = tiled.tiled_attention(q, k, v, block=(5, width))
    return largest(y - attention.attention(q, k, v)[0]), [call.args[1].shape[2:] for call in seen.call_args_list]


@named
def scores_computed(n):
    return sum(rows * keys for rows, keys in tiles(n)[1])


@claim("d2-s10-flash-exact")
def exact_without_a_full_row():
    residual, shapes = tiles(37)
    return {"residual_below_1e12": residual < 1e-12, "widest_score_tile": max(keys for _, keys in shapes), "full_row_width": 37}
