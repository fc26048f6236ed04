"""One worked example through forward, loss and autograd: what byhand.numpy.step computes by hand."""

from typing import NamedTuple

import numpy as np
import torch

from ..toy import Case, check_case
from .decoder import Decoder
from .loss import cross_entropy
from .transformer import Transformer

Arrays = dict[str, np.ndarray]


class Gradients(NamedTuple):
    params: Arrays
    stages: Arrays


class Step(NamedTuple):
    activations: Arrays
    loss: float
    gradients: Gradients


def run(case: Case) -> Step:
    """L, and ∂L/∂ of every parameter and every recorded stage of a worked example (see byhand.toy), by autograd in float64

    Without a source it is a decoder stack's. Stages have the names of the forward pass; where one feeds several others its gradient is
    the sum over the ways back. One on which the loss does not depend has a gradient of 0.
    """
    check_case(case)
    module = (Decoder if case.source is None else Transformer)(case.config).double()
    module.load_params(case.params)
    stages: dict[str, torch.Tensor] = {}
    lengths = _tensor(case.target_lengths)
    if case.source is None:
        logits = module(case.decoder_input, lengths=lengths, activations=stages)
    else:
        logits = module(case.source, case.decoder_input, _tensor(case.source_lengths), lengths, activations=stages)
    for tensor in stages.values():
        if tensor.requires_grad:
            tensor.retain_grad()
    loss = cross_entropy(logits, torch.as_tensor(case.targets), case.smoothing, lengths=lengths, reduction=case.reduction)
    loss.backward()
    reached = {name: tensor for name, tensor in stages.items() if tensor.requires_grad}
    gradients = {name: torch.zeros_like(t) if t.grad is None else t.grad for name, t in reached.items()}
    return Step(_arrays(stages), loss.item(), Gradients(module.grads(), _arrays(gradients)))


def _tensor(lengths):
    return None if lengths is None else torch.as_tensor(lengths)


def _arrays(tensors):
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}
