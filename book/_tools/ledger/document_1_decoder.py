"""Document 1, the decoder: masked self-attention, cross-attention, the final row, the vocabulary."""

import math

import numpy as np

from byhand import toy
from byhand.numpy import linear, loss, softmax, transformer

from . import as_stated, claim, claims, extra, look_up
from .samples import draw, largest, value

SELF, CROSS = "decoder.0.self_attention", "decoder.0.cross_attention"

look_up(
    {
        "d1-dec-weights-pos0": f"{SELF}.weights[0,0,0]",
        "d1-dec-weights-pos1": f"{SELF}.weights[0,0,1]",
        "d1-dec1": "decoder.0.norm_1.out[0]",
        "d1-cross-scores": f"{CROSS}.scores[0,0]",
        "d1-cross-a00": f"{CROSS}.weights[0,0,0,0]",
        "d1-cross-a01": f"{CROSS}.weights[0,0,0,1]",
        "d1-cross-a": f"{CROSS}.weights[0,0]",
        "d1-cross-o": f"{CROSS}.mixed[0,0]",
        "d1-cross-h": "decoder.out[0,1]",
        "d1-z": "logits[0,1]",
        "d1-p": "probabilities[0,1]",
        "d1-p-am": "probabilities[0,1,2]",
    }
    | {f"d1-cross-{name}": f"{CROSS}.{name}[0,0]" for name in "qk"}
    | {f"d1-cross-{name}-{i}{j}": f"{CROSS}.{name}[0,0,{i},{j}]" for name in "qk" for i in (0, 1) for j in (0, 1)}
    | {f"d1-cross-o-{i}{j}": f"{CROSS}.mixed[0,0,{i},{j}]" for i in (0, 1) for j in (0, 1)}
    | {f"d1-z-{k}": f"logits[0,1,{k}]" for k in range(4)}
    | {f"d1-p-{k}": f"probabilities[0,1,{k}]" for k in range(4)}
)


# ---- masked self-attention ----
@claim("d1-dec-mask-before-softmax", holds=lambda found: found["masked_weight"] == 0 and found["row_sum_error"] < 1e-12)
def masked_weight():
    weights = value(f"{SELF}.weights")[0]
    return {"masked_weight": largest(weights[:, 0, 1]), "row_sum_error": largest(weights.sum(axis=-1) - 1)}


# ---- cross-attention ----
def raw_scores():
    return value(f"{CROSS}.q")[0, 0] @ value(f"{CROSS}.k")[0, 0].T


claim("d1-cross-qkt")(raw_scores)
for i in (0, 1):
    for j in (0, 1):
        claim(f"d1-cross-qkt-{i}{j}")(lambda i=i, j=j: raw_scores()[i, j])


def exponentials():
    return np.exp(value(f"{CROSS}.scores")[0, 0, 0])


@claim("d1-cross-exp-pos")
def exponential_of_the_positive_score():
    return exponentials()[0]


@claim("d1-cross-exp-neg")
def exponential_of_the_negative_score():
    return exponentials()[1]


@claim("d1-cross-sum")
def normaliser():
    return exponentials().sum()


@claim("d1-cross-residual-shape")
def shape_added_to_dec_1():
    return value(f"{CROSS}.out").shape[1:]


@extra("d1-cross-residual-shape")
def shape_of_one_head():
    return {"shape_of_one_head": value(f"{CROSS}.mixed").shape[2:]}


@claim("d1-cross-scored-position", holds=lambda found: found["target_at_scored_position"] == "am")
def scored_position():
    case = toy.document()
    names, weights = case.names["target"], loss.position_weights(case.targets, reduction=case.reduction)
    (place,) = np.flatnonzero(weights[0])
    return {"input_at_scored_position": names[case.decoder_input[0, place]], "target_at_scored_position": names[case.targets[0, place]]}


# ---- the final row ----
def as_the_document_says():
    """γ = 1 in the last norm, the encoder's feed-forward weights, and both cross-attention heads alike."""
    case = toy.document()
    changed = {"decoder.0.norm_3.gamma": np.ones(4)}
    changed |= {f"decoder.0.feed_forward.{name}": case.params[f"encoder.0.feed_forward.{name}"] for name in ("w_1", "w_2")}
    for name in ("w_q", "w_k", "w_v"):
        head_1 = case.params[f"{CROSS}.{name}"][:, :2]
        changed[f"{CROSS}.{name}"] = np.hstack([head_1, head_1])
    return case, transformer.forward(case.params | changed, case.config, case.source, case.decoder_input)


@as_stated("d1-cross-h")
def final_row_as_stated():
    return as_the_document_says()[1].activations["decoder.out"][0, 1]


@extra("d1-cross-h")
def why_the_final_row_is_impossible():
    case, out = as_the_document_says()
    printed = np.array(claims.lookup("d1-cross-h")["printed"], dtype=float)
    return {
        "printed_h_variance": printed.var(),
        "gamma_that_would_give_it": value("decoder.0.norm_3.gamma")[0],
        "exact_p": softmax.softmax(out.logits)[0][0, 1],
        "exact_cross_entropy": loss.cross_entropy(out.logits, case.targets, reduction="last")[0],
    }


@claim("d1-cross-h-shape")
def final_row_shape():
    return value("decoder.out")[0, 1:].shape


# ---- vocabulary ----
@claim("d1-vocab-formula")
def logits_formula():
    h, w, b = draw(1, 2, 4), draw(4, 5), draw(5)
    sums = [[[sum(h[0, t, i] * w[i, j] for i in range(4)) + b[j] for j in range(5)] for t in range(2)]]
    return largest(linear.linear(h, w, b)[0] - sums)


def vocabulary_exponentials():
    return np.exp(value("logits")[0, 1])


@claim("d1-vocab-e1")
def exponential_of_1():
    return vocabulary_exponentials()[0]


@claim("d1-vocab-e0")
def exponential_of_0():
    return vocabulary_exponentials()[1]


@claim("d1-vocab-em1")
def exponential_of_minus_1():
    return vocabulary_exponentials()[2]


@claim("d1-vocab-denom")
def denominator():
    return vocabulary_exponentials().sum()


@extra("d1-p")
def sum_of_the_print():
    return {"sum_of_printed": sum(map(float, claims.lookup("d1-p")["printed"]))}


@claim("d1-p-confidently-wrong", holds=lambda found: found["top_probability"] > value("probabilities")[0, 1, 2])
def how_confident():
    p = value("probabilities")[0, 1]
    entropy = -sum(p * np.log(p))
    return {"top_probability": p.max(), "entropy_nats": entropy, "entropy_over_maximum": entropy / math.log(4)}
