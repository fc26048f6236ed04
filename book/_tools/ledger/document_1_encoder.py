"""Document 1, the encoder: queries, keys and values, attention, add & norm, feed-forward."""

import math
from dataclasses import replace

import numpy as np

from byhand import toy
from byhand.numpy import attention, feed_forward, linear, transformer

from . import claim, extra, look_up
from .samples import draw, largest, plain_attention, plain_feed_forward, value

HEAD = "encoder.0.self_attention"

look_up(
    # queries, keys, values: head 1 of the one sentence
    {f"d1-{name}-{i}{j}": f"{HEAD}.{name}[0,0,{i},{j}]" for name in "qv" for i in (0, 1) for j in (0, 1)}
    | {"d1-q": f"{HEAD}.q[0,0]", "d1-k-equals-q": f"{HEAD}.k[0,0]", "d1-v": f"{HEAD}.v[0,0]"}
    # scores, weights, mixture
    | {"d1-scores": f"{HEAD}.scores[0,0]", "d1-softmax-a": f"{HEAD}.weights[0,0]", "d1-softmax-symmetry": f"{HEAD}.weights[0,0]"}
    | {f"d1-softmax-a{i}{j}": f"{HEAD}.weights[0,0,{i},{j}]" for i in (0, 1) for j in (0, 1)}
    | {f"d1-o-{i}{j}": f"{HEAD}.mixed[0,0,{i},{j}]" for i in (0, 1) for j in (0, 1)}
    | {"d1-o": f"{HEAD}.mixed[0,0]", "d1-head2-identical": f"{HEAD}.mixed[0,1]", "d1-mha": f"{HEAD}.out[0]"}
    # add & norm
    | {"d1-ln-residual": "encoder.0.residual_1[0]", "d1-ln-mu0": "encoder.0.norm_1.mean[0,0,0]", "d1-ln-var0": "encoder.0.norm_1.var[0,0,0]"}
    | {"d1-ln1-row0": "encoder.0.norm_1.out[0,0]", "d1-ln1-row1": "encoder.0.norm_1.out[0,1]", "d1-ln1": "encoder.0.norm_1.out[0]"}
    # feed-forward
    | {"d1-ffn-input0": "encoder.0.norm_1.out[0,0]", "d1-ffn-pre0": "encoder.0.feed_forward.hidden[0,0]"}
    | {"d1-ffn-relu0": "encoder.0.feed_forward.active[0,0]", "d1-ffn-out0": "encoder.0.feed_forward.out[0,0]"}
    | {"d1-enc": "encoder.memory[0]"}
)


# ---- queries, keys, values ----
@claim("d1-qkv-projection-formula")
def projection_formula():
    x, w = draw(2, 3, 4), draw(4, 5)
    sums = [[[sum(x[b, t, i] * w[i, j] for i in range(4)) for j in range(5)] for t in range(3)] for b in range(2)]
    return largest(linear.linear(x, w)[0] - sums)


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


@claim("d1-qkv-x-shape-first")
@claim("d1-qkv-x-shape-second")
def x_shape():
    return value("encoder.input").shape[1:]


