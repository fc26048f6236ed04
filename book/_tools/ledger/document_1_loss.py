"""Document 1, the loss."""

import math

import numpy as np

from byhand import toy
from byhand.numpy import loss

from . import claim, extra, look_up
from .samples import draw, largest, plain_softmax, value

look_up({"d1-loss-printed-probabilities": "loss", "d1-loss-substitution": "loss", "d1-loss-value": "loss", "d1-end-loss": "loss"})

AM = 2


@claim("d1-loss-ce")
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


def smoothed():
    case = toy.document()
    return loss.smoothed_targets(case.targets[0, -1], case.config.target_vocab, case.smoothing)


@claim("d1-loss-eps-over-v")
def mass_of_a_wrong_class():
    return smoothed()[0]


@claim("d1-loss-q")
def smoothed_target():
    return smoothed()


@claim("d1-loss-smoothed-formula")
def smoothed_loss_formula():
    logits, targets = draw(2, 3, 5), np.array([[0, 4, 1], [2, 2, 3]])
    total = 0.0
    for b, t in np.ndindex(2, 3):
        p = plain_softmax(logits[b, t])
        total -= sum(((1 - 0.1) * (k == targets[b, t]) + 0.1 / 5) * math.log(p[k]) for k in range(5))
    return abs(loss.cross_entropy(logits, targets, smoothing=0.1, reduction="sum")[0] - total)


for k, name in enumerate(("d1-loss-log-p0", "d1-loss-log-p1", "d1-loss-log-p2")):
    claim(name)(lambda k=k: math.log(value("probabilities")[0, 1, k]))


@extra("d1-loss-value")
def floor_of_the_loss():
    q = smoothed()
    return {"floor_entropy_of_q": -sum(q * np.log(q)), "below_plain_ce_by": plain_loss() - value("loss")}
