"""What the recomputations share: worked examples as arrays, samples drawn at random, and derivatives that follow no rule."""

import functools
from types import SimpleNamespace

import figures
import numpy as np

from byhand.numpy.attention import attention, attention_backward
from byhand.record import Record

value = figures.named  # one value of a worked example: value("encoder.0.self_attention.weights"), value("toy.exact:loss")


@functools.cache
def draw(*shape, seed=0):
    """A fixed sample of standard normal numbers."""
    array = np.random.default_rng([seed, *shape]).standard_normal(shape)
    array.flags.writeable = False
    return array


def largest(*differences):
    """The largest entry, in size, of any of the arrays."""
    return max(float(np.abs(difference).max()) for difference in differences)


def entropy(p):
    return -(p * np.log(p)).sum()


def letters(shape, sizes):
    """A shape in letters: letters((7, 3), {"n": 7, "dk": 3}) is ["n", "dk"]. The sizes must all differ."""
    names = {size: name for name, size in sizes.items()}
    assert len(names) == len(sizes)
    return [names[size] for size in shape]


def one_head(q, k, v, **options):
    """Attention of one head in one sequence: its output rows, scores and weights."""
    (y, _), stages = recorded(attention, *(np.asarray(rows, dtype=float)[None, None] for rows in (q, k, v)), **options)
    return y[0, 0], stages.scores[0, 0], stages.weights[0, 0]


def recorded(operation, *inputs, **options):
    """What an operation of the package gives back, and its stages by name."""
    record = Record()
    return operation(*inputs, **options, record=record), SimpleNamespace(**record.kept)


def attention_gradients(dy, cache):
    """What attention_backward gives back and records: q, k, v, weights and scores."""
    (dq, dk, dv), stages = recorded(attention_backward, dy, cache)
    return SimpleNamespace(**vars(stages), q=dq, k=dk, v=dv)


def by_complex_step(f, x):
    """∂f/∂x for a real-valued f, entry by entry, from Im f(x + iε)/ε: exact to float64, and knows no rule of calculus.

    f must be written with operations that continue to complex numbers.
    """
    gradient = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        nudged = x.astype(complex)
        nudged[place] += 1e-30j
        gradient[place] = f(nudged).imag / 1e-30
    return gradient


# The operations once more, as plainly as they can be written, for complex numbers too.
def plain_softmax(x):
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def plain_attention(q, k, v, mask=True):
    return plain_softmax(np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)) @ v


def plain_layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + beta


def plain_feed_forward(x, w_1, b_1, w_2, b_2):
    hidden = x @ w_1 + b_1
    return np.where(hidden.real > 0, hidden, 0) @ w_2 + b_2
