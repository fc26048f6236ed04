"""Every stage of a pass under its dotted name, so that any two implementations can be compared stage by stage."""

import numpy as np

from .attention import MultiHeadCache, MultiHeadGradients
from .feed_forward import FeedForwardCache, FeedForwardGradients
from .finite import check_arrays, check_finite, is_finite
from .norm import LayerNormCache, RmsNormCache

Array = np.ndarray
Arrays = dict[str, Array]


def named(prefix: str, values: dict) -> dict:
    """The same values with `prefix.` before every name."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def attention_activations(name: str, cache: MultiHeadCache) -> Arrays:
    """q, k and v are what meets in the scores; with rope, what they were before it comes first."""
    q, _, _, scores, weights = cache.attention
    before = {} if cache.rotation is None else dict(q_unrotated=cache.rotation.q, k_unrotated=cache.rotation.k)
    stages = dict(q=q, k=cache.keys, v=cache.values, scores=scores, weights=weights)
    return named(name, before | stages | dict(mixed=cache.mixed, concat=cache.out.x, out=cache.y))


def attention_stages(name: str, dout: Array, gradients: MultiHeadGradients) -> Arrays:
    """With shared heads `….k_per_query_head` and `….v_per_query_head` are the terms of the sums k and v."""
    dq, dk, dv, dweights, dscores = gradients.attention
    stages = dict(out=dout, concat=gradients.concat, mixed=gradients.mixed, weights=dweights, scores=dscores, q=dq)
    if dk.shape != gradients.keys.shape:
        stages |= dict(k_per_query_head=dk, v_per_query_head=dv)
    stages |= dict(k=gradients.keys, v=gradients.values)
    if gradients.q_unrotated is not None:
        stages |= dict(q_unrotated=gradients.q_unrotated, k_unrotated=gradients.k_unrotated)
    return named(name, stages)


def norm_activations(name: str, cache: LayerNormCache | RmsNormCache, out: Array) -> Arrays:
    """Layer norm has a mean and a variance, RMS norm a mean square."""
    if isinstance(cache, RmsNormCache):
        return named(name, dict(mean_square=cache.mean_square, normalised=cache.normalised, out=out))
    return named(name, dict(mean=cache.mean, var=cache.var, normalised=cache.normalised, out=out))


def feed_forward_activations(name: str, cache: FeedForwardCache, out: Array) -> Arrays:
    """hidden and, with swiglu, gate are the two projections of x."""
    gate = {} if cache.widen_gate is None else dict(gate=cache.gate.gate)
    return named(name, dict(hidden=cache.hidden) | gate | dict(active=cache.active, out=out))


def feed_forward_stages(name: str, dout: Array, gradients: FeedForwardGradients) -> Arrays:
    """The gradients of the same stages, from the last to the first."""
    gate = {} if gradients.gate is None else dict(gate=gradients.gate)
    return named(name, dict(out=dout, active=gradients.active) | gate | dict(hidden=gradients.hidden))


# An infinity here can end as a weight of 0, an inactive unit or a row of zeros, and never reach what is computed from it.
_SWALLOWED = (".scores", ".hidden", ".var", ".mean_square")


def all_finite(rows: Array, activations: Arrays) -> bool:
    """Whether these rows and every activation on the way to them, as far as it does not show in them, are finite."""
    return is_finite(rows) and all(is_finite(value) for name, value in activations.items() if name.endswith(_SWALLOWED))


def check_dlogits(dlogits: Array, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless dlogits is an array of the logits' shape that is finite throughout."""
    check_arrays(dlogits=dlogits)
    if dlogits.shape != shape:
        raise ValueError(f"dlogits had shape {dlogits.shape}; it must be the logits', {shape}")
    check_finite(dlogits=dlogits)


def refuse_non_finite(activations: Arrays) -> None:
    """Raise ValueError naming the first activation that is not finite, if there is one."""
    for name, value in activations.items():
        if not np.isfinite(value).all():
            raise ValueError(f"activation {name!r} is the first that is not finite; every activation must be a finite number")
