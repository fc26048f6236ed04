"""One worked example through forward, loss and backward."""

from typing import NamedTuple

from jaxtyping import Float

from ..record import Record, nothing
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
    model, output, value, dlogits = _to_the_loss(case, Record())
    return Step(output, value, dlogits, model.gradients(dlogits, output.cache))


def loss(case: Case) -> float:
    """L of a worked example, by its forward pass alone"""
    return _to_the_loss(case, nothing)[2]


def _to_the_loss(case, record):
    check_case(case)
    if case.source is None:
        model, inputs = decoder, (case.decoder_input, None, case.target_lengths)
    else:
        model, inputs = transformer, (case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    output = model.forward(case.params, case.config, *inputs, record=record)
    value, dlogits = cross_entropy(
        output.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction
    )
    return model, output, value, dlogits
