"""Problems for half an hour with a calculator: drawn from a seed, worked row by row, and held against other computations.

A topic draws its numbers and works them by hand: each row of blanks with what a pupil does to fill it. Before a problem is handed out the
package, PyTorch (where it is installed) and central differences must give the same, a pupil who goes on with the rounded numbers must come
out right, and the usual slips, which are those of the book's exercises, must show.
"""

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from byhand import numpy as bn
from byhand.check.derivatives import numerical_gradient
from byhand.check.exercises import EXERCISES
from byhand.check.measure import difference
from byhand.doors import whole
from byhand.record import Record
from byhand.worked.display import Written
from byhand.worked.matrices import matrix_product
from byhand.worked.rows import layer_norm_backward_row, layer_norm_row, loss_terms, softmax_backward_row, softmax_row
from byhand.worked.steps import adam_steps
from byhand.worked.sums import product_entry

Array = np.ndarray
Given = dict[str, Any]
Values = dict[str, Array]
BOUNDS = {"the package": 1e-12, "PyTorch": 1e-10, "central differences": 1e-6}
BLANKS, MINUTES, LARGEST, SMALLEST = 20, 30, 100.0, 0.01
SURE, UNSEEN = 0.9, 0.02  # a softmax whose weight is above the one or below the other has no slope to speak of
TRIES = 2000


@dataclass(frozen=True)
class Row:
    """Blanks that are filled in the same way: what they are called, how they are filled, what belongs there.

    keys: numbers to type into the calculator for one of them. digits: decimals to write down. heads: what stands above the columns.
    """

    name: str
    rule: str
    values: Array
    keys: int
    digits: int = 3
    heads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slip:
    """A mistake by the name that the exercises give it, and what it writes into a row of blanks."""

    name: str
    row: str
    values: Array


@dataclass(frozen=True)
class Topic:
    """work(given, at): the rows in the order of filling; at(value, digits) is what gets written down. The witnesses: {row: its values} of the same."""

    title: str
    page: str
    story: str
    draw: Callable[[np.random.Generator], Given]
    work: Callable[[Given, Callable], list[Row]]
    package: Callable[[Given], Values]
    torch: Callable[[Given], Values]
    nudged: Callable[[Given], Values]
    slips: Callable[[Given], list[Slip]]
    written: Callable[[Given, Values], list[Written]]
    shares: tuple[str, ...] = ()  # rows that are a softmax's
    kink: Callable[[Values], bool] = lambda rows: False
    shown: Callable[[Given], Given] = lambda given: given  # as the sheet shows it


@dataclass(frozen=True)
class Problem:
    """What was drawn and what belongs into the blanks. witnesses: who found each row too. rejected: how many draws before it, by reason."""

    topic: str
    seed: int
    given: Given
    rows: tuple[Row, ...]
    slips: tuple[Slip, ...]
    witnesses: dict[str, tuple[str, ...]]
    rejected: Counter

    @property
    def blanks(self) -> int:
        return sum(row.values.size for row in self.rows)

    @property
    def minutes(self) -> int:
        """An estimate and not a measurement: 6 minutes to read, 20 seconds for each blank and 6 for each number that is typed."""
        return round(6 + sum(row.values.size * (20 + 6 * row.keys) for row in self.rows) / 60)


def problem(topic: str, seed: int) -> Problem:
    """The problem of a topic and a seed: the seed's first draw that nothing speaks against.

    Rejected are draws with a softmax that is all but sure, near a kink, with a blank that is nearly 0, with numbers that grow long or that
    rounding on the way spoils, and with slips that cannot be told apart. Raises ValueError for an unknown topic and a seed below 0, and
    ArithmeticError where a witness finds another number: that is a mistake in the package, and no sheet is written.
    """
    if topic not in TOPICS:
        raise ValueError(f"topic was {topic!r}; it must be one of {', '.join(TOPICS)}")
    whole("seed", seed, 0)
    chosen, rng, rejected = TOPICS[topic], np.random.default_rng(seed), Counter()
    for _ in range(TRIES):
        given = chosen.draw(rng)
        rows, slips = chosen.work(given, lambda value, digits: value), chosen.slips(given)
        if reason := unfit(chosen, given, rows, slips):
            rejected[reason] += 1
            continue
        return Problem(topic, seed, given, tuple(rows), tuple(slips), witnessed(chosen, given, rows), rejected)
    raise ValueError(f"seed was {seed}; none of its first {TRIES} draws makes a fit problem on {topic}: {dict(rejected)}")


