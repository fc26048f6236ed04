"""Section 5 of document 2 with the standard library alone: the worked row, its score gradients, and central differences.

Written anew, since the document's own listing is not ours to print; the same numbers, the same two checks, the same three lines.
"""

import math

SCORES = (1 / math.sqrt(2), 0.0, 1 / math.sqrt(2))
VALUES = ((1, 0), (0, 2), (2, 1))
PROBE = (0.3, -0.2)  # L = 0.3 y_0 - 0.2 y_1


def softmax(scores):
    exponentials = [math.exp(s - max(scores)) for s in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def probed(vector):
    return PROBE[0] * vector[0] + PROBE[1] * vector[1]


def mixed(scores):
    a = softmax(scores)
    return [sum(a[j] * VALUES[j][i] for j in range(3)) for i in range(2)]


def loss(scores):
    return probed(mixed(scores))


def gradients(scores=SCORES):
    """∂L/∂s_j = a_j g·(v_j − y)"""
    a, y = softmax(scores), mixed(scores)
    return [a[j] * (probed(VALUES[j]) - probed(y)) for j in range(3)]


def differences(h, scores=SCORES):
    """(L(s + h e_j) − L(s − h e_j)) / 2h"""

    def nudged(j, h):
        return loss([s + h * (i == j) for i, s in enumerate(scores)])

    return [(nudged(j, h) - nudged(j, -h)) / (2 * h) for j in range(3)]


def furthest_apart(h):
    """Between rule and difference, of the three entries."""
    return max(abs(a - b) for a, b in zip(gradients(), differences(h), strict=True))


def lines():
    """What the listing prints."""
    found = {"weights": softmax(SCORES), "output": mixed(SCORES), "score gradients": gradients()}
    return [f"{name}: {[round(value, 6) for value in values]}" for name, values in found.items()]
