"""Adam, and the paper's learning-rate schedule."""

import math
from numbers import Real
from typing import NamedTuple

import numpy as np

from ..doors import whole
from ..parameters import check_floats, shapes_of
from .checks import checked, is_finite

Array = np.ndarray
Arrays = dict[str, Array]


class AdamState(NamedTuple):
    t: int
    m: Arrays
    v: Arrays


def _check_noam(**counts):
    for name, value in counts.items():
        whole(name, value)


@checked(lambda step, d_model, warmup: _check_noam(step=step, d_model=d_model, warmup=warmup))
def noam(step: int, d_model: int, warmup: int = 4000) -> float:
    """lr(t) = d_model^(−1/2) · min(t^(−1/2), t · warmup^(−3/2))

    Rises as a line for `warmup` steps, then falls as 1/√t. step counts from 1.
    Raises ValueError for a step, width or warm-up below 1. Source: Vaswani et al. 2017,
    equation 3.
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def _check_adam(params, grads, state, lr, betas, eps):
    if lr < 0:
        raise ValueError(f"lr was {lr!r}; it must be a finite number of at least 0")
    if len(betas) != 2 or not all(isinstance(beta, Real) and 0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas was {betas}; both must lie in [0, 1)")
    if eps < 0:
        raise ValueError(f"eps was {eps!r}; it must be a finite number of at least 0")
    moments = {} if state is None else {"state.m": state.m, "state.v": state.v}
    if state is not None:
        whole("state.t", state.t)
    like, shapes = check_floats(params, "parameter {!r}"), shapes_of(params)
    for what, arrays in {"grads": grads, **moments}.items():
        if not isinstance(arrays, dict):
            raise ValueError(f"{what} was {type(arrays).__name__}; it must be a dict of arrays")
        if params.keys() != arrays.keys():
            odd = sorted(params.keys() ^ arrays.keys())
            raise ValueError(f"{what} must have params' names; only one of them has {', '.join(odd[:4])}")
        of = "the gradient of" if what == "grads" else f"{what} of"
        check_floats(arrays, f"{of} {{!r}}", like)
        if shapes_of(arrays) != shapes:
            name = next(name for name in params if arrays[name].shape != shapes[name])
            raise ValueError(f"{of} {name!r} had shape {arrays[name].shape}; it must be the parameter's, {shapes[name]}")


@checked(_check_adam)
def adam(
    params: Arrays,
    grads: Arrays,
    state: AdamState | None = None,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
) -> tuple[Arrays, AdamState]:
    """θ ← θ − lr · m̂ / (√v̂ + ε),  m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)

    m ← β₁ m + (1 − β₁) g and v ← β₂ v + (1 − β₂) g². Without a state this is step t =
    1, from m = v = 0.
    Returns new params and the new state; what was passed in stays as it was.
    Raises ValueError where names or shapes of params, grads and state differ, for what
    is not finite or would not be after it (a square that overflows, 0/0 under ε = 0),
    for dtypes other than float32 and float64 (in float16 this ε is 0) or of two kinds,
    and for lr < 0, betas outside [0, 1) or ε < 0.
    Source: Kingma and Ba 2015, algorithm 1; the constants are Vaswani et al. 2017's,
    section 5.3.
    """
    t, m, v = _start(params) if state is None else state
    t += 1
    beta_1, beta_2 = betas
    # Both corrections in two scalars: lr·m̂/(√v̂ + ε) = step·m/(√v + scaled_eps)
    root = math.sqrt(1 - beta_2**t)
    step, scaled_eps = lr * root / (1 - beta_1**t), eps * root

    def rule(theta, g, m, v, new_theta, new_m, new_v):
        m = np.multiply(beta_1, m, out=new_m)
        m += (1 - beta_1) * g
        v = np.multiply(beta_2, v, out=new_v)
        v += (1 - beta_2) * (g * g)
        change = step * m / (np.sqrt(v) + scaled_eps)
        np.subtract(theta, change, out=new_theta)
        if not is_finite(new_theta, v):
            _refuse_what_is_not_finite(params, grads, state, eps)

    with np.errstate(all="ignore"):  # the results are looked at
        new_params, new_m, new_v = _entrywise(rule, params, grads, m, v)
    return new_params, AdamState(t, new_m, new_v)


def _start(params):
    m, v = ({name: np.zeros_like(theta) for name, theta in params.items()} for _ in range(2))
    return AdamState(0, m, v)


def _entrywise(rule, params, grads, m, v, size=2**16):
    """rule(θ, g, m, v, new θ, new m, new v), which fills the new ones, entry by entry.

    Small arrays are joined, since a call costs more than their arithmetic; a large one goes a piece at a time, so that what is made on the
    way stays in the processor's cache.
    """
    results = {}, {}, {}
    for names in _groups(params, size):
        flat = [_joined([arrays[name] for name in names]) for arrays in (params, grads, m, v)]
        new = [np.empty_like(flat[0]) for _ in results]
        for start in range(0, flat[0].size, size):
            rule(*(array[start : start + size] for array in flat + new))
        start = 0
        for name in names:
            shape, place = params[name].shape, slice(start, start := start + params[name].size)
            for result, entries in zip(results, new):
                result[name] = entries[place].reshape(shape)
    return results


def _joined(arrays):
    return arrays[0].reshape(-1) if len(arrays) == 1 else np.concatenate(arrays, axis=None)


def _groups(arrays, size):
    """The names in order, as many together as have no more than `size` entries, at least one."""
    group, total = [], 0
    for name, array in arrays.items():
        if group and total + array.size > size:
            yield group
            group, total = [], 0
        group.append(name)
        total += array.size
    if group:
        yield group


def _refuse_what_is_not_finite(params, grads, state, eps):
    """Raise ValueError naming what the step would not be finite for."""
    for name, g in grads.items():
        for what, value in (("the gradient of", g), ("parameter", params[name])):
            if not is_finite(value):
                raise ValueError(f"{what} {name!r} holds a value that is not finite; every entry must be a finite number")
        if np.abs(g).max(initial=0) > math.sqrt(np.finfo(g.dtype).max):
            raise ValueError(f"the gradient of {name!r} held an entry whose square overflows {g.dtype}; it must be smaller")
        if eps == 0 and not (g * g if state is None else state.v[name] + g * g).all():
            raise ValueError(f"eps was 0 and an entry of the gradient of {name!r} was always 0, which gives 0/0; eps must be above 0")
    raise ValueError("the step led to a value that is not finite; lr, betas and the state's moments must leave every entry a finite number")
