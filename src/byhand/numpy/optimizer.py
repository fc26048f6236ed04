"""Adam, and the paper's learning-rate schedule."""

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from ..parameters import check_floats
from .finite import is_finite

Array = np.ndarray
Arrays = dict[str, Array]


class AdamState(NamedTuple):
    t: int
    m: Arrays
    v: Arrays


def noam(step: int, d_model: int, warmup: int = 4000) -> float:
    """lr(t) = d_model^(−1/2) · min(t^(−1/2), t · warmup^(−3/2))

    Rises as a line for `warmup` steps, then falls as 1/√t. step counts from 1.
    Raises ValueError for a step, width or warm-up below 1. Source: Vaswani et al. 2017, equation 3.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if not value >= 1:  # NaN is not at least 1 either
            raise ValueError(f"{name} was {value}; it must be at least 1")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def adam(
    params: Arrays,
    grads: Arrays,
    state: AdamState | None = None,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
) -> tuple[Arrays, AdamState]:
    """θ ← θ − lr · m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

    m ← β₁ m + (1 − β₁) g and v ← β₂ v + (1 − β₂) g². Without a state this is step t = 1, from m = v = 0.
    Returns new params and the new state; what was passed in stays as it was.
    Raises ValueError where names or shapes of params, grads and state differ, for what is not finite or would not
    be after it (a square that overflows, 0/0 under ε = 0), for dtypes other than float32 and float64 (in float16 this ε is 0)
    or of two kinds, and for lr < 0, betas outside [0, 1) or ε < 0.
    Source: Kingma and Ba 2015, algorithm 1; the constants are Vaswani et al. 2017's, section 5.3.
    """
    _check_adam(params, grads, state, lr, betas, eps)
    t, m, v = _start(params) if state is None else state
    t += 1
    beta_1, beta_2 = betas
    # Both corrections folded into two scalars: lr·m̂/(√v̂ + ε) = step·m/(√v + scaled_eps)
    root = math.sqrt(1 - beta_2**t)
    step, scaled_eps = lr * root / (1 - beta_1**t), eps * root

    def rule(theta: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * (g * g)
        return theta - step * m / (np.sqrt(v) + scaled_eps), m, v

    new_params, new_m, new_v = {}, {}, {}
    for name, theta in params.items():
        new_params[name], new_m[name], new_v[name] = _in_pieces(rule, theta, grads[name], m[name], v[name])
    return new_params, AdamState(t, new_m, new_v)


def _start(params):
    m, v = ({name: np.zeros_like(theta) for name, theta in params.items()} for _ in range(2))
    return AdamState(0, m, v)


def _in_pieces(rule, *arrays, size=2**14):
    """rule(*arrays), three arrays, a piece at a time: what it makes on the way then stays in the processor's cache."""
    first = arrays[0]
    if first.size <= size:
        return rule(*arrays)
    flat = [array.reshape(-1) for array in arrays]
    results = [np.empty(first.size, first.dtype) for _ in range(3)]
    for start in range(0, first.size, size):
        piece = slice(start, start + size)
        for result, value in zip(results, rule(*(array[piece] for array in flat)), strict=True):
            result[piece] = value
    return [result.reshape(first.shape) for result in results]


def _check_adam(params, grads, state, lr, betas, eps):
    if not isinstance(lr, Real) or not 0 <= lr < math.inf:
        raise ValueError(f"lr was {lr!r}; it must be a finite number of at least 0")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas was {betas}; both must lie in [0, 1)")
    if not isinstance(eps, Real) or not 0 <= eps < math.inf:
        raise ValueError(f"eps was {eps!r}; it must be a finite number of at least 0")
    if state is not None and not isinstance(state, AdamState):
        raise ValueError(f"state was {type(state).__name__}; it must be None or the AdamState that the last call returned")
    _check_names("grads", grads, params)
    like = check_floats(grads, "the gradient of {!r}", check_floats(params, "parameter {!r}"))
    for name, g in grads.items():
        _check_entries("the gradient of", name, g, params[name].shape)
        _check_entries("parameter", name, params[name], params[name].shape)
        if not math.isfinite(np.vdot(g, g)) and np.abs(g).max() > math.sqrt(np.finfo(g.dtype).max):
            raise ValueError(f"the gradient of {name!r} held an entry whose square overflows {g.dtype}; it must be smaller")
    for part, moments in (() if state is None else (("m", state.m), ("v", state.v))):
        _check_names(f"state.{part}", moments, params)
        check_floats(moments, f"state.{part} of {{!r}}", like)
        for name, moment in moments.items():
            if moment.shape != params[name].shape:
                raise ValueError(f"state.{part} of {name!r} had shape {moment.shape}; it must be the parameter's, {params[name].shape}")
    if eps == 0:
        for name, g in grads.items():
            if not (g * g if state is None else state.v[name] + g * g).all():
                raise ValueError(f"eps was 0 and an entry of the gradient of {name!r} was always 0, which gives 0/0; eps must be above 0")


def _check_names(what, found, params):
    if params.keys() != found.keys():
        odd = sorted(params.keys() ^ found.keys())
        raise ValueError(f"{what} must have params' names; only one of them has {', '.join(odd[:4])}")


def _check_entries(what, name, value, shape):
    if value.shape != shape:
        raise ValueError(f"{what} {name!r} had shape {value.shape}; it must be the parameter's, {shape}")
    if not is_finite(value):
        raise ValueError(f"{what} {name!r} holds a value that is not finite; every entry must be a finite number")
