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

    The numbers along the axis share a scale; axis=None gives the whole array one. A number moves by at most scale/2.
    Raises ValueError for an empty array, one that is not floating-point, and one that is not finite.
    """
    if not x.size or x.dtype.kind != "f":
        raise ValueError(f"x had dtype {x.dtype} and shape {x.shape}; it must be floating-point and not empty")
    largest = np.abs(x).max(axis=axis, keepdims=True)
    if not np.isfinite(largest).all():
        raise ValueError("x held a value that is not finite; every entry must be a finite number")
    scale = largest / LARGEST
    values = np.rint(x / np.where(scale == 0, 1, scale)).astype(np.int8)
    return Quantized(values, scale)


def dequantize(quantized: Quantized) -> Float[Array, "..."]:
    """x̂ = scale · values"""
    return quantized.scale * quantized.values


def error(x: Float[Array, "..."], quantized: Quantized) -> Error:
    """max|x − x̂| and ‖x − x̂‖ / ‖x‖ (0 where x is 0)"""
    difference = x - dequantize(quantized)
    size = float(np.linalg.norm(x))
    return Error(float(np.abs(difference).max()), float(np.linalg.norm(difference)) / size if size else 0.0)


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
