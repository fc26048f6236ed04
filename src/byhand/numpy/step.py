"""One worked example through forward, loss and backward."""

from typing import NamedTuple

from jaxtyping import Float

from ..toy import Case
from .loss import Array, cross_entropy
from .transformer import Gradients, Output, forward, gradients


class Step(NamedTuple):
    """logits, activations and cache stand in `output`; gradients has `.params` and `.stages`."""

    output: Output
    loss: float
    dlogits: Float[Array, "batch time vocab"]
    gradients: Gradients


def run(case: Case) -> Step:
    """L, ∂L/∂z and every gradient of a worked example (see byhand.toy), before any update."""
    output = forward(
        case.params, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths
    )
    loss, dlogits = cross_entropy(
        output.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction
    )
    return Step(output, loss, dlogits, gradients(dlogits, output.cache))
