"""The exercises of the pages: what is wanted, on which numbers it is tried, and the mistakes that are known.

    attempt(my_attention, "attention")

Each is one function with switches: without any it is the answer, with one it makes a mistake, with two it makes both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Exercise:
    """answer(*sample, **switches); mistakes: what a mistake is called, and its switches; returns: what each array of the answer is called."""

    answer: Callable
    samples: tuple[tuple, ...]
    mistakes: Mapping[str, Mapping[str, Any]]
    returns: tuple[str, ...] = ()
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def mistaken(self) -> dict[str, Callable]:
        """Every known mistake as a function, and after them every two together."""
        known = {name: partial(self.answer, **switches) for name, switches in (self.mistakes | self.parts).items()}
        for (one, some), (other, more) in combinations(self.mistakes.items(), 2):
            if not some.keys() & more.keys():
                known[f"two things are wrong: {one}; and {other}"] = partial(self.answer, **some, **more)
        return known


def _softmax(s, axis=-1):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _normals(seed, *shapes):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=shape) for shape in shapes)


# ---- forward ------------------------------------------------------------------------------------


def _embedding(tokens, table, factor=lambda v, d: d**0.5):
    return table[tokens] * factor(*table.shape)


def _positions(length, d_model, exponent=lambda i, d: 2 * i / d, first=0, base=10000.0, functions=(np.sin, np.cos), halves=False):
    angles = np.arange(first, first + length)[:, None] / base ** exponent(np.arange(d_model // 2), d_model)
    pair = [f(angles) for f in functions]
    return np.hstack(pair) if halves else np.stack(pair, axis=-1).reshape(length, d_model)


def _heads(x, w, n_heads, cut=lambda y, n: y.reshape(len(y), n, -1).swapaxes(0, 1)):
    return cut(x @ w, n_heads)


def _over_root(q, k, v):
    return 1 / np.sqrt(q.shape[1])


def _attention(q, k, v, scale=_over_root, weigh=_softmax, mix=lambda a, v: a @ v, allowed=None, filling=-np.inf, late=False):
    scores = q @ k.T * scale(q, k, v)
    seen = np.ones_like(scores, dtype=bool) if allowed is None else allowed(len(q))
    if late:
        return mix(np.where(seen, weigh(scores), 0), v)
    return mix(weigh(np.where(seen, scores, filling)), v)


_SCALES = {
    "1/√d_k is forgotten": {"scale": lambda q, k, v: 1.0},
    "the scores are divided by d_k and not by its root": {"scale": lambda q, k, v: 1 / q.shape[1]},
    "the scores are multiplied by √d_k and not divided": {"scale": lambda q, k, v: q.shape[1] ** 0.5},
    "the scores are divided by the root of the number of keys and not of d_k": {"scale": lambda q, k, v: 1 / len(k) ** 0.5},
    "the scores are divided by the root of the values' width and not of d_k": {"scale": lambda q, k, v: 1 / v.shape[1] ** 0.5},
}
_WEIGHTS = {
    "the softmax runs over the queries": {"weigh": lambda s: _softmax(s, axis=0)},
    "the softmax runs over all scores at once": {"weigh": lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum()},
    "scores are divided by their sum, without e": {"weigh": lambda s: s / s.sum(axis=1, keepdims=True)},
    "the division by the sum is forgotten": {"weigh": np.exp},
    "the scores are mixed as they are, without a softmax": {"weigh": lambda s: s},
}
_STOPPED = {"it stops at the weights, and no values are mixed": {"mix": lambda a, v: a}}
_HIDDEN = {
    "nothing is hidden": {"allowed": None},
    "the past is hidden and not the future": {"allowed": lambda n: np.tri(n, dtype=bool).T},
    "each position is hidden from itself too": {"allowed": lambda n: np.tri(n, k=-1, dtype=bool), "filling": -1e9},
    "each position sees one ahead": {"allowed": lambda n: np.tri(n, k=1, dtype=bool)},
    "the weights are cut after the softmax, and do not sum to one": {"late": True},
    "hidden scores are set to 0 and not to −∞": {"filling": 0.0},
}


def _masked(q, k, v, allowed=lambda n: np.tri(n, dtype=bool), **switches):
    return _attention(q, k, v, allowed=allowed, **switches)


def _cross(x, memory, w_q, w_k, w_v, from_x=("q",), order="qkv", by_model=False, **switches):
    if by_model:
        switches["scale"] = lambda q, k, v: x.shape[1] ** -0.5
    rows, weights = {letter: x if letter in from_x else memory for letter in "qkv"}, dict(zip(order, (w_q, w_k, w_v)))
    return _attention(*(rows[letter] @ weights[letter] for letter in "qkv"), **switches)


def _mean(x):
    return x.mean(axis=1, keepdims=True)


def _norm(x, gamma, beta, eps, mean=_mean, spread=lambda x, eps: np.sqrt(x.var(axis=1, keepdims=True) + eps), scaled=True, shifted=True):
    y = (x - mean(x)) / spread(x, eps)
    return (gamma * y if scaled else y) + (beta if shifted else 0)


def _feed_forward(x, w_1, b_1, w_2, b_2, gate=lambda u: np.maximum(u, 0), late=False, early=False, last=lambda y: y, first_bias=1, second_bias=1):
    hidden = gate(x) @ w_1 + b_1 if early else gate(x @ w_1) + b_1 if late else gate(x @ w_1 + first_bias * b_1)
    return last(hidden @ w_2 + second_bias * b_2)


def _probabilities(h, w, b, weigh=_softmax, bias="inside"):
    return weigh(h @ w + b * ((bias == "inside") - (bias == "minus"))) + b * (bias == "outside")


def _targets(v, target, smoothing, others=lambda s, v: s / v, own=lambda s, v: 1 - s + s / v):
    q = np.full((*np.shape(target), v), others(smoothing, v))
    np.put_along_axis(q, np.asarray(target)[..., None], own(smoothing, v), axis=-1)
    return q


_SMOOTHING = {
    "nothing is smoothed": {"others": lambda s, v: 0.0, "own": lambda s, v: 1.0},
    "ε/(V − 1) goes to the wrong words only": {"others": lambda s, v: s / (v - 1), "own": lambda s, v: 1 - s},
    "the target gets 1 − ε, without its share ε/V": {"own": lambda s, v: 1 - s},
    "the wrong words get nothing": {"others": lambda s, v: 0.0},
}


def _loss(z, target, smoothing, sign=-1, log=np.log, p=_softmax, total=np.sum, exchanged=False, **smooth):
    one, other = _targets(len(z), target, smoothing, **smooth), p(z)
    return sign * total(other * log(one) if exchanged else one * log(other))


def _logits(z, targets, smoothing, p=_softmax, minus=1, sign=1, share=lambda rows, v: 1 / rows, through=lambda p: 1, **smooth):
    found = p(z)
    return sign * through(found) * (found - minus * _targets(z.shape[1], targets, smoothing, **smooth)) * share(*z.shape)


# ---- backward -----------------------------------------------------------------------------------


def _difference(f, x, h, down=True, by=lambda h: 2 * h, push=1):
    return (f(x + push * h) - f(x - push * h if down else x)) / by(h)


def _residual_backward(dy, w, around=1, through=1, turn=np.transpose):
    return around * dy + through * (dy @ turn(w))


def _rows(x):
    return x.reshape(-1, x.shape[-1])


def _linear_backward(dy, x, w, dx=lambda dy, x, w: dy @ w.T, dw=lambda dy, x, w: x.T @ dy, db=lambda dy: dy.sum(axis=0)):
    return dx(dy, x, w), dw(dy, x, w), db(dy)


def _variance(x, eps):
    return x.var(axis=1, keepdims=True) + eps


def _norm_backward(dy, x, gamma, eps, scaled="inside", mean=_mean, first=1, second=1, root=lambda s: s, along=lambda hat: hat, variance=_variance):
    s = np.sqrt(variance(x, eps))
    hat = (x - _mean(x)) / s
    g = dy * gamma if scaled == "inside" else dy
    dx = (g - first * mean(g) - second * along(hat) * mean(g * hat)) / root(s)
    return dx * gamma if scaled == "outside" else dx


def _feed_forward_backward(dy, x, w_1, b_1, w_2, gate=lambda u, dm: u > 0, inner=lambda u: np.maximum(u, 0), turned=(), around=0, bias=1):
    u, dm = x @ w_1 + bias * b_1, dy @ w_2.T
    du = dm * gate(u, dm)
    found = {"dx": around * dy + du @ w_1.T, "dw_1": x.T @ du, "dw_2": inner(u).T @ dy}
    return tuple(value.T if name in turned else value for name, value in found.items())


def _attention_backward(
    dy, q, k, v, rule=lambda da, a: a * (da - (da * a).sum(axis=1, keepdims=True)), root=lambda q, v: q.shape[1] ** 0.5,
    scale_q=1, scale_k=1, for_q=lambda ds, q, k: ds @ k, for_k=lambda ds, q, k: ds.T @ q, for_v=lambda a, dy: a.T @ dy,
):  # fmt: skip
    r = root(q, v)
    a = _softmax(q @ k.T / q.shape[1] ** 0.5)
    ds = rule(dy @ v.T, a)
    return for_q(ds, q, k) / r**scale_q, for_k(ds, q, k) / r**scale_k, for_v(a, dy)


def _softmax_backward(da, a, rule=lambda da, a: a * (da - (da * a).sum(axis=1, keepdims=True))):
    return rule(da, a)


_RULES = {
    "the softmax is taken back entry by entry": {"rule": lambda da, a: a * (1 - a) * da},
    "the sum over the row is forgotten": {"rule": lambda da, a: a * da},
    "the factor a in front is forgotten": {"rule": lambda da, a: da - (da * a).sum(axis=1, keepdims=True)},
    "the mean of da is not weighted by a": {"rule": lambda da, a: a * (da - da.mean(axis=1, keepdims=True))},
    "the sum runs over the queries": {"rule": lambda da, a: a * (da - (da * a).sum(axis=0))},
    "the sum runs over all entries": {"rule": lambda da, a: a * (da - (da * a).sum())},
    "the weighted sum is divided by the number of keys": {"rule": lambda da, a: a * (da - (da * a).mean(axis=1, keepdims=True))},
    "da is passed on as it is": {"rule": lambda da, a: da},
}


def _input_gradient(d_sum, dq, dk, dv, w_q, w_k, w_v, around=1, query=1, key=1, value=1, w=lambda w_q, w_k, w_v: (w_q, w_k, w_v)):
    w_q, w_k, w_v = w(w_q, w_k, w_v)
    return around * d_sum + query * dq @ w_q.T + key * dk @ w_k.T + value * dv @ w_v.T


def _scatter(tokens, dy, vocab, factor=lambda d: d**0.5, put="add"):
    table = np.zeros((vocab, dy.shape[1]))
    for token, row in zip(tokens, dy):
        table[token] = row if put == "last" else table[token] + row
    if put == "first":
        table[tokens[::-1]] = dy[::-1]
    if put == "mean":
        table /= np.maximum(np.bincount(tokens, minlength=vocab), 1)[:, None]
    return table * factor(dy.shape[1])


def _matrix_backward(x, w, dy, turn=np.transpose, dw=lambda x, dy: _rows(x).T @ _rows(dy)):
    return dy @ turn(w), dw(x, dy)


def _adam(w, g, m, v, t, lr, sign=-1, betas=(0.9, 0.98), square=np.square, late=0, corrected=True, keep=False, divide=lambda m, v: m / (np.sqrt(v) + 1e-9)):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * square(g)
    m_hat, v_hat = (m / (1 - betas[0] ** (t - late)), v / (1 - betas[1] ** (t - late))) if corrected else (m, v)
    return w + sign * lr * divide(m_hat, v_hat), *((m_hat, v_hat) if keep else (m, v))


def _parameters(d, d_ff, layers, vocab, attentions=3, biases=1, norms=5, networks=2, tables=1):
    network = 2 * d * d_ff + biases * (d_ff + d)
    return layers * (attentions * 4 * d * d + networks * network + norms * 2 * d) + tables * vocab * d


def _silent_units(hidden, scored, rows=lambda on, scored: on[scored], any_row=np.any, silent=np.logical_not):
    return silent(any_row(rows(hidden > 0, scored), axis=0))


_HALF = np.array([True, False, True, False])
_ATTENTION = (_normals(0, (3, 2), (5, 2), (5, 3)), _normals(1, (4, 3), (4, 3), (4, 3)))
_TOKENS = np.array([2, 0, 2, 3, 2])
EXERCISES = {
    "embedding": Exercise(
        _embedding,
        ((np.array([2, 0, 2]), *_normals(0, (5, 6))),),
        {
            "the factor √d_model is forgotten": {"factor": lambda v, d: 1},
            "the factor is d_model without its root": {"factor": lambda v, d: d},
            "the factor comes from the vocabulary's size": {"factor": lambda v, d: v**0.5},
            "it is divided by √d_model and not multiplied": {"factor": lambda v, d: d**-0.5},
        },
    ),
    "positions": Exercise(
        _positions,
        ((5, 6), (3, 8)),
        {
            "all sines stand first and then all cosines": {"halves": True},
            "the exponent is i/d_model in place of 2i/d_model": {"exponent": lambda i, d: i / d},
            "the exponent counts columns, so that a pair has two frequencies' distance": {"exponent": lambda i, d: 4 * i / d},
            "sine and cosine have changed places": {"functions": (np.cos, np.sin)},
            "positions are counted from 1": {"first": 1},
            "the base is 1000": {"base": 1000.0},
        },
    ),
    "heads": Exercise(
        _heads,
        ((*_normals(0, (3, 4), (4, 6)), 2), (*_normals(1, (2, 4), (4, 6)), 3)),
        {
            "the array is reshaped, and time is not exchanged with heads": {"cut": lambda y, n: y.reshape(n, len(y), -1)},
            "every n-th column goes to a head, in place of a block": {"cut": lambda y, n: np.stack([y[:, h::n] for h in range(n)])},
            "the heads stand behind time, (T, heads, d)": {"cut": lambda y, n: y.reshape(len(y), n, -1)},
            "the heads are not cut apart": {"cut": lambda y, n: y},
        },
    ),
    "attention": Exercise(_attention, _ATTENTION, _SCALES | _WEIGHTS, parts=_STOPPED),
    "masked_attention": Exercise(
        _masked, (_normals(0, (5, 2), (5, 2), (5, 3)), _normals(1, (3, 3), (3, 3), (3, 3))), _HIDDEN | _SCALES | _WEIGHTS, parts=_STOPPED
    ),
    "cross_attention": Exercise(
        _cross,
        (_normals(0, (4, 6), (5, 6), (6, 3), (6, 3), (6, 3)), _normals(1, (3, 4), (5, 4), (4, 2), (4, 2), (4, 3))),
        {
            "queries come from the memory, keys and values from the decoder": {"from_x": ("k", "v")},
            "it is self-attention, and never looks at the memory": {"from_x": ("q", "k", "v")},
            "everything comes from the memory": {"from_x": ()},
            "keys and values have exchanged their matrices": {"order": "qvk"},
            "queries and keys have exchanged their matrices": {"order": "kqv"},
            "the scores are divided by the root of d_model and not of d_k": {"by_model": True},
        }
        | _SCALES
        | _WEIGHTS,
        parts=_STOPPED,
    ),
    "layer_norm": Exercise(
        _norm,
        ((*_normals(0, (3, 5), (5,), (5,)), 0.1), (*_normals(1, (4, 4), (4,), (4,)), 0.01)),
        {
            "the variance divides by d − 1": {"spread": lambda x, eps: np.sqrt(x.var(axis=1, ddof=1, keepdims=True) + eps)},
            "ε is added to the root and not inside it": {"spread": lambda x, eps: x.std(axis=1, keepdims=True) + eps},
            "ε is forgotten": {"spread": lambda x, eps: x.std(axis=1, keepdims=True)},
            "the row is divided by the variance and not by its root": {"spread": lambda x, eps: x.var(axis=1, keepdims=True) + eps},
            "the division by the root is forgotten": {"spread": lambda x, eps: 1.0},
            "the mean is not taken away": {"mean": lambda x: 0},
            "mean and variance run over the rows, as in batch norm": {
                "mean": lambda x: x.mean(axis=0), "spread": lambda x, eps: np.sqrt(x.var(axis=0) + eps)},
            "mean and variance are those of the whole array": {"mean": np.mean, "spread": lambda x, eps: np.sqrt(x.var() + eps)},
            "γ is forgotten": {"scaled": False},
            "β is forgotten": {"shifted": False},
        },
    ),  # fmt: skip
    "feed_forward": Exercise(
        _feed_forward,
        (_normals(0, (3, 4), (4, 6), (6,), (6, 4), (4,)),),
        {
            "the gate is missing": {"gate": lambda u: u},
            "the gate takes the size and not the positive part": {"gate": np.abs},
            "the gate lets the negative part through": {"gate": lambda u: np.minimum(u, 0)},
            "the result is gated too": {"last": lambda y: np.maximum(y, 0)},
            "b₁ is added behind the gate": {"late": True},
            "the gate stands before W₁": {"early": True},
            "b₁ is forgotten": {"first_bias": 0},
            "b₂ is forgotten": {"second_bias": 0},
        },
    ),
    "probabilities": Exercise(
        _probabilities,
        (_normals(0, (3, 4), (4, 5), (5,)),),
        {
            "the softmax runs over the positions": {"weigh": lambda s: _softmax(s, axis=0)},
            "logits are divided by their sum, without e": {"weigh": lambda s: s / s.sum(axis=1, keepdims=True)},
            "the division by the sum is forgotten": {"weigh": np.exp},
            "the sum runs over all rows": {"weigh": lambda s: np.exp(s) / np.exp(s).sum()},
            "the logits are returned": {"weigh": lambda s: s},
            "their logarithms are returned": {"weigh": lambda s: np.log(_softmax(s))},
            "the bias is added to the probabilities": {"bias": "outside"},
            "the bias is forgotten": {"bias": ""},
            "the bias is subtracted": {"bias": "minus"},
        },
    ),
    "loss": Exercise(
        _loss,
        ((*_normals(0, 5), 3, 0.2), (*_normals(1, 4), 0, 0.0)),
        _SMOOTHING
        | {
            "p and q have exchanged their places": {"exchanged": True},
            "the minus sign is missing": {"sign": 1},
            "the logarithm is to base 2": {"log": np.log2},
            "the logarithm is to base 10": {"log": np.log10},
            "it is a mean over the words and not a sum": {"total": np.mean},
            "the terms are not added up": {"total": lambda x: x},
        },
    ),
    "difference": Exercise(
        _difference,
        ((np.exp, 1.0, 0.01), (np.sin, 0.3, 0.1)),
        {
            "only one side is pushed": {"down": False, "by": lambda h: h},
            "the distance is h and not 2h": {"by": lambda h: h},
            "one side is pushed, and the distance is 2h": {"down": False},
            "each side is pushed by h/2 and not by h": {"push": 0.5, "by": lambda h: h},
            "the division is forgotten": {"by": lambda h: 1},
        },
    ),
    "residual_backward": Exercise(
        _residual_backward,
        (_normals(0, (3, 4), (4, 4)),),
        {
            "the way around is forgotten": {"around": 0},
            "the way through is forgotten": {"through": 0},
            "W is not transposed": {"turn": lambda w: w},
            "the two ways are averaged": {"around": 0.5, "through": 0.5},
            "one is taken from the other": {"through": -1},
            "the way around counts twice": {"around": 2},
        },
    ),
    "logits": Exercise(
        _logits,
        ((*_normals(0, (3, 5)), np.array([4, 0, 2]), 0.1), (*_normals(1, (4, 4)), np.array([1, 1, 0, 3]), 0.0)),
        _SMOOTHING
        | {
            "the mean is forgotten": {"share": lambda rows, v: 1.0},
            "the mean runs over all entries": {"share": lambda rows, v: 1 / (rows * v)},
            "it is divided by the number of words and not of rows": {"share": lambda rows, v: 1 / v},
            "p and q have exchanged their places": {"sign": -1},
            "q is not subtracted": {"minus": 0},
            "q is added": {"minus": -1},
            "the softmax's derivative is taken once more": {"through": lambda p: p * (1 - p)},
            "the softmax runs over the positions": {"p": lambda z: _softmax(z, axis=0)},
            "the softmax is missing": {"p": lambda z: z},
        },
    ),
    "linear_backward": Exercise(
        _linear_backward,
        (_normals(0, *[(4, 4)] * 3), _normals(1, (3, 2), (3, 4), (4, 2))),  # all square first: no shape helps
        {
            "W is not transposed in dx": {"dx": lambda dy, x, w: dy @ w},
            "dx is multiplied by x": {"dx": lambda dy, x, w: dy @ w.T * x},
            "dx is made from x and not from dy": {"dx": lambda dy, x, w: x @ w.T},
            "dw is transposed": {"dw": lambda dy, x, w: dy.T @ x},
            "x is not transposed in dw": {"dw": lambda dy, x, w: x @ dy},
            "dw is made from W and not from x": {"dw": lambda dy, x, w: w.T @ dy},
            "dw is averaged over the rows": {"dw": lambda dy, x, w: x.T @ dy / len(x)},
            "dw has the last row's part alone": {"dw": lambda dy, x, w: np.outer(x[-1], dy[-1])},
            "db is averaged over the rows": {"db": lambda dy: dy.mean(axis=0)},
            "db is summed over the columns": {"db": lambda dy: dy.sum(axis=1)},
            "db is not summed": {"db": lambda dy: dy},
            "db is the sum of all entries": {"db": np.sum},
        },
        returns=("dx", "dw", "db"),
    ),
    "layer_norm_backward": Exercise(
        _norm_backward,
        (
            (*_normals(0, (3, 5), (3, 5)), _normals(2, 5)[0] + 1, 0.1),
            (*_normals(1, (4, 4), (4, 4)), _normals(3, 4)[0] + 1, 1e-3),
        ),
        {
            "γ is pulled in front of the means": {"scaled": "outside"},
            "γ is forgotten": {"scaled": ""},
            "the mean and σ are treated as constants": {"first": 0, "second": 0},
            "σ is treated as a constant": {"second": 0},
            "the mean is treated as a constant": {"first": 0},
            "the two means are added and not taken away": {"first": -1, "second": -1},
            "sums stand where means must": {"mean": lambda x: x.sum(axis=1, keepdims=True)},
            "the means run over the rows and not along each row": {"mean": lambda x: x.mean(axis=0)},
            "the means run over the whole array": {"mean": np.mean},
            "x̂ is forgotten in front of the second mean": {"along": lambda hat: 1},
            "it is divided by the variance and not by its root": {"root": np.square},
            "it is multiplied by the root and not divided": {"root": lambda s: 1 / s},
            "the division by the root is forgotten": {"root": lambda s: 1},
            "ε is forgotten": {"variance": lambda x, eps: x.var(axis=1, keepdims=True)},
            "the variance divides by d − 1": {"variance": lambda x, eps: x.var(axis=1, ddof=1, keepdims=True) + eps},
        },
    ),
    "feed_forward_backward": Exercise(
        _feed_forward_backward,
        (_normals(0, (3, 4), (3, 4), (4, 6), (6,), (6, 4)), _normals(1, *[(4, 4)] * 3, (4,), (4, 4))),
        {
            "the gate is forgotten": {"gate": lambda u, dm: 1},
            "the gate looks at the gradient's sign": {"gate": lambda u, dm: dm > 0},
            "the gate multiplies by the unit's value": {"gate": lambda u, dm: np.maximum(u, 0)},
            "the gate is open where it must be shut": {"gate": lambda u, dm: u < 0},
            "dw₂ is taken from the numbers before the gate": {"inner": lambda u: u},
            "dw₂ is taken from open gates, 0 or 1, and not from the units": {"inner": lambda u: (u > 0).astype(float)},
            "b₁ is forgotten": {"bias": 0},
            "dw₁ is transposed": {"turned": ("dw_1",)},
            "dw₂ is transposed": {"turned": ("dw_2",)},
            "dy itself is added to dx, as if there were a way around": {"around": 1},
        },
        returns=("dx", "dw_1", "dw_2"),
    ),
    "softmax_backward": Exercise(
        _softmax_backward,
        ((_normals(0, (4, 4))[0], _softmax(_normals(1, (4, 4))[0])), (_normals(2, (2, 3))[0], _softmax(_normals(3, (2, 3))[0]))),
        _RULES,
    ),
    "attention_backward": Exercise(
        _attention_backward,
        (_normals(0, (4, 5), (4, 3), (4, 3), (4, 5)), _normals(1, (2, 3), (2, 4), (5, 4), (5, 3))),
        {
            "1/√d_k is forgotten in dq": {"scale_q": 0},
            "1/√d_k is forgotten in dk": {"scale_k": 0},
            "1/√d_k is forgotten in both": {"scale_q": 0, "scale_k": 0},
            "1/√d_k is applied twice": {"scale_q": 2, "scale_k": 2},
            "the root is that of the values' width": {"root": lambda q, v: v.shape[1] ** 0.5},
            "dS is not transposed in dk": {"for_k": lambda ds, q, k: ds @ q},
            "dk is made from k and not from q": {"for_k": lambda ds, q, k: ds.T @ k},
            "dq is made from q and not from k": {"for_q": lambda ds, q, k: ds @ q},
            "dS is transposed in dq": {"for_q": lambda ds, q, k: ds.T @ k},
            "A is not transposed in dv": {"for_v": lambda a, dy: a @ dy},
        }
        | _RULES,
        returns=("dq", "dk", "dv"),
    ),
    "input_gradient": Exercise(
        _input_gradient,
        (_normals(0, (3, 4), *[(3, 6)] * 3, *[(4, 6)] * 3), _normals(1, *[(4, 4)] * 7)),
        {f"the {path} path is forgotten": {path: 0} for path in ("query", "key", "value")}
        | {
            "the path around the attention is forgotten": {"around": 0},
            "the paths are averaged": dict.fromkeys(("around", "query", "key", "value"), 0.25),
            "queries and keys have exchanged their matrices": {"w": lambda w_q, w_k, w_v: (w_k, w_q, w_v)},
            "all three pass through W_Q": {"w": lambda w_q, w_k, w_v: (w_q, w_q, w_q)},
            "keys and values have exchanged their matrices": {"w": lambda w_q, w_k, w_v: (w_q, w_v, w_k)},
        },
    ),
    "embedding_backward": Exercise(
        _scatter,
        ((_TOKENS, *_normals(0, (5, 6)), 7),),
        {
            "a repeated word keeps only its last gradient": {"put": "last"},
            "a repeated word keeps only its first gradient": {"put": "first"},
            "a repeated word gets the mean and not the sum": {"put": "mean"},
            "the factor √d is forgotten": {"factor": lambda d: 1},
            "it is divided by √d and not multiplied": {"factor": lambda d: d**-0.5},
            "the factor is d without its root": {"factor": lambda d: d},
        },
    ),
    "matrix_backward": Exercise(
        _matrix_backward,
        (_normals(0, (2, 3, 4), (4, 4), (2, 3, 4)), _normals(1, (2, 3, 4), (4, 2), (2, 3, 2))),
        {
            "dX is G W: the transpose is forgotten": {"turn": lambda w: w},
            "dW is Gᵀ X and not Xᵀ G": {"dw": lambda x, dy: _rows(dy).T @ _rows(x)},
            "dW is the mean over the rows and not the sum": {"dw": lambda x, dy: _rows(x).T @ _rows(dy) / len(_rows(x))},
            "dW counts the first sentence alone": {"dw": lambda x, dy: x[0].T @ dy[0]},
            "dW is averaged over the sentences": {"dw": lambda x, dy: _rows(x).T @ _rows(dy) / len(x)},
            "dW is not summed over the sentences": {"dw": lambda x, dy: x.swapaxes(1, 2) @ dy},
        },
        returns=("dx", "dw"),
    ),
    "adam": Exercise(
        _adam,
        (
            (*_normals(0, *[4] * 3), np.array([0.3, 0.5, 0.2, 0.9]), 3, 0.01),
            (*_normals(1, 2), np.full(2, 1e-9), np.full(2, 2e-9), np.full(2, 1e-17), 3, 1.0),  # so small that ε and its place show
        ),
        {
            "the bias correction is forgotten": {"corrected": False},
            "the corrections use t − 1": {"late": 1},
            "the corrected means are kept for the next step": {"keep": True},
            "the root over v is forgotten": {"divide": lambda m, v: m / (v + 1e-9)},
            "ε stands inside the root": {"divide": lambda m, v: m / np.sqrt(v + 1e-9)},
            "ε is forgotten": {"divide": lambda m, v: m / np.sqrt(v)},
            "it is not divided by the root of v": {"divide": lambda m, v: m},
            "v is a mean of the gradient's size and not of its square": {"square": np.abs},
            "v is a mean of the gradient itself": {"square": lambda g: g},
            "the step goes uphill": {"sign": 1},
            "β₁ and β₂ have changed places": {"betas": (0.98, 0.9)},
            "β₂ is 0.999, as in PyTorch's default, and not 0.98": {"betas": (0.9, 0.999)},
        },
        returns=("w", "m", "v"),
    ),
    "parameters": Exercise(
        _parameters,
        ((6, 10, 2, 7), (512, 2048, 6, 37000)),
        {
            "the decoder has no cross-attention": {"attentions": 2},
            "the network's biases are forgotten": {"biases": 0},
            "the norms are forgotten": {"norms": 0},
            "cross-attention has no norm of its own": {"norms": 4},
            "the decoder has no network": {"networks": 1},
            "each use of the table has a table of its own": {"tables": 3},
            "the table is forgotten": {"tables": 0},
        },
    ),
    "silent_units": Exercise(
        _silent_units,
        ((_normals(0, (4, 12))[0] - 0.5, _HALF),),
        {
            "rows that are not scored count too": {"rows": lambda on, scored: on},
            "the rows that are not scored are looked at": {"rows": lambda on, scored: on[~scored]},
            "a unit counts as silent when it is off in any scored row": {"any_row": np.all},
            "it is the other way round": {"silent": lambda x: x},
        },
    ),
}
