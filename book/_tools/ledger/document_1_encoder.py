"""Document 1, the encoder: queries, keys and values, attention, add & norm, feed-forward."""

import math
from dataclasses import replace

import numpy as np

from byhand import toy
from byhand.numpy import attention, feed_forward, linear, transformer

from . import claim, extra, named
from .samples import draw, largest, plain_attention, plain_feed_forward, value

HEAD = "encoder.0.self_attention"


# ---- queries, keys, values ----
@claim("d1-qkv-projection-formula")
@claim("d1-vocab-formula")
def linear_formula():
    x, w, b = draw(2, 3, 4), draw(4, 5), draw(5)
    sums = np.array([[[sum(x[n, t, i] * w[i, j] for i in range(4)) for j in range(5)] for t in range(3)] for n in range(2)])
    return largest(linear.linear(x, w)[0] - sums, linear.linear(x, w, b)[0] - sums - b)


@claim("d1-qkv-attention-formula")
@claim("d1-bwd-attn-forward")
def attention_formula():
    q, k, v = draw(1, 2, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 6)
    mixed = np.zeros((1, 2, 3, 6))
    for head in range(2):
        for i in range(3):
            scores = [sum(q[0, head, i] * k[0, head, j]) / math.sqrt(4) for j in range(5)]
            total = sum(map(math.exp, scores))
            for j in range(5):
                mixed[0, head, i] += math.exp(scores[j]) / total * v[0, head, j]
    y, _ = attention.attention(q, k, v)
    return largest(y - mixed, plain_attention(q, k, v) - mixed)


# ---- add & norm: the formulas on the padded, batched example, where nothing is symmetric ----
def generic_norm_1(name):
    return value(f"toy.generic:encoder.0.norm_1.{name}")


@named
def mean_by_hand(x):
    return np.array([[[sum(row) / len(row)] for row in sequence] for sequence in x.tolist()])


@named
def variance_by_hand(x):
    mean = mean_by_hand(x)
    return np.array([[[sum((v - m[0]) ** 2 for v in row) / len(row)] for row, m in zip(s, ms, strict=True)] for s, ms in zip(x, mean, strict=True)])


@claim("d1-ln-output-formula")
def output_formula():
    x = value("toy.generic:encoder.0.residual_1")
    by_hand = np.empty(x.shape)
    for b, t, i in np.ndindex(x.shape):
        mean, var = mean_by_hand(x)[b, t, 0], variance_by_hand(x)[b, t, 0]
        by_hand[b, t, i] = generic_norm_1("gamma")[i] * (x[b, t, i] - mean) / math.sqrt(var + 1e-5) + generic_norm_1("beta")[i]
    return largest(generic_norm_1("out") - by_hand)


# ---- feed-forward ----
@claim("d1-ffn-formula")
def feed_forward_formula():
    x, w_1, b_1, w_2, b_2 = draw(1, 3, 4), draw(4, 7), draw(7), draw(7, 4), draw(4)
    y, _ = feed_forward.feed_forward(x, w_1, b_1, w_2, b_2)
    by_hand = np.zeros((1, 3, 4))
    for t, j in np.ndindex(3, 4):
        units = [max(0, sum(x[0, t, i] * w_1[i, u] for i in range(4)) + b_1[u]) for u in range(7)]
        by_hand[0, t, j] = sum(units[u] * w_2[u, j] for u in range(7)) + b_2[j]
    return largest(y - by_hand, plain_feed_forward(x, w_1, b_1, w_2, b_2) - by_hand)


def memory_of(case, **changed):
    params = case.params | changed
    return transformer.forward(params, case.config, case.source, case.decoder_input).activations["encoder.memory"][0]


@extra("d1-enc")
def what_the_memory_does_not_show():
    document, exact = toy.document(), toy.exact()
    w_q = document.params[f"{HEAD}.w_q"]
    unchanged = [memory_of(document, **{f"{HEAD}.w_q": factor * w_q}) - value("encoder.memory")[0] for factor in (0.1, 10)]
    return {
        "row1_ffn": value("encoder.0.feed_forward.out")[0, 1],
        "max_change_when_scores_scaled_by_0_1_and_10": largest(*unchanged),
        "enc_with_true_pe_sum": memory_of(replace(exact, config=replace(exact.config, eps=0.0))),
    }
