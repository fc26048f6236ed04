"""What must hold in every training step, whatever the weights are."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from byhand.config import Config
from byhand.numpy import decoder, loss, transformer
from byhand.toy import check_case

from .copies import fresh
from .doors import checked
from .measure import as_floats
from .report import Report, Row, off_by, place_text, within
from .shapes import NormPlace, activation_shapes, decoder_activation_shapes, norm_places

Array = np.ndarray


@checked()
def invariants(
    params: dict[str, Array],
    config: Config,
    case: Any,
    forward: Callable | None = None,
    gradients: Callable | None = None,
    cross_entropy: Callable | None = None,
    bound: float | None = None,
) -> Report:
    """One training step on the case's batch, and which of these hold:

    shapes          every activation and gradient has the shape that the configuration gives it; nothing was broadcast
    attention       each row of weights sums to 1 (0 where every key is masked); what is masked is exactly 0, forward and backward
    layer norm      each row of (y − β)/γ has mean 0 and variance σ²/(σ² + ε); going back, dx has mean 0, and along x̂ only the
                    share ε/(σ² + ε) of what arrived. RMS norm: the same with the mean square for σ², and no mean
    rope            turning a query or a key leaves its length
    loss            each row of ∂L/∂z sums to 0
    paths           where one array was used several times, its gradient is the sum of the paths' (stages `….via_…`)

    A case without a source is a decoder stack's. The masks are worked out here, from the case's lengths. forward, gradients and
    cross_entropy may be a reader's own, with the signatures and the names of byhand.numpy's, which stand in where none is given; gradients
    may give the parameters' gradients alone, and then what needs the stages stays open. They get copies.
    bound: 1e-9 unless given, 1e-4 for float32. The report is true where nothing fails, and names what does.
    """
    check_case(case)
    bound = bound or (1e-9 if all(value.dtype == np.float64 for value in params.values()) else 1e-4)
    step = _step(params, config, case, forward, gradients, cross_entropy)
    attentions = [name.removesuffix(".weights") for name in step.shapes if name.endswith(".weights")]
    masks = {name: attention_mask(name, case) for name in attentions}
    rows = [
        _shapes("activations have their shapes", step.shapes, step.activations),
        _shapes("gradients have their parameters' shapes", {name: value.shape for name, value in params.items()}, step.grads),
        _each("attention rows sum to 1", bound, [(f"{n}.weights", _row_sums(step.activations, n, masks[n])) for n in attentions]),
        _each("rows with every key masked are 0", 0, [(f"{n}.weights", _empty_rows(step.activations, n, masks[n])) for n in attentions]),
        _each("masked weights are exactly 0", 0, [(f"{n}.weights", _masked(step.activations, f"{n}.weights", masks[n])) for n in attentions]),
        _each("masked score gradients are exactly 0", 0, [(f"{n}.scores", _masked(step.stages, f"{n}.scores", masks[n])) for n in attentions]),
        _each("score gradients sum to 0 in each row", bound, [(f"{n}.scores", _sums(step, step.stages.get(f"{n}.scores"))) for n in attentions]),
        *_norm_rows(step, norm_places(config, case.source is None), bound),
        _each("∂L/∂z sums to 0 in each row", bound, [("logits", _sums(step, step.dlogits))]),
        _each("where paths meet, gradients add", bound, [(place, _paths(step, place, paths)) for place, paths in _meeting(step.stages).items()]),
    ]
    if config.positions == "rope":
        turned = [(f"{n}.{x}", _lengths_kept(step, f"{n}.{x}")) for n in attentions for x in "qk"]
        rows.append(_each("rope leaves every length", bound, turned))
    failed = [row.name for row in rows if row.holds is False]
    title = f"Invariants: {len(failed)} of {len(rows)} fail" if failed else f"Invariants: {sum(row.holds is True for row in rows)} hold"
    return Report(title + ("" if failed or all(row.holds for row in rows) else f", {sum(row.holds is None for row in rows)} left open"), tuple(rows))


def attention_mask(name: str, case: Any) -> Bool[Array, "batch 1 t_q t_k"]:
    """True where a query may attend, by the rule: real keys only, and in the decoder's self-attention none that comes later."""
    over_source = name.startswith("encoder") or name.endswith("cross_attention")
    queries = case.source if name.startswith("encoder") else case.decoder_input
    keys, lengths = (case.source, case.source_lengths) if over_source else (case.decoder_input, case.target_lengths)
    batch, t_k = keys.shape
    real = np.arange(t_k) < (np.full(batch, t_k) if lengths is None else np.asarray(lengths))[:, None]
    allowed = np.broadcast_to(real[:, None, None, :], (batch, 1, queries.shape[1], t_k))
    return allowed if over_source else allowed & (np.arange(t_k) <= np.arange(queries.shape[1])[:, None])


