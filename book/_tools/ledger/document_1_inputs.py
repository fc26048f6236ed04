"""Document 1, from the machine to the encoder's input."""

import math

import numpy as np

from byhand import Config
from byhand.numpy import attention, embedding, norm, optimizer

from . import claim, named
from .samples import draw, largest, value

BASE = Config(d_model=512, n_heads=8, d_ff=2048, n_layers=6, source_vocab=37000, target_vocab=37000)


# ---- the machine, the toy ----
@claim("d1-machine-cross-roles")
def cross_attention_roles():
    rows, memory = draw(1, 3, 6), draw(1, 5, 6)
    weights = [draw(6, 6, seed=i) for i in range(4)]
    _, cache = attention.multi_head_attention(rows, memory, *weights, n_heads=2)
    _, moved = attention.multi_head_attention(rows, memory + 1, *weights, n_heads=2)
    a = cache.attention.weights
    assert (cache.attention.q == moved.attention.q).all() and (cache.attention.k != moved.attention.k).all()
    return {"weights_shape": a.shape[-2:], "max_row_sum_error_below": largest(a.sum(axis=-1) - 1) < 1e-12}


@claim("d1-setup-dk")
def head_widths():
    return [value("config.d_k"), BASE.d_k]


@claim("d1-setup-exact-any-scale")
def counter_examples_to_exact_at_any_scale():
    constant = np.ones(4)
    with np.errstate(invalid="ignore"):
        divided = (constant - constant.mean()) / np.sqrt(constant.var())
    x, dy, gamma = draw(2, 6), draw(2, 6, seed=1), draw(6)
    _, cache = norm.layer_norm(x, gamma, np.zeros(6), eps=0.0)
    scalar = norm.layer_norm_backward(dy, cache._replace(gamma=np.ones(6)))[0]
    return {
        "layernorm_eps0_constant_row_is_nan": bool(np.isnan(divided).all()),
        "lr_with_toy_width_over_lr_with_512": optimizer.noam(1, 4) / optimizer.noam(1, 512),
        "vector_gamma_backward_error_positive": largest(norm.layer_norm_backward(dy, cache)[0] - gamma * scalar) > 0,
    }


# ---- embeddings ----
@claim("d1-embed-scale-formula")
def embedding_formula():
    tokens, table = np.array([[2, 0, 2, 4]]), draw(5, 6)
    by_hand = [[[math.sqrt(6) * table[token][j] for j in range(6)] for token in row] for row in tokens.tolist()]
    return largest(embedding.embedding(tokens, table)[0] - by_hand)


# ---- positions ----
@named
def by_formula(function, length, d):
    return [[getattr(math, function)(pos / 10000 ** (2 * i / d)) for i in range(d // 2)] for pos in range(length)]
