"""Adam, and the paper's learning-rate schedule."""

import math
from typing import NamedTuple

import numpy as np

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
        if value < 1:
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
    Raises ValueError where names or shapes of params and grads differ, for a gradient that is not finite, and for
    lr < 0, betas outside [0, 1) or ε < 0.
    Source: Kingma and Ba 2015, algorithm 1; the constants are Vaswani et al. 2017's, section 5.3.
    """
    _check_adam(params, grads, lr, betas, eps)
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


def _check_adam(params, grads, lr, betas, eps):
    if params.keys() != grads.keys():
        odd = sorted(params.keys() ^ grads.keys())
        raise ValueError(f"grads must have params' names; only one of them has {', '.join(odd[:4])}")
    for name, g in grads.items():
        if g.shape != params[name].shape:
            raise ValueError(f"the gradient of {name!r} had shape {g.shape}; it must be the parameter's, {params[name].shape}")
        if not math.isfinite(np.vdot(g, g)) and not np.isfinite(g).all():
            raise ValueError(f"the gradient of {name!r} holds a value that is not finite; every entry must be a finite number")
    if not 0 <= lr < math.inf:
        raise ValueError(f"lr was {lr}; it must be a finite number of at least 0")
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas was {betas}; both must lie in [0, 1)")
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps was {eps}; it must be a finite number of at least 0")
