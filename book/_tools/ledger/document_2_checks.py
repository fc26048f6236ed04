"""Document 2, sections 13 and 14: the checks, and the small calculation once more."""

import numpy as np

from byhand import check, toy
from byhand.numpy import decoder, softmax

from . import claim, claims
from .document_2_attention import PROBE, V, worked_example
from .document_2_derivative import SCORES, errors
from .samples import largest

CASE = toy.decoder()


def logits(tokens, embedding=CASE.params["embedding"]):
    return decoder.forward(CASE.params | {"embedding": embedding}, CASE.config, tokens).logits


def with_dropout(rate=0.1):
    """The toy decoder as it is trained: each pass drops some of the embedding's numbers, other ones each time."""
    rng, table = np.random.default_rng(0), CASE.params["embedding"]
    return lambda tokens: logits(tokens, table * (rng.random(table.shape) >= rate) / (1 - rate))


@claim("d2-s13-causal-isolation")
def earlier_outputs():
    tokens = CASE.decoder_input
    evaluation, training = (check.causal_isolation(run, tokens, CASE.config.target_vocab) for run in (logits, with_dropout()))
    return {
        "earlier_change_in_eval_below_1e12": evaluation["a later token moves no earlier logits"].worst < 1e-12,
        "same_input_differs_with_dropout_on": training["the same tokens give the same logits"].holds is False,
    }


@claim("d2-s13-probability")
def probabilities():
    activations = decoder.forward(CASE.params, CASE.config, CASE.decoder_input).activations
    past = np.tri(CASE.decoder_input.shape[1], dtype=bool)
    weights, scores = (np.array([activations[f"block.{i}.attention.{name}"] for i in range(CASE.config.n_layers)]) for name in ("weights", "scores"))
    report = check.probability_invariants(activations, past)  # finds the same, for constants up to ±1000
    return {
        "row_sums_one": largest(weights.sum(axis=-1) - 1) < 1e-12 and report["allowed weights sum to 1"].holds,
        "masked_weight": largest(weights[..., ~past]),
        "shift_residual_below_1e12": largest(softmax.softmax(scores + 3, past)[0] - weights) < 1e-12 and not report.failures,
    }


@claim("d2-s13-derivative")
def single_and_double_precision():
    def in_float32(scores):
        scores, values, probe = (array.astype(np.float32) for array in (scores, V, PROBE))
        return softmax.softmax(scores)[0] @ values @ probe

    return {
        "float64_error_below_1e10": largest(errors(1e-5)) < 1e-10,
        "float32_error_at_1e-5_above_1e-4": largest(check.numerical_gradient(in_float32, SCORES, 1e-5) - worked_example()["gradients"]) > 1e-4,
    }


@claim("d2-s14-reproduce")
def once_more():
    printed = {name.split("-")[-1]: claims.lookup(f"d2-{name}")["printed"] for name in ("s4-weights", "s4-output", "s5-code-gradients")}
    return {"residual_below_1e6": all(largest(worked_example()[name] - np.array(text, dtype=float)) < 1e-6 for name, text in printed.items())}
