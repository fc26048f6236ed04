"""Document 1, the loss."""

import math

import numpy as np

from byhand import toy
from byhand.numpy import loss

from . import claim, extra, named
from .samples import draw, largest, plain_softmax, value

AM = 2


@named
def plain_loss():
    case = toy.document()
    return loss.cross_entropy(value("logits"), case.targets, smoothing=0.0, reduction="last")[0]


@claim("d1-loss-smoothing-formula")
def smoothing_formula():
    by_hand = [(1 - 0.1) * (k == AM) + 0.1 / 4 for k in range(4)]
    return largest(loss.smoothed_targets(np.array([AM]), 4, 0.1) - by_hand)


@extra("d1-loss-smoothing-formula")
def smoothing_as_in_tensor2tensor():
    q = np.array([1 - 0.1 if k == AM else 0.1 / 3 for k in range(4)])
    return {"q_in_tensor2tensor_variant": q, "loss_in_that_variant": -sum(q * np.log(value("probabilities")[0, 1]))}


@named
def smoothed():
    case = toy.document()
    return loss.smoothed_targets(case.targets[0, -1], case.config.target_vocab, case.smoothing)


@claim("d1-loss-smoothed-formula")
def smoothed_loss_formula():
    logits, targets = draw(2, 3, 5), np.array([[0, 4, 1], [2, 2, 3]])
    total = 0.0
    for b, t in np.ndindex(2, 3):
        p = plain_softmax(logits[b, t])
        total -= sum(((1 - 0.1) * (k == targets[b, t]) + 0.1 / 5) * math.log(p[k]) for k in range(5))
    return abs(loss.cross_entropy(logits, targets, smoothing=0.1, reduction="sum")[0] - total)