class _Step(NamedTuple):
    params: dict
    config: Config
    shapes: dict
    activations: dict
    dlogits: Array
    grads: dict
    stages: dict
    largest: float  # of all gradients: what is 1e-3 of it or less is measured by that instead of by its own size


def _step(params, config, case, forward, gradients, cross_entropy):
    # looked up now, not when this module was read: byhand.check.mistakes exchanges functions of these modules
    model = decoder if case.source is None else transformer
    forward, gradients, cross_entropy = forward or model.forward, gradients or model.gradients, cross_entropy or loss.cross_entropy
    batch, time = case.decoder_input.shape
    lengths = case.target_lengths
    if model is decoder:
        shapes = decoder_activation_shapes(config, batch, time)
        out = forward(*fresh((params, config, case.decoder_input, None, lengths)))
    else:
        shapes = activation_shapes(config, batch, case.source.shape[1], time)
        out = forward(*fresh((params, config, case.source, case.decoder_input, case.source_lengths, lengths)))
    arrays = {name: as_floats(value, name) for name, value in out.activations.items()}  # before anything later writes into them
    _, dlogits = cross_entropy(fresh(out.logits), fresh(case.targets), smoothing=case.smoothing, lengths=fresh(lengths), reduction=case.reduction)
    found = gradients(fresh(dlogits), out.cache)
    grads, stages = (found, None) if isinstance(found, dict) else (found.params, found.stages)
    stages = {name: as_floats(value, name) for name, value in (stages or {}).items()}
    largest = max((np.abs(value).max() for value in stages.values()), default=0.0)
    return _Step(params, config, shapes, arrays, as_floats(dlogits), grads, stages, largest)


# ---- each gives a deviation for every place looked at (0 where nothing is wrong), or None where there is nothing to look at ----


def _row_sums(activations, name, mask):
    weights = activations.get(f"{name}.weights")
    rows = mask.any(axis=-1)  # rows with nothing left have a rule of their own
    return None if weights is None or not rows.any() else np.where(rows, weights.sum(axis=-1) - 1, 0)


def _empty_rows(activations, name, mask):
    weights = activations.get(f"{name}.weights")
    rows = ~mask.any(axis=-1, keepdims=True)
    return None if weights is None or not rows.any() else np.where(rows, weights, 0)


def _masked(values, stage, mask):
    value = values.get(stage)
    return None if value is None or mask.all() else np.where(mask, 0, value)


def _sums(step, value):
    """The sum of each row, beside the row's size."""
    return None if value is None else value.sum(axis=-1) / _size(value, step)


class _NormParts(NamedTuple):
    """A norm's row before gain and bias, as y says and as x says, with the spread that x was divided by."""

    by_output: Array
    by_input: Array
    spread: Array  # σ², or RMS norm's mean square
    inverse: Array


def _norm_rows(step, places, bound):
    layer = step.config.norm_kind == "layer"
    name, inside, spread = ("layer norm", "(y − β)/γ", "variance σ²/(σ² + ε)") if layer else ("RMS norm", "y/γ", "mean square m/(m + ε)")
    checks = [(f"{name}: {inside} has {spread}", "out", _norm_spread), (f"{name}, backward: dx along x̂ is ε's share", "dx", _along_normalised)]
    if layer:
        checks.insert(0, (f"{name}: {inside} has mean 0", "out", _norm_mean))
        checks.insert(2, (f"{name}, backward: dx has mean 0", "dx", lambda step, place: _sums(step, step.stages.get(place.dx))))
    return [
        _each(title, bound, [(place.dx if where == "dx" else f"{place.name}.out", deviation(step, place)) for place in places])
        for title, where, deviation in checks
    ]


