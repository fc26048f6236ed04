"""Low-rank adaptation: a frozen matrix, and a small trainable update beside it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..doors import whole
from ..record import Record, nothing
from ..shapes import check_product
from .checks import check_dtype, checked, upstream

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


def _check_lora(x, w, a, b):
    check_product(x=x, w=w)
    _check_update(w, a, b)


def _check_update(w, a, b):
    _check_low_rank("w", w, a, b)


def _check_low_rank(name, w, a, b):
    if w.ndim != 2:
        raise ValueError(f"{name} had shape {w.shape}; it must be (d_in, d_out)")
    d_in, d_out = w.shape
    if a.ndim != 2 or len(a) != d_in:
        raise ValueError(f"a had shape {a.shape}; it must be ({d_in}, rank)")
    rank = a.shape[1]
    _check_rank(rank, d_in, d_out)
    if b.shape != (rank, d_out):
        raise ValueError(f"b had shape {b.shape}; it must be ({rank}, {d_out})")


def _check_merged(merged, a, b):
    _check_low_rank("merged", merged, a, b)


def _check_init(d_in, d_out, rank, dtype):
    check_dtype(dtype)
    _check_rank(rank, d_in, d_out)


def _check_rank(rank, d_in, d_out):
    whole("d_in", d_in)
    whole("d_out", d_out)
    if not 1 <= rank < min(d_in, d_out):
        raise ValueError(
            f"rank was {rank!r}; it must be a whole number of at least 1 and below min(d_in, d_out), {min(d_in, d_out)}: "
            "a full-rank update is no smaller than the matrix"
        )


@checked(_check_init)
def init(d_in: int, d_out: int, rank: int, seed: int = 0, dtype=np.float64) -> Arrays:
    """a ~ N(0, 1/d_in),  b = 0: at the start the update is 0, and the model what it was

    Returns {"a": (d_in, rank), "b": (rank, d_out)}. Raises ValueError for a rank below 1, or of min(d_in, d_out) or more.
    """
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(0.0, d_in**-0.5, (d_in, rank)).astype(dtype), "b": np.zeros((rank, d_out), dtype)}


@checked(_check_lora)
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
    scale = alpha / a.shape[1]
    narrow = x @ a
    return x @ w + scale * (narrow @ b), LoraCache(x, w, a, b, narrow, scale)


@upstream(lambda cache: (*cache.x.shape[:-1], cache.w.shape[1]))
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


@checked(_check_update)
def merge(
    w: Float[Array, "d_in d_out"], a: Float[Array, "d_in rank"], b: Float[Array, "rank d_out"], alpha: float
) -> Float[Array, "d_in d_out"]:
    """w + (α/r) a b: one matrix, and no extra work when it is used. Raises as lora does."""
    return w + alpha / a.shape[1] * (a @ b)


@checked(_check_merged)
def unmerge(
    merged: Float[Array, "d_in d_out"], a: Float[Array, "d_in rank"], b: Float[Array, "rank d_out"], alpha: float
) -> Float[Array, "d_in d_out"]:
    """merged − (α/r) a b: w again, up to the rounding of one sum and one difference. Raises as lora does."""
    return merged - alpha / a.shape[1] * (a @ b)


@checked(_check_rank)
def counts(d_in: int, d_out: int, rank: int) -> Counts:
    """full = d_in · d_out,  lora = r (d_in + d_out),  equal at r = d_in · d_out / (d_in + d_out)

    Raises ValueError for a rank below 1, or of min(d_in, d_out) or more.
    """
    return Counts(d_in * d_out, rank * (d_in + d_out), d_in * d_out / (d_in + d_out))


def _rows(x):
    return x.reshape(-1, x.shape[-1])