def unfit(topic: Topic, given: Given, rows: list[Row], slips: list[Slip]) -> str:
    """Why a draw makes no good problem; "" where it does."""
    values = {row.name: row.values for row in rows}
    if any(values[name].max() > SURE or values[name].min() < UNSEEN for name in topic.shares):
        return "saturates"
    if topic.kink(values):
        return "near a kink"
    if any(np.abs(row.values).min() < SMALLEST for row in rows):
        return "vanishes"
    by_hand = topic.work(given, _written_down)
    short = all(np.abs(np.round(value, 2) - value).max() < 1e-12 for value in map(np.asarray, given.values()))
    if not short or any(np.abs(row.values).max() >= LARGEST for row in rows):
        return "grows long"
    if any(np.abs(exact.values - rounded.values).max() > _unit(exact) for exact, rounded in zip(rows, by_hand, strict=True)):
        return "rounding spoils it"
    units = {row.name: _unit(row) for row in rows}
    told = [(row, values[row]) for row in values] + [(slip.row, slip.values) for slip in slips]
    if any(one == other and np.abs(a - b).max() < 2.5 * units[one] for i, (one, a) in enumerate(told) for other, b in told[:i]):
        return "a slip that does not show"
    return ""


def witnessed(topic: Topic, given: Given, rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Who finds each row too; ArithmeticError where one finds another number, or nobody looked at a row."""
    computations = {"the package": topic.package, "PyTorch": topic.torch, "central differences": topic.nudged}
    if not importlib.util.find_spec("torch"):
        del computations["PyTorch"]
    found = {name: compute(given) for name, compute in computations.items()}
    who = {}
    for row in rows:
        who[row.name] = tuple(name for name in found if row.name in found[name])
        for name in who[row.name]:
            apart = difference(row.values, found[name][row.name], row.name)
            if not apart.holds(BOUNDS[name]):
                raise ArithmeticError(f"{row.name}{list(apart.place)}: {apart.values[0]:.12g} by hand, {apart.values[1]:.12g} by {name}")
        if not who[row.name]:
            raise ArithmeticError(f"{row.name} was found by hand alone")
    return who


def _written_down(value, digits):
    return np.round(value, digits)


def _unit(row):
    return 1.0001 * 10.0**-row.digits


def _slips(exercise, sample, rows, *names, take=lambda out: out):
    """What the named mistakes of one of the book's exercises write into the rows; rows: the row for each array of its answer."""
    found, known = [], EXERCISES[exercise]
    for name in names:
        out, right = (known.answer(*sample, **switches) for switches in (known.mistakes[name], {}))
        arrays = zip(rows, *((x if isinstance(x, tuple) else (x,)) for x in (out, right)), strict=True)
        rows_and = [(np.array_equal(a, b), row, np.asarray(take(a))) for row, a, b in arrays]
        found.append(Slip(name, *min(rows_and, key=lambda one: one[0])[1:]))  # the first row that it spoils; one that spoils none is found out
    return found


def _tensors(given, *names):
    import torch

    return [torch.tensor(np.asarray(given[name], dtype=float), requires_grad=True) for name in names]


def _halves(rng, low, high, *shape):
    return rng.integers(2 * low, 2 * high + 1, shape) / 2


def _different(rng, low, high, n):
    return rng.choice(np.arange(2 * low, 2 * high + 1), n, replace=False) / 2


def _log_sum(s):
    return np.log(np.exp(s).sum())


# ---- attention: the weights are the slope of log Σ e^s, and so is what they mix ----------------------


def _attention_work(g, at):
    s = at(g["Q"] @ g["K"].T / 2, 3)
    e = at(np.exp(s), 3)
    a = at(e / e.sum(axis=1, keepdims=True), 3)
    return [
        Row("S", "a row of Q times a row of K, entry by entry, added, and divided by √d_k = 2", s, 9),
        Row("e^S", "e to the power of each score", e, 2),
        Row("A", "each, divided by the sum of its row", a, 4),
        Row("y", "for the first query: its row of A times V", at(a[:1] @ g["V"], 3), 6),
    ]


def _attention_package(g):
    record = Record()
    y, cache = bn.attention.attention(*(g[name][None, None] for name in "QKV"), record=record)
    return {"S": record["scores"][0, 0], "A": cache.weights[0, 0], "y": y[0, 0, :1]}


def _attention_torch(g):
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = _tensors(g, *"QKV")
    s = q @ k.T / 2
    return {"S": s, "e^S": s.exp(), "A": s.softmax(-1), "y": scaled_dot_product_attention(q[None], k[None], v[None])[0, :1]}


def _attention_nudged(g):
    s = g["Q"] @ g["K"].T / 2
    mixed = numerical_gradient(lambda h: _log_sum(s[0] + g["V"] @ h), np.zeros(2))
    return {"e^S": numerical_gradient(lambda x: np.exp(x).sum(), s), "A": np.array([numerical_gradient(_log_sum, row) for row in s]), "y": mixed[None]}


ATTENTION = Topic(
    "Attention, one head", "step/06-attention",
    "Two queries look at three keys. Each query's weights say how much it takes from each value.",
    lambda rng: {"Q": _halves(rng, -1, 2, 2, 4), "K": _halves(rng, -1, 2, 3, 4), "V": _halves(rng, -3, 4, 3, 2)},
    _attention_work, _attention_package, _attention_torch, _attention_nudged,
    lambda g: _slips(
        "attention", (g["Q"], g["K"], g["V"]), ("y",), "1/√d_k is forgotten", "the scores are divided by d_k and not by its root",
        "the softmax runs over the queries", "the division by the sum is forgotten", take=lambda out: out[:1],
    ),
    lambda g, r: [
        matrix_product(g["Q"], g["K"].T, ("QK^T", "Q", "K^T"), "all"), *map(softmax_row, r["S"]), matrix_product(r["A"][:1], g["V"], ("y", "a", "V"), "all")
    ],
    shares=("A",),
)  # fmt: skip


# ---- layer norm, forward and backward -----------------------------------------------------------------


def _norm_draw(rng):
    x = rng.integers(-4, 7, 4).astype(float)
    root = np.ceil(2 * np.sqrt(x.var() + 0.25)) / 2  # so that the root comes out short
    return {"x": x, "γ": rng.choice([0.5, 1.5, 2.0, 3.0], 4), "β": _halves(rng, -1, 1, 4), "ε": root**2 - x.var(), "dy": _halves(rng, -2, 2, 4)}


def _norm_work(g, at):
    x, mean = g["x"], at(g["x"].mean(), 3)
    variance = at(((x - mean) ** 2).mean(), 3)
    root = at(np.sqrt(variance + g["ε"]), 3)
    hat = at((x - mean) / root, 3)
    scaled = g["γ"] * g["dy"]
    one, along = at(scaled.mean(), 3), at((scaled * hat).mean(), 3)
    return [
        Row("μ", "the mean of x", np.array([mean]), 5),
        Row("σ^2", "the mean of (x − μ)^2", np.array([variance]), 9),
        Row("r", "√(σ^2 + ε)", np.array([root]), 2),
        Row("x̂", "(x − μ) / r", hat, 3),
        Row("y", "γ x̂ + β, entry by entry", at(g["γ"] * hat + g["β"], 3), 3),
        Row("m_1", "backward: the mean of g, with g = γ dy entry by entry", np.array([one]), 9),
        Row("m_2", "the mean of g x̂", np.array([along]), 9),
        Row("dx", "(g − m_1 − x̂ m_2) / r", at((scaled - one - hat * along) / root, 3), 6),
    ]


def _norm_package(g):
    record = Record()
    y, cache = bn.norm.layer_norm(g["x"], g["γ"], g["β"], float(g["ε"]), record=record)
    dx, grads = bn.norm.layer_norm_backward(g["dy"], cache)
    means = {"m_1": np.mean(grads["beta"] * g["γ"]), "m_2": np.mean(grads["gamma"] * g["γ"])}
    found = {"μ": record["mean"], "σ^2": record["var"], "r": 1 / cache.inverse_std, "x̂": record["normalised"], "y": y, **means, "dx": dx}
    return {name: np.atleast_1d(value) for name, value in found.items()}


def _norm_torch(g):
    from torch.nn.functional import layer_norm as norm

    x, gamma, beta, dy = _tensors(g, "x", "γ", "β", "dy")
    y, variance = norm(x, (4,), gamma, beta, g["ε"]), x.var(correction=0)
    y.backward(dy)
    hat, root = norm(x, (4,), eps=g["ε"]), (variance + g["ε"]).sqrt()
    found = {"μ": x.mean(), "σ^2": variance, "r": root, "x̂": hat, "y": y, "m_1": (gamma * dy).mean(), "m_2": (gamma * dy * hat).mean(), "dx": x.grad}
    return {name: value.detach().reshape(-1) for name, value in found.items()}


def _norm_nudged(g):
    def y(x):
        return g["γ"] * (x - x.mean()) / np.sqrt(x.var() + g["ε"]) + g["β"]

    return {"dx": numerical_gradient(lambda x: g["dy"] @ y(x), g["x"])}


NORM = Topic(
    "Layer norm, forward and backward", "step/18-layer-norm-backward",
    "A row x is brought to mean 0 and spread 1, then scaled and shifted. Backward, dy arrives at y: what leaves at x?",
    _norm_draw, _norm_work, _norm_package, _norm_torch, _norm_nudged,
    lambda g: _slips(
        "layer_norm", (g["x"][None], g["γ"], g["β"], g["ε"]), ("y",), "the variance divides by d − 1", "ε is added to the root and not inside it",
        take=lambda y: y[0],
    )
    + _slips(
        "layer_norm_backward", (g["dy"][None], g["x"][None], g["γ"], g["ε"]), ("dx",), "γ is pulled in front of the means",
        "the mean and σ are treated as constants", "σ is treated as a constant", take=lambda dx: dx[0],
    ),
    lambda g, r: [layer_norm_row(g["x"], g["γ"], g["β"], g["ε"]), layer_norm_backward_row(g["dy"], g["x"], g["γ"], g["ε"])],
    kink=lambda rows: rows["σ^2"][0] < 1,  # near a constant row, where the norm has none
)  # fmt: skip


# ---- the loss ------------------------------------------------------------------------------------------


def _loss_work(g, at):
    e = at(np.exp(g["z"]), 3)
    total = at(e.sum(), 3)
    p = at(e / total, 3)
    own, other = 1 - g["ε"] + g["ε"] / 4, g["ε"] / 4
    q = np.where(np.arange(4) == g["target"], own, other)
    logs = at(np.log(total) - g["z"], 3)
    return [
        Row("e^z", "e to the power of each logit", e, 2, heads=WORDS),
        Row("Z", "their sum", np.array([total]), 4),
        Row("p", "each, divided by Z", p, 2, heads=WORDS),
        Row("q", "what is wanted: 1 − ε + ε/V at the target, ε/V at each other word", np.array([own, other]), 3, heads=("target", "other")),
        Row("−ln p", "ln Z − z, with the natural logarithm", logs, 2, heads=WORDS),
        Row("L", "the loss: the sum of q (−ln p) over the words", np.array([at(q @ logs, 3)]), 8),
        Row("dz", "p − q, word by word", at(p - q, 3), 2, heads=WORDS),
    ]


def _loss_package(g):
    z, target, eps = g["z"][None, None], np.array([[g["target"]]]), float(g["ε"])
    loss, dz = bn.loss.cross_entropy(z, target, eps)
    q = bn.loss.smoothed_targets(np.array(g["target"]), 4, eps)
    logs = [bn.loss.cross_entropy(z, np.array([[k]]))[0] for k in range(4)]
    return {"p": bn.softmax.softmax(g["z"])[0], "q": q[[g["target"], g["target"] - 1]], "−ln p": np.array(logs), "L": np.array([loss]), "dz": dz[0, 0]}


def _loss_torch(g):
    import torch

    (z,) = _tensors(g, "z")
    loss = torch.nn.functional.cross_entropy(z, torch.tensor(int(g["target"])), label_smoothing=float(g["ε"]))
    loss.backward()
    e, p = z.detach().exp(), z.detach().softmax(-1)
    q = p - z.grad
    return {"e^z": e, "Z": e.sum()[None], "p": p, "q": q[[g["target"], g["target"] - 1]], "−ln p": -z.detach().log_softmax(-1), "L": loss[None], "dz": z.grad}


def _loss_nudged(g):
    q = bn.loss.smoothed_targets(np.array(g["target"]), 4, float(g["ε"]))
    z = g["z"]
    slope = numerical_gradient(lambda h: np.exp(z + h).sum(), np.zeros(1))
    return {
        "e^z": numerical_gradient(lambda z: np.exp(z).sum(), z), "Z": slope,
        "p": numerical_gradient(_log_sum, z), "dz": numerical_gradient(lambda z: _log_sum(z) - q @ z, z),
    }  # fmt: skip


WORDS = ("<bos>", "i", "am", "<eos>")
LOSS = Topic(
    "From logits to the loss", "step/13-loss",
    "Four words, <bos>, i, am and <eos>, one logit z for each. The loss compares the probabilities with what is wanted, softened by ε.",
    lambda rng: {"z": _different(rng, -1, 2, 4), "target": int(rng.integers(4)), "ε": float(rng.choice([0.1, 0.2, 0.4]))},
    _loss_work, _loss_package, _loss_torch, _loss_nudged,
    lambda g: _slips(
        "loss", (g["z"], g["target"], g["ε"]), ("L",), "nothing is smoothed", "ε/(V − 1) goes to the wrong words only",
        "the logarithm is to base 10", "p and q have exchanged their places", take=np.atleast_1d,
    )
    + _slips(
        "logits", (g["z"][None], np.array([g["target"]]), g["ε"]), ("dz",), "p and q have exchanged their places", "nothing is smoothed",
        take=lambda dz: dz[0],
    ),
    lambda g, r: [softmax_row(g["z"], labels=WORDS), loss_terms(g["z"], g["target"], g["ε"], WORDS)],
    shares=("p",), shown=lambda g: g | {"target": WORDS[g["target"]], "V": 4},
)  # fmt: skip


# ---- the output layer ----------------------------------------------------------------------------------


def _output_work(g, at):
    x, w, dz = g["x"], g["W"], g["dz"]
    return [
        Row("z", "x W + b, one row for each position", at(x @ w + g["b"], 3), 5),
        Row("dW", "x^T dz: products over the three positions, added", at(x.T @ dz, 3), 6),
        Row("db", "the columns of dz, added", at(dz.sum(axis=0), 3), 3),
        Row("dx", "dz W^T, one row for each position", at(dz @ w.T, 3), 4),
    ]


def _output_package(g):
    z, cache = bn.linear.linear(g["x"], g["W"], g["b"])
    dx, grads = bn.linear.linear_backward(g["dz"], cache)
    return {"z": z, "dW": grads["w"], "db": grads["b"], "dx": dx}


def _output_torch(g):
    x, w, b, dz = _tensors(g, "x", "W", "b", "dz")
    z = x @ w + b
    z.backward(dz)
    return {"z": z, "dW": w.grad, "db": b.grad, "dx": x.grad}


def _output_nudged(g):
    def slope(name):
        return numerical_gradient(lambda one: float((g["dz"] * ((g | {name: one})["x"] @ (g | {name: one})["W"] + (g | {name: one})["b"])).sum()), g[name])

    return {"dW": slope("W"), "db": slope("b"), "dx": slope("x")}


OUTPUT_LAYER = Topic(
    "The output layer, forward and backward", "step/17-output-layer",
    "Three positions pass through one matrix. Backward, dz arrives at z: what does it say to the matrix, to the bias and to x?",
    lambda rng: {"x": _halves(rng, -2, 3, 3, 2), "W": _halves(rng, -2, 2, 2, 2), "b": _halves(rng, -1, 1, 2), "dz": rng.integers(-9, 10, (3, 2)) / 10},
    _output_work, _output_package, _output_torch, _output_nudged,
    lambda g: _slips(
        "linear_backward", (g["dz"], g["x"], g["W"]), ("dx", "dW", "db"), "W is not transposed in dx", "dw is transposed",
        "dw is averaged over the rows", "dw has the last row's part alone", "db is averaged over the rows",
    ),
    lambda g, r: [
        matrix_product(g["x"], g["W"], ("xW", "x", "W"), (0, 0)), product_entry(g["x"], g["dz"], "all", ("dW", "x", "dz")),
        matrix_product(g["dz"], g["W"].T, ("dx", "dz", "W^T"), "all"),
    ],
)  # fmt: skip


# ---- softmax backward ----------------------------------------------------------------------------------


def _softmax_work(g, at):
    e = at(np.exp(g["s"]), 3)
    a = at(e / e.sum(), 3)
    products = at(a * g["da"], 3)
    total = at(products.sum(), 3)
    return [
        Row("e^s", "e to the power of each score", e, 2),
        Row("a", "each, divided by their sum", a, 5),
        Row("a da", "products, entry by entry", products, 2),
        Row("c", "their sum, the weighted mean of da", np.array([total]), 4),
        Row("ds", "a (da − c)", at(a * (g["da"] - total), 3), 3),
    ]


def _softmax_package(g):
    a, cache = bn.softmax.softmax(g["s"])
    mean = bn.linear.linear(g["da"][None], a[:, None])[0][0]
    return {"a": a, "c": mean, "ds": bn.softmax.softmax_backward(g["da"], cache)[0]}


def _softmax_torch(g):
    s, da = _tensors(g, "s", "da")
    a = s.softmax(-1)
    a.backward(da)
    return {"e^s": s.exp(), "a": a, "a da": a * da, "c": (a @ da)[None], "ds": s.grad}


def _softmax_nudged(g):
    """a as the slope of log Σ e^s; a da as that of log Σ e^(s + h da), summand by summand."""
    s, da = g["s"], g["da"]
    one = np.diag(da)
    return {
        "e^s": numerical_gradient(lambda s: np.exp(s).sum(), s), "a": numerical_gradient(_log_sum, s),
        "a da": numerical_gradient(lambda h: _log_sum(s + one @ h), np.zeros(4)),
        "c": numerical_gradient(lambda h: _log_sum(s + da * h), np.zeros(1)),
        "ds": numerical_gradient(lambda s: np.exp(s) @ da / np.exp(s).sum(), s),
    }  # fmt: skip


SOFTMAX_BACKWARD = Topic(
    "Through a softmax, backward", "step/20a-attention-row",
    "One row of scores s becomes weights a. Backward, da arrives at the weights: what leaves at the scores?",
    lambda rng: {"s": _different(rng, -1, 2, 4), "da": _halves(rng, -2, 3, 4)},
    _softmax_work, _softmax_package, _softmax_torch, _softmax_nudged,
    lambda g: _slips(
        "softmax_backward", (g["da"][None], bn.softmax.softmax(g["s"])[0][None]), ("ds",), "the softmax is taken back entry by entry",
        "the sum over the row is forgotten", "the factor a in front is forgotten", "the mean of da is not weighted by a", take=lambda ds: ds[0],
    ),
    lambda g, r: [softmax_row(g["s"]), softmax_backward_row(g["da"], r["a"])],
    shares=("a",),
)  # fmt: skip


# ---- Adam ----------------------------------------------------------------------------------------------

BETAS, EPS, STEPS = (0.9, 0.98), 1e-9, ("t = 1", "t = 2", "t = 3")


def _adam_work(g, at):
    w, m, v, columns = g["w_0"], 0.0, 0.0, []
    for t in (1, 2, 3):
        slope = at(g["a"] * (w - g["c"]), 3)
        m, v = at(BETAS[0] * m + (1 - BETAS[0]) * slope, 4), at(BETAS[1] * v + (1 - BETAS[1]) * slope**2, 4)
        m_hat, v_hat = at(m / (1 - BETAS[0] ** t), 3), at(v / (1 - BETAS[1] ** t), 2)
        w = at(w - g["lr"] * m_hat / (np.sqrt(v_hat) + EPS), 3)
        columns.append((slope, m, v, m_hat, v_hat, w))
    rules = (
        ("g", "the slope of L = a/2 (w − c)^2 where w stands: a (w − c)", 3, 3), ("m", "0.9 m + 0.1 g, from m = 0", 4, 4),
        ("v", "0.98 v + 0.02 g^2, from v = 0", 5, 4), ("m̂", "m / (1 − 0.9^t)", 4, 3), ("v̂", "v / (1 − 0.98^t)", 4, 2), ("w", "w − lr m̂ / √v̂", 4, 3),
    )  # fmt: skip
    return [Row(name, rule, np.array(values), keys, digits, STEPS) for (name, rule, keys, digits), values in zip(rules, zip(*columns))]


def _adam_package(g):
    w, state, rows = {"w": np.array([g["w_0"]])}, None, []
    for _ in STEPS:
        w, state = bn.optimizer.adam(w, {"w": g["a"] * (w["w"] - g["c"])}, state, g["lr"], BETAS, EPS)
        rows.append(_corrected(state.t, state.m["w"].item(), state.v["w"].item()) + (w["w"].item(),))
    return dict(zip(("m", "v", "m̂", "v̂", "w"), np.array(rows).T))


def _corrected(t, m, v):
    return m, v, m / (1 - BETAS[0] ** t), v / (1 - BETAS[1] ** t)


def _adam_torch(g):
    import torch

    (w,) = _tensors(g, "w_0")
    optimizer, rows = torch.optim.Adam([w], g["lr"], BETAS, EPS), []
    for t in (1, 2, 3):
        optimizer.zero_grad()
        (g["a"] / 2 * (w - g["c"]) ** 2).backward()
        optimizer.step()
        m, v = (optimizer.state[w][name].item() for name in ("exp_avg", "exp_avg_sq"))
        rows.append((w.grad.item(), *_corrected(t, m, v), w.item()))
    return dict(zip(("g", "m", "v", "m̂", "v̂", "w"), np.array(rows).T))


def _adam_nudged(g):
    places = np.array([g["w_0"], *_adam_package(g)["w"][:2]])
    return {"g": numerical_gradient(lambda w: (g["a"] / 2 * (w - g["c"]) ** 2).sum(), places)}


def _adam_slips(g, *names):
    """The exercise's answer, three times on, from its own results."""
    found, known = [], EXERCISES["adam"]
    for name in names:
        w, m, v, places = np.array([g["w_0"]]), np.zeros(1), np.zeros(1), []
        for t in (1, 2, 3):
            w, m, v = known.answer(w, g["a"] * (w - g["c"]), m, v, t, g["lr"], **known.mistakes[name])
            places.append(w.item())
        found.append(Slip(name, "w", np.array(places)))
    return found


ADAM = Topic(
    "Three steps of Adam", "step/25-adam",
    "One weight, the loss L = a/2 (w − c)^2. Fill in column by column; β_1 = 0.9, β_2 = 0.98, and the tiny ε beside √v̂ is left out.",
    lambda rng: {
        "a": float(rng.choice([1.0, 1.5, 2.0])), "c": float(_halves(rng, -1, 1)), "w_0": rng.integers(-20, 21) / 10,
        "lr": float(rng.choice([0.1, 0.2, 0.25, 0.4])),
    },
    _adam_work, _adam_package, _adam_torch, _adam_nudged,
    lambda g: _adam_slips(
        g, "the bias correction is forgotten", "the root over v is forgotten", "the corrected means are kept for the next step", "the step goes uphill"
    ),
    lambda g, r: [adam_steps(r["g"], g["w_0"], g["lr"])],
    kink=lambda rows: np.abs(rows["g"]).min() < 0.3 or len(set(np.sign(rows["g"]))) > 1,  # the first step has the gradient's sign alone
)  # fmt: skip

TOPICS = {
    "attention": ATTENTION, "norm": NORM, "loss": LOSS, "output-layer": OUTPUT_LAYER, "softmax-backward": SOFTMAX_BACKWARD, "adam": ADAM,
}  # fmt: skip
