"""Checks of a decoder stack that need no second implementation: who can read whom, what is a probability, which slope, which shape.

Each takes functions or arrays, so that a model of one's own fits as well as byhand's. What it costs and whether it is of use: memory.py, task.py.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from byhand.config import Config
from byhand.doors import whole
from byhand.numpy import softmax as softmax_room
from byhand.parameters import decoder_shapes

from .copies import fresh
from .derivatives import NOTHING, H, Moving, check_count
from .doors import checked
from .measure import FLOOR, TOO_SMALL, as_floats, difference
from .report import Report, Row, off_by, place_text, within

Array = np.ndarray
BOUND = 1e-12


@checked()
def causal_isolation(
    run: Callable[[Int[Array, "batch time"]], Any],
    tokens: Int[Array, "batch time"],
    vocab: int,
    lengths: Int[Array, "batch"] | None = None,
    bound: float = BOUND,
) -> Report:
    """∂ logits[b, s] / ∂ tokens[b, t] = 0 for t > s: each token is changed in turn, and no logit before it moves

    run gives the logits (batch, time, vocab) of tokens, in evaluation mode. Looked at as well, since a check that cannot fail is worth nothing: two runs
    on the same tokens give the same logits; each token that is not padding moves the logits at its own place; no sequence moves another's.
    Raises ValueError for tokens that are not (batch, time) with at least two positions, and for a vocab below 2.
    """
    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or tokens.shape[1] < 2:
        raise ValueError(f"tokens had shape {tokens.shape}; it must be (batch, time) with at least two positions")
    if vocab < 2:
        raise ValueError(f"vocab was {vocab}; it must be at least 2, so that a token can be changed")
    batch, time = tokens.shape
    before = as_floats(run(tokens.copy()), "logits")
    repeated = _change(as_floats(run(tokens.copy()), "logits"), before)
    rows = [_largest("the same tokens give the same logits", repeated, bound)]
    if not rows[0].holds:
        rows += [Row(name, None, verdict="left open: is dropout on?") for name in CAUSAL_ROWS]
        return _report("Causal isolation", rows)

    moved = np.zeros((time, batch, time))  # [t, b, s]: how far the logits of place s move when token t is changed
    for t in range(time):
        moved[t] = _change(as_floats(run(_other(tokens, (slice(None), t), vocab))), before)
    t, s = np.arange(time)[:, None, None], np.arange(time)
    earlier = np.where(s < t, moved, 0)
    own = np.where(_real(tokens, lengths), moved[np.arange(time), :, np.arange(time)].T, np.inf)
    neighbours = np.zeros((batch, batch, time))
    for b in range(batch if batch > 1 else 0):
        neighbours[b] = _change(as_floats(run(_other(tokens, (b,), vocab))), before)
        neighbours[b, b] = 0
    rows += [
        _largest(CAUSAL_ROWS[0], earlier, bound, "token {0} changed, sequence {1}, logits {2}"),
        _smallest(CAUSAL_ROWS[1], own, bound),
        _largest(CAUSAL_ROWS[2], neighbours, bound, "sequence {0} changed, sequence {1}, logits {2}"),
    ]
    return _report("Causal isolation", rows)


CAUSAL_ROWS = (
    "a later token moves no earlier logits",
    "every token moves the logits at its own place",
    "no sequence moves another's logits",
)


@checked()
def probability_invariants(
    activations: Mapping[str, Any],
    allowed: Bool[Array, "batch 1 t_q t_k"],
    softmax: Callable | None = None,
    bound: float = 1e-9,
) -> Report:
    """Σ_j A_ij = 1 over the allowed keys,  A_ij = 0 at the others,  softmax(s + c) = softmax(s)

    activations: a forward pass's, of which every `….weights`, the `….scores` beside it, and `logits` are looked at. allowed: True where a query may
    attend, worked out apart from that pass. softmax(x, mask) is the one that the model uses (byhand.numpy's unless given; the first of a pair counts); the
    constants are up to ±1000, so that an exponential that overflows is seen too.
    Raises ValueError where no weights were recorded.
    """
    softmax = softmax or softmax_room.softmax
    names = [name for name in activations if name.endswith(".weights")]
    if not names:
        raise ValueError("activations held no '….weights'; they must be those of a forward pass that records its attention")
    weights = {name: as_floats(activations[name], name) for name in names}
    allowed = np.asarray(allowed)
    for name in names:
        if allowed.ndim > weights[name].ndim or any(n not in (1, m) for n, m in zip(reversed(allowed.shape), reversed(weights[name].shape))):
            raise ValueError(f"allowed had shape {allowed.shape}; it must broadcast to {name}, {weights[name].shape}")
    masks = {name: np.broadcast_to(allowed, weights[name].shape) for name in names}
    rng = np.random.default_rng(0)

    def moved_by_a_constant(scores, weights, mask):
        constants = rng.integers(-1000, 1001, (*scores.shape[:-1], 1))
        with np.errstate(all="ignore"):
            shifted = softmax(scores + constants, None if mask is None else mask.copy())
        shifted = as_floats(shifted[0] if isinstance(shifted, tuple) else shifted)
        return np.abs(shifted - weights)

    shifts = {}
    for name in names:
        scores = activations.get(f"{name.removesuffix('.weights')}.scores")
        if scores is not None:
            shifts[name] = moved_by_a_constant(as_floats(scores, name), weights[name], masks[name])
    if "logits" in activations:
        logits = as_floats(activations["logits"], "logits")
        shifts["softmax(logits)"] = moved_by_a_constant(logits, softmax_room.softmax(logits)[0], None)
    rows = [
        _worst("allowed weights sum to 1", {n: np.where(m.any(-1), np.where(m, weights[n], 0).sum(-1) - 1, 0) for n, m in masks.items()}, bound),
        _worst("no weight is negative", {n: np.minimum(w, 0) for n, w in weights.items()}, 0),
        _worst("masked weights are exactly 0", {n: np.where(m, 0, weights[n]) for n, m in masks.items()}, 0),
        _worst("a constant added to a row changes no probability", shifts, bound),
    ]
    return _report("Probabilities", rows)


@checked()
def derivative_agreement(
    loss: Callable[[dict[str, Array]], Any],
    params: Mapping[str, Array],
    gradients: Mapping[str, Any],
    count: int = 3,
    seed: int = 0,
    h: float = H,
    bound: float = 1e-6,
) -> Report:
    """⟨∂L/∂θ, u⟩ ≈ (L(θ + h u) − L(θ − h u)) / 2h  in double precision, `count` random directions u of entries ±1 for each array

    Where the quotients at h and at 2h differ by more than the bound, or the slopes on the two sides are no nearer to each other at h than at 2h, the row
    is left open and not failed: the loss bends too much there, has a kink (beside the point or exactly on it), or is too coarsely rounded, and a
    difference quotient can then not tell right from wrong. The same where gradient and quotients lie below the measure's floor (`Difference.holds`); a loss
    that no direction changes leaves everything open. loss gets copies. The first row asks that the loss be computed in float64.
    Raises ValueError for gradients without params' names and shapes, a count below 1, and a loss that is not finite.
    """
    check_count(count)
    if params.keys() != gradients.keys():
        raise ValueError(f"gradients must have params' names; only one of them has {', '.join(sorted(params.keys() ^ gradients.keys())[:4])}")
    for name, array in params.items():
        if not hasattr(array, "shape"):  # the loss would meet it
            raise ValueError(f"params[{name!r}] was {type(array).__name__}; it must be an array")
    value = loss(fresh(dict(params)))
    if not math.isfinite(float(value)):
        raise ValueError(f"loss was {float(value)}; it must be finite at params")
    whole("seed", seed, 0)
    rng, first, rows, moves = np.random.default_rng(seed), _double(value, params), [], []
    for name, array in params.items():
        hand, array = as_floats(gradients[name], f"the gradient of {name!r}"), as_floats(array, name)
        if hand.shape != array.shape or not array.size:
            raise ValueError(f"the gradient of {name!r} had shape {hand.shape}; it must be {array.shape}, with at least one entry")
        moving, slopes = Moving(loss, params, name), []
        for _ in range(count):
            u = rng.choice((-1.0, 1.0), hand.shape)
            near, far = (_slopes(moving, array, u, float(value), step) for step in (h, 2 * h))
            slopes.append((float((hand * u).sum()), *near, *far))
        rows.append(_slope_row(name, np.array(slopes), np.abs(hand).max(), bound))
        moves.append(moving.moved)
    if not any(moves) and all(row.holds is not False for row in rows):
        still = (replace(row, holds=None, verdict="left open: the loss did not change") for row in rows)
        return Report(f"Derivatives: {NOTHING}", (replace(first, holds=None), *still))
    return _report("Derivatives", [first, *rows])


@checked()
def head_shapes(
    activations: Mapping[str, Any],
    params: Mapping[str, Array],
    config: Config,
    kv_cache: Any = None,
    bound: float = 1e-9,
) -> Report:
    """q (batch, n_heads, ·), k and v (batch, n_kv_heads, ·), query head h reads key head h // (n_heads / n_kv_heads), and rows meet matrices as x @ w

    activations: of a forward pass of the decoder stack, under byhand's names. kv_cache: anything with .keys and .values, one array a layer. A square matrix
    that was transposed, and heads that were shared out in another order, have the right shapes; so the last two rows compare numbers.
    Raises ValueError for an activation that is missing.
    """
    values = _Activations(activations)
    if kv_cache is not None and not (hasattr(kv_cache, "keys") and hasattr(kv_cache, "values")):
        raise ValueError(f"kv_cache was {type(kv_cache).__name__}; it must have .keys and .values, one array a layer")
    attention = [f"block.{i}.attention" for i in range(config.n_layers)]
    per_query_head = [f"{a}.{x}" for a in attention for x in ("q", "scores", "weights")]
    rows = [
        _shape_row("weights have their shapes", {name: (np.shape(params.get(name)), shape) for name, shape in decoder_shapes(config).items()}),
        _heads_row("queries, scores and weights have n_heads heads", values, per_query_head, config.n_heads),
        _heads_row("keys and values have n_kv_heads heads", values, [f"{a}.{x}" for a in attention for x in "kv"], config.n_kv_heads),
        _cache_row(kv_cache, config),
        _worst("neighbouring query heads share a key head", {f"{a}.scores": _shared_scores(values, a, config) for a in attention}, bound, "reads another head"),
        _product_row(values, params, config, bound),
    ]
    return _report("Heads and conventions", rows)


# ---- causal isolation ---------------------------------------------------------------------------


def _real(tokens, lengths):
    batch, time = tokens.shape
    return np.arange(time) < (np.full(batch, time) if lengths is None else np.asarray(lengths))[:, None]


def _other(tokens, place, vocab):
    changed = tokens.copy()
    changed[place] = (changed[place] + 1) % vocab
    return changed


def _change(after, before):
    """How far each place's logits moved, measured by the largest of them; NaN counts as ∞."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(after - before).max(axis=-1) / max(np.abs(before).max(), FLOOR)
    return np.where(np.isnan(gap), np.inf, gap)


def _largest(name, moved, bound, words="sequence {0}, logits {1}"):
    place = np.unravel_index(moved.argmax(), moved.shape)
    worst = float(moved[place])
    holds = worst <= bound
    verdict = f"holds {within(bound)}" if worst else "holds exactly"
    return Row(name, holds, worst, words.format(*map(int, place)), verdict if holds else f"fails, {off_by(worst)}")


def _smallest(name, moved, bound):
    place = np.unravel_index(moved.argmin(), moved.shape)
    holds = bool(moved[place] > bound)
    return Row(name, holds, float(moved[place]), "sequence {}, token {}".format(*map(int, place)), "holds" if holds else "fails, is not read")


# ---- derivatives --------------------------------------------------------------------------------


def _double(value, params):
    """Whether the loss is in double precision: a Python float is, an array or tensor says so itself."""
    kind = str(getattr(value, "dtype", "float64")).removeprefix("torch.")
    single = [name for name, array in params.items() if str(getattr(array, "dtype", "float64")).removeprefix("torch.") != "float64"]
    holds = kind == "float64" and not single
    verdict = "holds" if holds else f"fails, {'the loss is in ' + kind if kind != 'float64' else 'a parameter is not'}"
    return Row("computed in float64", holds, where=single[0] if single else "", verdict=verdict)


def _slopes(f, x, direction, middle, h):
    """The central difference, and how much steeper it is on the right than on the left."""
    right, left = f(x + h * direction), f(x - h * direction)
    return (right - left) / (2 * h), (right - 2 * middle + left) / h


def _slope_row(name, slopes, largest, bound):
    hand, near, bend, far, wide = slopes.T
    size = np.maximum(np.abs(slopes[:, [0, 1, 3]]).max(axis=1), max(largest, FLOOR))
    # In a smooth bend the two sides come together as h does, to half at half of it; at a kink they stay apart
    unsettled = np.maximum(np.abs(near - far), np.abs(2 * bend - wide)) / size
    errors = np.abs(hand - near) / size
    if not (unsettled <= bound).all():
        i = int(np.where(np.isnan(unsettled), np.inf, unsettled).argmax())
        kink = abs(near[i] - far[i]) / size[i] <= bound
        verdict = f"left open: a kink, the two sides' slopes are {bend[i]:.4g} apart" if kink else f"left open: h and 2h give {near[i]:.4g} and {far[i]:.4g}"
        return Row(name, None, float(errors[i]), f"direction {i}", verdict)
    worst = difference([*hand, largest], [*near, largest], name)
    i = worst.place[0] if worst.place[0] < len(hand) else 0
    holds = worst.holds(bound)
    where = f"direction {i}: {hand[i]:.6g} by hand, {near[i]:.6g} by difference"
    return Row(name, holds, worst.error, where, {True: f"agrees {within(bound)}", False: off_by(worst.error), None: f"left open: {TOO_SMALL}"}[holds])


# ---- heads and conventions ----------------------------------------------------------------------


class _Activations:
    """Arrays by name; a missing one is an error that names it."""

    def __init__(self, activations):
        self.activations = activations

    def __getitem__(self, name) -> Float[Array, "..."]:
        if name not in self.activations:
            raise ValueError(f"activations held no {name!r}; they must be all of a decoder's forward pass")
        return as_floats(self.activations[name], name)


def _shape_row(name, shapes):
    wrong = [(place, found, right) for place, (found, right) in shapes.items() if tuple(found) != tuple(right)]
    if not wrong:
        return Row(name, True, verdict=f"holds, {len(shapes)} of them")
    place, found, right = wrong[0]
    return Row(name, False, where=place, verdict=f"fails, {tuple(found)} for {tuple(right)}")


def _heads_row(name, values, stages, heads):
    return _shape_row(name, {stage: (values[stage].shape[1:2], (heads,)) for stage in stages})


def _cache_row(kv_cache, config):
    name = "the KV cache has n_kv_heads heads"
    if kv_cache is None:
        return Row(name, None, verdict="left open: no cache was given")
    stored = {f"{kind}[{i}]": array for kind in ("keys", "values") for i, array in enumerate(getattr(kv_cache, kind))}
    return _shape_row(name, {place: (tuple(array.shape)[1:2], (config.n_kv_heads,)) for place, array in stored.items()})


def _shared_scores(values, attention, config):
    """The recorded scores less q_h k_(h // shared)ᵀ/√d_k; where the head counts are wrong, that is another row's matter."""
    q, k, scores = values[f"{attention}.q"], values[f"{attention}.k"], values[f"{attention}.scores"]
    if q.shape[1] != config.n_heads or k.shape[1] != config.n_kv_heads:
        return np.zeros(1)
    heads = np.arange(config.n_heads) // (config.n_heads // config.n_kv_heads)
    right = q @ k[:, heads].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    visible = np.isfinite(scores)  # some implementations write −∞ into the scores of masked places
    return np.where(visible, scores - np.where(visible, right, 0), 0)


def _product_row(values, params, config, bound):
    """x @ w from the recorded x, for one product of every kind; a wrong one is compared with x @ wᵀ as well."""
    name, worst, where = "rows meet matrices as x @ w", 0.0, ""
    for stage, x, w, b in _products(values, params, config):
        y = values[stage]
        if x.shape[-1] != w.shape[0] or y.shape[-1] != w.shape[1]:
            turned = y.shape[-1] == w.shape[0] and x.shape[-1] == w.shape[1]
            return Row(name, False, where=stage, verdict="fails, its matrix has columns for rows" if turned else "fails, the shapes do not fit")
        gap = float(np.abs(y - (x @ w + b)).max())
        if gap > bound and w.shape[0] == w.shape[1] and np.abs(y - (x @ w.T + b)).max() <= bound:
            return Row(name, False, gap, stage, "fails, it is x @ wᵀ")
        worst, where = max((worst, where), (gap, stage))
    holds = worst <= bound
    return Row(name, holds, worst, where, f"holds {within(bound)}" if holds else f"fails, {off_by(worst)}")


def _products(values, params, config):
    """Output stage, x, w and b of one product of every kind."""
    for block in (f"block.{i}" for i in range(config.n_layers)):
        mlp, read = f"{block}.feed_forward", f"{block}.{config.norm_position.feeds}"
        yield f"{block}.attention.out", values[f"{block}.attention.concat"], params[f"{block}.attention.w_o"], params.get(f"{block}.attention.b_o", 0.0)
        yield f"{mlp}.hidden", values[read], params[f"{mlp}.w_1"], params.get(f"{mlp}.b_1", 0.0)
        yield f"{mlp}.out", values[f"{mlp}.active"], params[f"{mlp}.w_2"], params.get(f"{mlp}.b_2", 0.0)
    yield "logits", values["out"], params["embedding"].T if config.tied else params["output.w"], params.get("output.b", 0.0)


# ---- rows and report ----------------------------------------------------------------------------


def _worst(name, deviations, bound, failed=None):
    """One row from the deviations at every stage: the worst decides."""
    if not deviations:
        return Row(name, None, verdict="left open: nothing of the kind was recorded")
    stage, worst = max(((s, np.where(np.isnan(d), np.inf, np.abs(d))) for s, d in deviations.items()), key=lambda pair: pair[1].max())
    place = tuple(int(i) for i in np.unravel_index(worst.argmax(), worst.shape))
    error = float(worst[place])
    holds = error <= bound
    verdict = "holds exactly" if bound == 0 else f"holds {within(bound)}"
    return Row(name, holds, error, f"{stage}{place_text(place)}", verdict if holds else f"fails, {failed or off_by(error)}")


def _report(what, rows):
    failed, open_ = sum(row.holds is False for row in rows), sum(row.holds is None for row in rows)
    result = f"{failed} of {len(rows)} fail" if failed else f"{sum(row.holds is True for row in rows)} hold"
    return Report(f"{what}: {result}" + (f", {open_} left open" if open_ else ""), tuple(rows))
