"""One worked example through forward, loss and backward."""

from typing import NamedTuple

from jaxtyping import Float

from ..record import Record
from ..toy import Case, check_case
from . import decoder, passes, transformer
from .loss import Array, cross_entropy


class Step(NamedTuple):
    """logits, activations and cache stand in `output`; gradients has `.params` and `.stages`."""

    output: passes.Output
    loss: float
    dlogits: Float[Array, "batch time vocab"]
    gradients: passes.Gradients


def run(case: Case) -> Step:
    """L, ∂L/∂z and every activation and gradient of a worked example (see byhand.toy), recorded, before any update

    Without a source it is a decoder stack's.
    """
    check_case(case)
    if case.source is None:
        model, inputs = decoder, (case.decoder_input, None, case.target_lengths)
    else:
        model, inputs = transformer, (case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    output = model.forward(case.params, case.config, *inputs, record=Record())
    loss, dlogits = cross_entropy(
        output.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction
    )
    return Step(output, loss, dlogits, model.gradients(dlogits, output.cache))
