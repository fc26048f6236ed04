"""int8 weights and caches: one byte a number and one scale a row, symmetric about zero."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from ..config import Config
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


def quantize(x: Float[Array, "..."], axis: int | None = -1) -> Quantized:
    """values = round(x / scale),  scale = max|x| / 127 along the axis

    The numbers along the axis share a scale; axis=None gives the whole array one. A number moves by at most scale/2, but for rounding in scale's dtype.
    That is x's own, float32 or float64; a float16 array gets float32, and one whose scale float32 could only hold coarsely (below 1.2e-38) gets float64.
    Raises ValueError for an empty array, one of another dtype, and one that is not finite.
    """
    if not isinstance(x, np.ndarray):
        raise ValueError(f"x was {type(x).__name__}; it must be a NumPy array")
    if not x.size or x.dtype not in (np.float16, np.float32, np.float64):
        raise ValueError(f"x had dtype {x.dtype} and shape {x.shape}; it must be float16, float32 or float64 and not empty")
    largest = np.abs(x).max(axis=axis, keepdims=True).astype(np.float64)
    if not np.isfinite(largest).all():
        raise ValueError("x held a value that is not finite; every entry must be a finite number")
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


def dequantize(quantized: Quantized) -> Float[Array, "..."]:
    """x̂ = scale · values"""
    return quantized.scale * quantized.values


def error(x: Float[Array, "..."], quantized: Quantized) -> Error:
    """max|x − x̂| and ‖x − x̂‖ / ‖x‖ (0 where x is 0)"""
    x, back = x.astype(np.float64), dequantize(quantized).astype(np.float64)
    difference, largest = x - back, np.abs(x).max()
    if not largest:
        return Error(float(np.abs(difference).max()), 0.0)
    # by the largest, so that no square overflows or vanishes
    relative = np.linalg.norm(difference / largest) / np.linalg.norm(x / largest)
    return Error(float(np.abs(difference).max()), float(relative))


def quantized_linear(
    x: Float[Array, "... d_in"], w: Quantized, b: Float[Array, "d_out"] | None = None
) -> Float[Array, "... d_out"]:
    """y = (x values) ⊙ scale + b

    w with one scale a column (quantize(w, axis=0)): the scale comes out of the sum over d_in, so the product is taken
    with the small numbers. Raises ValueError for scales along another axis, and where the shapes do not fit.
    """
    d_in, d_out = w.values.shape
    if w.scale.shape != (1, d_out):
        raise ValueError(f"w had scales of shape {w.scale.shape}; it must be (1, {d_out}), one a column: quantize(w, axis=0)")
    if x.shape[-1] != d_in:
        raise ValueError(f"x had shape {x.shape}; its last axis must be w's first, {d_in}")
    y = x @ w.values.astype(x.dtype) * w.scale[0]
    return y if b is None else y + b


def quantize_params(params: Arrays) -> dict[str, Quantized | Array]:
    """Every matrix in int8, with one scale a column (a row, where it is a table to look up); vectors stay as they are."""
    return {
        name: quantize(value, axis=-1 if name.endswith("embedding") else 0) if value.ndim == 2 else value
        for name, value in params.items()
    }


def dequantize_params(params: dict[str, Quantized | Array]) -> Arrays:
    """Parameters that any floor takes, each within half a scale of what it was."""
    return {name: dequantize(value) if isinstance(value, Quantized) else value for name, value in params.items()}


class QuantizedKVCache(NamedTuple):
    keys: tuple[Quantized, ...]
    values: tuple[Quantized, ...]
    valid: Bool[Array, "batch time"]
    config: Config
    params: Arrays

    @property
    def nbytes(self) -> int:
        return sum(quantized.nbytes for quantized in self.keys + self.values)


def quantize_cache(kv_cache: KVCache) -> QuantizedKVCache:
    """Every key and every value in int8, with one scale for each sequence, head and position.

    A position's scale is fixed when it is written: what is quantised again stays what it was.
    """
    return QuantizedKVCache(tuple(map(quantize, kv_cache.keys)), tuple(map(quantize, kv_cache.values)), *kv_cache[2:])


def dequantize_cache(quantized: QuantizedKVCache) -> KVCache:
    """A KV cache that decoder.forward goes on from."""
    return KVCache(tuple(map(dequantize, quantized.keys)), tuple(map(dequantize, quantized.values)), *quantized[2:])
