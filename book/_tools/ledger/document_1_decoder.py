"""Document 1, the decoder: masked self-attention, cross-attention, the final row, the vocabulary."""

import numpy as np

from byhand import toy
from byhand.numpy import loss, softmax, transformer

from . import as_stated, claim, claims, extra
from .samples import value

SELF, CROSS = "decoder.0.self_attention", "decoder.0.cross_attention"


# ---- cross-attention ----
@claim("d1-cross-scored-position")
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