@claim("d1-qkv-wq-shape")
def w_q_shape_of_a_head():
    return [value("config.d_model"), value(f"{HEAD}.w_q").shape[1] // value("config.n_heads")]


@claim("d1-qkv-shapes")
def qkv_shapes():
    return [value(f"{HEAD}.{name}").shape[2:] for name in "qkv"]


# ---- scores, weights, mixture ----
def raw_scores():
    return value(f"{HEAD}.q")[0, 0] @ value(f"{HEAD}.k")[0, 0].T


claim("d1-qkt")(raw_scores)
for i in (0, 1):
    for j in (0, 1):
        claim(f"d1-qkt-{i}{j}")(lambda i=i, j=j: raw_scores()[i, j])


@claim("d1-sqrt-dk")
def score_scale():
    return raw_scores()[0, 0] / value(f"{HEAD}.scores")[0, 0, 0, 0]


def exponentials():
    return np.exp(value(f"{HEAD}.scores")[0, 0, 0])


@claim("d1-softmax-exp")
def diagonal_exponential():
    return exponentials()[0]


@claim("d1-softmax-exp0")
def other_exponential():
    return exponentials()[1]


@claim("d1-softmax-sum0")
def normaliser():
    return exponentials().sum()


@extra("d1-softmax-a")
def weights_with_positions_added():
    return {"a_with_true_pe_sum": value(f"{HEAD}.weights", "toy.exact")[0, 0]}


@claim("d1-softmax-row-sums")
def row_sums():
    return value(f"{HEAD}.weights")[0, 0].sum(axis=-1)


@claim("d1-concat-width")
def concat_width():
    return value(f"{HEAD}.concat").shape[-1]


@claim("d1-wo-identity")
def identity_projection():
    return largest(value(f"{HEAD}.concat") - value(f"{HEAD}.out"), value(f"{HEAD}.w_o") - np.eye(4))


@claim("d1-mha-shape")
def attention_output_shape():
    return value(f"{HEAD}.out").shape[1:]


# ---- add & norm: the formulas on the padded, batched example, where nothing is symmetric ----
def rows_into_norm_1():
    return value("encoder.input", "toy.generic") + value("encoder.0.self_attention.out", "toy.generic")


def generic_norm_1(name):
    return value(f"encoder.0.norm_1.{name}", "toy.generic")


def mean_by_hand(x):
    return np.array([[[sum(row) / len(row)] for row in sequence] for sequence in x.tolist()])


def variance_by_hand(x):
    mean = mean_by_hand(x)
    return np.array([[[sum((v - m[0]) ** 2 for v in row) / len(row)] for row, m in zip(s, ms, strict=True)] for s, ms in zip(x, mean, strict=True)])


@claim("d1-ln-residual-formula")
def post_norm():
    x = rows_into_norm_1()
    normalised = (x - mean_by_hand(x)) / np.sqrt(variance_by_hand(x) + value("config.eps", "toy.generic"))
    return largest(value("encoder.0.residual_1", "toy.generic") - x, generic_norm_1("out") - generic_norm_1("gamma") * normalised - generic_norm_1("beta"))


@claim("d1-ln-mean-formula")
def mean_formula():
    return largest(generic_norm_1("mean") - mean_by_hand(rows_into_norm_1()))


@claim("d1-ln-var-formula")
def variance_formula():
    return largest(generic_norm_1("var") - variance_by_hand(rows_into_norm_1()))


@extra("d1-ln-var-formula")
def unbiased_variance():
    row = value("encoder.0.residual_1")[0, 0]
    return {"unbiased_over_biased_for_d4": row.var(ddof=1) / value("encoder.0.norm_1.var")[0, 0, 0]}


@claim("d1-ln-output-formula")
def output_formula():
    x = rows_into_norm_1()
    by_hand = np.empty(x.shape)
    for b, t, i in np.ndindex(x.shape):
        mean, var = mean_by_hand(x)[b, t, 0], variance_by_hand(x)[b, t, 0]
        by_hand[b, t, i] = generic_norm_1("gamma")[i] * (x[b, t, i] - mean) / math.sqrt(var + 1e-5) + generic_norm_1("beta")[i]
    return largest(generic_norm_1("out") - by_hand)


@claim("d1-ln-dev0")
def deviations():
    return value("encoder.0.residual_1")[0, 0] - value("encoder.0.norm_1.mean")[0, 0]


@claim("d1-ln-std0")
def standard_deviation():
    return math.sqrt(value("encoder.0.norm_1.var")[0, 0, 0])


@claim("d1-ln1-antisymmetric")
def negative_of_row_0():
    return -value("encoder.0.norm_1.out")[0, 0]


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


@claim("d1-ffn-w1-shape")
def w_1_shape():
    return value("encoder.0.feed_forward.w_1").shape


@claim("d1-ffn-w2-shape")
def w_2_shape():
    return value("encoder.0.feed_forward.w_2").shape


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


@claim("d1-enc-shape")
def memory_shape():
    return value("encoder.memory").shape[1:]
