"""int8 weights and caches: one byte a number and one scale a row, symmetric about zero."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from .. import doors
from ..config import Config
from ..parameters import FLOATS
from .checks import check_finite, checked, described
from .decoder import KVCache

Array = np.ndarray
Arrays = dict[str, Array]

LARGEST = 127  # −128 is left unused, so that x and −x are stored alike


class Quantized(NamedTuple):
    values: Int8[Array, "..."]
    scale: Float[Array, "..."]  # of length 1 along the axis whose numbers share it

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scale.nbytes


class Error(NamedTuple):
    largest: float  # max|x − x̂|
    relative: float  # ‖x − x̂‖ / ‖x‖


def _check_wide(**x):
    """The one door that takes float16 too."""
    for name, value in x.items():
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} was {type(value).__name__}; it must be a NumPy array")
        if not value.size or value.dtype not in (np.float16, np.float32, np.float64):
            raise ValueError(f"{name} had dtype {value.dtype} and shape {value.shape}; it must be float16, float32 or float64 and not empty")
        check_finite(**{name: value})


def _check_quantize(x, axis):
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis was {axis}; it must be an axis of x, of shape {x.shape}, or None")


@doors.checked(_check_quantize, floats=_check_wide)
def quantize(x: Float[Array, "..."], axis: int | None = -1) -> Quantized:
    """values = round(x / scale),  scale = max|x| / 127 along the axis

    The numbers along the axis share a scale; axis=None gives the whole array one. A number moves by at most scale/2, but for rounding in scale's dtype.
    That is x's own, float32 or float64; a float16 array gets float32, and one whose scale float32 could only hold coarsely (below 1.2e-38) gets float64.
    Raises ValueError for an empty array, one of another dtype, and one that is not finite.
    """
    largest = np.abs(x).max(axis=axis, keepdims=True).astype(np.float64)
    scale = _scale(largest, np.float64 if x.dtype == np.float64 else np.float32)
    values = np.rint(x.astype(scale.dtype) / np.where(scale == 0, 1, scale)).astype(np.int8)
    return Quantized(values, scale)


def _scale(largest, dtype):
    """largest / 127, where 127 of them neither overflow nor fall so far short of the largest that it would need a 128th."""
    exact = largest / LARGEST
    if dtype == np.float32 and ((exact > 0) & (exact < np.finfo(dtype).tiny)).any():
        dtype = np.float64
    scale = exact.astype(dtype)
    with np.errstate(over="ignore"):
        scale = np.where(np.isinf(scale * LARGEST), np.nextafter(scale, 0), scale)
    coarse = (largest > 0) & (scale < np.finfo(dtype).tiny)
    return np.where(coarse & (scale * LARGEST < largest), np.nextafter(scale, np.inf, dtype=dtype), scale)


def _check_stored(quantized, name="quantized"):
    values, scale = quantized
    if not isinstance(values, np.ndarray) or values.dtype != np.int8:
        raise ValueError(f"{name}.values was {described(values)}; it must be an int8 array")
    if not isinstance(scale, np.ndarray) or scale.dtype not in FLOATS or scale.ndim != values.ndim or not _shares(scale.shape, values.shape):
        raise ValueError(f"{name}.scale was {described(scale)}; it must be float32 or float64, with values' axes, {values.shape}, each as long or 1")
    check_finite(**{f"{name}.scale": scale})


def _shares(scale, values):
    return all(n in (1, m) for n, m in zip(scale, values))


@checked(lambda quantized: _check_stored(quantized))
def dequantize(quantized: Quantized) -> Float[Array, "..."]:
    """x̂ = scale · values"""
    return quantized.scale * quantized.values


def _check_error(x, quantized):
    _check_stored(quantized)
    if x.shape != quantized.values.shape:
        raise ValueError(f"x had shape {x.shape}; it must be quantized's, {quantized.values.shape}")


@doors.checked(_check_error, floats=_check_wide)
def error(x: Float[Array, "..."], quantized: Quantized) -> Error:
    """max|x − x̂| and ‖x − x̂‖ / ‖x‖ (0 where x is 0)"""
    x, back = x.astype(np.float64), dequantize.rule(quantized).astype(np.float64)
    difference, largest = x - back, np.abs(x).max()
    if not largest:
        return Error(float(np.abs(difference).max()), 0.0)
    # by the largest, so that no square overflows or vanishes
    relative = np.linalg.norm(difference / largest) / np.linalg.norm(x / largest)
    return Error(float(np.abs(difference).max()), float(relative))


def _check_linear(x, w, b):
    _check_stored(w, "w")
    if w.values.ndim != 2:
        raise ValueError(f"w had values of shape {w.values.shape}; it must be (d_in, d_out)")
    d_in, d_out = w.values.shape
    if w.scale.shape != (1, d_out):
        raise ValueError(f"w had scales of shape {w.scale.shape}; it must be (1, {d_out}), one a column: quantize(w, axis=0)")
    if x.shape[-1:] != (d_in,):
        raise ValueError(f"x had shape {x.shape}; its last axis must be w's first, {d_in}")
    if b is not None and b.shape != (d_out,):
        raise ValueError(f"b had shape {b.shape}; it must be ({d_out},)")
    if w.scale.dtype != x.dtype:
        raise ValueError(f"x had dtype {x.dtype}; it must be that of w's scales, {w.scale.dtype}")


@checked(_check_linear)
def quantized_linear(
    x: Float[Array, "... d_in"], w: Quantized, b: Float[Array, "d_out"] | None = None
) -> Float[Array, "... d_out"]:
    """y = (x values) ⊙ scale + b

    w with one scale a column (quantize(w, axis=0)): the scale comes out of the sum over d_in, so the product is taken
    with the small numbers. Raises ValueError for scales along another axis, and where the shapes do not fit.
    """
    y = x @ w.values.astype(x.dtype) * w.scale[0]
    return y if b is None else y + b


def _check_params(params):
    for name, value in params.items():
        _check_wide(**{f"params[{name!r}]": value})


@checked(_check_params)
def quantize_params(params: Arrays) -> dict[str, Quantized | Array]:
    """Every matrix in int8, with one scale a column (a row, where it is a table to look up); vectors stay as they are."""
    return {
        name: quantize.rule(value, axis=-1 if name.endswith("embedding") else 0) if value.ndim == 2 else value
        for name, value in params.items()
    }


def _check_quantized_params(params):
    for name, value in params.items():
        _check_stored(value, f"params[{name!r}]") if isinstance(value, Quantized) else _check_wide(**{f"params[{name!r}]": value})


@checked(_check_quantized_params)
def dequantize_params(params: dict[str, Quantized | Array]) -> Arrays:
    """Parameters that any floor takes, each within half a scale of what it was."""
    return {name: dequantize.rule(value) if isinstance(value, Quantized) else value for name, value in params.items()}


class QuantizedKVCache(NamedTuple):
    keys: tuple[Quantized, ...]
    values: tuple[Quantized, ...]
    valid: Bool[Array, "batch time"]
    config: Config
    params: Arrays

    @property
    def nbytes(self) -> int:
        return sum(quantized.nbytes for quantized in self.keys + self.values)


@checked()
def quantize_cache(kv_cache: KVCache) -> QuantizedKVCache:
    """Every key and every value in int8, with one scale for each sequence, head and position.

    A position's scale is fixed when it is written: what is quantised again stays what it was.
    """
    return QuantizedKVCache(tuple(map(quantize.rule, kv_cache.keys)), tuple(map(quantize.rule, kv_cache.values)), *kv_cache[2:])


@checked()
def dequantize_cache(quantized: QuantizedKVCache) -> KVCache:
    """A KV cache that decoder.forward goes on from."""
    return KVCache(tuple(map(dequantize.rule, quantized.keys)), tuple(map(dequantize.rule, quantized.values)), *quantized[2:])
