"""Low-rank adaptation: a frozen matrix, and a small trainable update beside it."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..record import Record, nothing

Array = np.ndarray
Arrays = dict[str, Array]


class LoraCache(NamedTuple):
    x: Float[Array, "... d_in"]
    w: Float[Array, "d_in d_out"]
    a: Float[Array, "d_in rank"]
    b: Float[Array, "rank d_out"]
    narrow: Float[Array, "... rank"]
    scale: float


class Counts(NamedTuple):
    full: int
    lora: int
    break_even: float  # the rank at which both are equal


def init(d_in: int, d_out: int, rank: int, seed: int = 0, dtype=np.float64) -> Arrays:
    """a ~ N(0, 1/d_in),  b = 0: at the start the update is 0, and the model what it was

    Returns {"a": (d_in, rank), "b": (rank, d_out)}. Raises ValueError for a rank below 1, or of min(d_in, d_out) or more.
    """
    _check_rank(rank, d_in, d_out)
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(0.0, d_in**-0.5, (d_in, rank)).astype(dtype), "b": np.zeros((rank, d_out), dtype)}


def lora(
    x: Float[Array, "... d_in"],
    w: Float[Array, "d_in d_out"],
    a: Float[Array, "d_in rank"],
    b: Float[Array, "rank d_out"],
    alpha: float,
) -> tuple[Float[Array, "... d_out"], LoraCache]:
    """y = x w + (α/r) (x a) b

    Rows as everywhere in this package: the paper's W₀ + (α/r) B A, for columns, has B =
    bᵀ and A = aᵀ. The d_in × d_out update is never built. Raises ValueError where the
    shapes do not fit, for a rank of min(d_in, d_out) or more, and for an α that is not
    finite. Source: Hu et al. 2021, equation 3 and section 4.1.
    """
    scale = _check_lora(w, a, b, alpha)
    if x.shape[-1] != len(w):
        raise ValueError(
            f"x had shape {x.shape}; its last axis must be w's first, {len(w)}"
        )
    narrow = x @ a
    return x @ w + scale * (narrow @ b), LoraCache(x, w, a, b, narrow, scale)


def lora_backward(
    dy: Float[Array, "... d_out"], cache: LoraCache, record: Record = nothing
) -> tuple[Float[Array, "... d_in"], Arrays]:
    """dx = dy wᵀ + (α/r) dy bᵀ aᵀ,  da = (α/r) xᵀ (dy bᵀ),  db = (α/r) (x a)ᵀ dy

    w is frozen and gets none. At b = 0 da is 0 too: the first step moves b alone.
    Returns dx, {"a", "b"}.
    """
    x, w, a, b, narrow, scale = cache
    dnarrow = record("narrow", scale * (dy @ b.T))
    via_frozen, via_update = dy @ w.T, dnarrow @ a.T  # x was used twice
    record.via("x", frozen=via_frozen, update=via_update)
    da = _rows(x).T @ _rows(dnarrow)
    db = scale * (_rows(narrow).T @ _rows(dy))
    return via_frozen + via_update, {"a": da, "b": db}


def merge(
    w: Float[Array, "d_in d_out"], a: Float[Array, "d_in rank"], b: Float[Array, "rank d_out"], alpha: float
) -> Float[Array, "d_in d_out"]:
    """w + (α/r) a b: one matrix, and no extra work when it is used. Raises as lora does."""
    return w + _check_lora(w, a, b, alpha) * (a @ b)


def unmerge(
    merged: Float[Array, "d_in d_out"], a: Float[Array, "d_in rank"], b: Float[Array, "rank d_out"], alpha: float
) -> Float[Array, "d_in d_out"]:
    """merged − (α/r) a b: w again, up to the rounding of one sum and one difference. Raises as lora does."""
    return merged - _check_lora(merged, a, b, alpha) * (a @ b)


def counts(d_in: int, d_out: int, rank: int) -> Counts:
    """full = d_in · d_out,  lora = r (d_in + d_out),  equal at r = d_in · d_out / (d_in + d_out)

    Raises ValueError for a rank below 1, or of min(d_in, d_out) or more.
    """
    _check_rank(rank, d_in, d_out)
    return Counts(d_in * d_out, rank * (d_in + d_out), d_in * d_out / (d_in + d_out))


def _rows(x):
    return x.reshape(-1, x.shape[-1])


def _check_lora(w, a, b, alpha):
    """α/r, after the checks."""
    d_in, d_out = w.shape
    if a.ndim != 2 or len(a) != d_in:
        raise ValueError(f"a had shape {a.shape}; it must be ({d_in}, rank)")
    rank = a.shape[1]
    _check_rank(rank, d_in, d_out)
    if b.shape != (rank, d_out):
        raise ValueError(f"b had shape {b.shape}; it must be ({rank}, {d_out})")
    if not math.isfinite(alpha):
        raise ValueError(f"alpha was {alpha}; it must be a finite number")
    return alpha / rank


def _check_rank(rank, d_in, d_out):
    if isinstance(rank, bool) or not hasattr(rank, "__index__") or not 1 <= rank < min(d_in, d_out):
        raise ValueError(
            f"rank was {rank!r}; it must be a whole number of at least 1 and below min(d_in, d_out), {min(d_in, d_out)}: "
            "a full-rank update is no smaller than the matrix"
        )