def _norm_parts(step, place: NormPlace):
    gamma, beta = step.params[f"{place.name}.gamma"], step.params.get(f"{place.name}.beta", 0.0)
    x, y = step.activations.get(place.x), step.activations.get(f"{place.name}.out")
    if x is None or y is None or not gamma.all():
        return None
    centred = x - x.mean(axis=-1, keepdims=True) if step.config.norm_kind == "layer" else x
    spread = (centred**2).mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(spread + step.config.eps)
    return _NormParts((y - beta) / gamma, centred * inverse, spread, inverse)


def _norm_mean(step, place):
    parts = _norm_parts(step, place)
    return None if parts is None else parts.by_output.mean(axis=-1)


def _norm_spread(step, place):
    parts = _norm_parts(step, place)
    if parts is None:
        return None
    rows = parts.by_output
    found = rows.var(axis=-1) if step.config.norm_kind == "layer" else (rows**2).mean(axis=-1)
    return found - (parts.spread / (parts.spread + step.config.eps))[..., 0]


def _along_normalised(step, place):
    """Σ dx x̂ = ε/(σ² + ε) · Σ γ dy x̂ / √(σ² + ε)"""
    parts, dx, dy = _norm_parts(step, place), step.stages.get(place.dx), step.stages.get(f"{place.name}.out")
    if parts is None or dx is None or dy is None:
        return None
    arrived = step.params[f"{place.name}.gamma"] * dy * parts.inverse
    share = step.config.eps / (parts.spread + step.config.eps)
    return ((dx - share * arrived) * parts.by_input).sum(axis=-1) / _size(arrived, step)


def _lengths_kept(step, name):
    """Each row's squared length after rope, less the one before."""
    before, after = step.activations.get(f"{name}_unrotated"), step.activations.get(name)
    return None if before is None or after is None else (after**2).sum(axis=-1) - (before**2).sum(axis=-1)


def _meeting(stages):
    """Each stage to the paths that lead back to it: ….via_… of its own name, and of every decoder layer for the memory."""
    meeting = {}
    for name in stages:
        place, _, path = name.partition(".via_")
        if path:
            meeting.setdefault("encoder.memory" if place.endswith(".memory") else place, []).append(name)
    return meeting


def _paths(step, place, paths):
    total = step.stages.get(place)  # a parameter's paths, as with tied weights, meet in its gradient
    total = as_floats(step.grads[place]) if total is None and place in step.grads else total
    return None if total is None else (total - sum(step.stages[path] for path in paths)) / _size(total, step)[..., None]


def _size(rows, step):
    return np.maximum(np.abs(rows).sum(axis=-1), 1e-3 * step.largest + 1e-30)


# ---- rows of the report -------------------------------------------------------------------------


def _each(name, bound, deviations):
    """One row from the deviations of every stage: the worst decides."""
    found = [(stage, np.abs(value)) for stage, value in deviations if value is not None]
    if not found:
        looked_at = "no such place here" if "mask" in name else "left open: its stages were not recorded"
        return Row(name, True if "mask" in name else None, verdict=looked_at)
    stage, worst = max(((stage, np.where(np.isnan(value), np.inf, value)) for stage, value in found), key=lambda pair: pair[1].max())
    place = tuple(int(i) for i in np.unravel_index(worst.argmax(), worst.shape))
    error = float(worst[place])
    holds = bool(error <= bound)
    verdict = ("holds exactly" if bound == 0 else f"holds {within(bound)}") if holds else f"fails, {off_by(error)}"
    return Row(name, holds, error, f"{stage}{place_text(place)}", verdict)


def _shapes(name, expected, values):
    for stage, shape in expected.items():
        if stage not in values:
            return Row(name, False, where=stage, verdict="fails, missing")
        if np.shape(values[stage]) != shape:
            return Row(name, False, where=stage, verdict=f"fails, {np.shape(values[stage])} for {shape}")
    return Row(name, True, verdict=f"holds, {len(expected)} of them")
