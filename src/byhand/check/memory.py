"""What a forward pass with a KV cache takes: the payload by its formula, and the peak that was measured."""

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from byhand.config import Config
from byhand.numpy import decoder

from .doors import checked
from .report import Report, Row

Array = np.ndarray
SLACK = 1 << 16  # bytes: Python's own objects, such as tuples and array headers


@checked()
def kv_bytes(config: Config, batch: int, time: int, bytes_per_number: int = 4) -> int:
    """batch · layers · time · n_kv_heads · (d_k + d_v) · bytes a number: 2 B L T H_kv d_h b where d_k = d_v = d_h

    Raises ValueError for a count that is not a whole number of at least 1.
    """
    for name, value in (("batch", batch), ("time", time), ("bytes_per_number", bytes_per_number)):
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ValueError(f"{name} was {value!r}; it must be a whole number of at least 1")
    return batch * config.n_layers * time * config.n_kv_heads * (config.d_k + config.d_v) * bytes_per_number


def size_text(size: float) -> str:
    """Bytes in the unit that suits them: 512 B, 64 KiB, 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.4g} {unit}"


class Measured(NamedTuple):
    """What a call returned, the bytes still held by it, and the most that were held at once, both beyond what was held before."""

    result: Any
    held: int
    peak: int


def measured(call: Callable[[], Any]) -> Measured:
    """call() under Python's tracemalloc, which counts NumPy's arrays and Python's objects, and not the memory of other libraries."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = call()
        now, peak = tracemalloc.get_traced_memory()
    finally:
        if not running:
            tracemalloc.stop()
    return Measured(result, now - before, peak - before)


@dataclass(frozen=True, eq=False, repr=False)
class MemoryReport(Report):
    """parts: bytes by name: weights, payload, logits, left over, working arrays, peak (all of them together)."""

    parts: dict[str, int] = field(default_factory=dict)

    def header(self) -> list[str]:
        return ["", "verdict"]

    def cells(self, row: Row) -> list[str]:
        return [row.name, row.verdict]


@checked()
def memory_accounting(
    params: Mapping[str, Array],
    config: Config,
    tokens: Int[Array, "batch time"],
    forward: Callable[..., Any] | None = None,
    budget: int | None = None,
) -> MemoryReport:
    """peak = weights + KV payload + logits + working arrays, measured while forward(params, config, tokens) runs

    forward returns something with .logits and .kv_cache, which has .keys and .values, an array a layer; byhand.numpy's, keeping nothing for a backward,
    unless given. Three things must hold: the cache has the formula's bytes, the call leaves nothing behind but cache and logits, and
    the peak is within budget (bytes), where one is given. The other rows are there to be read: what the formula leaves out.
    Memory is counted by Python's tracemalloc, which sees NumPy's arrays and not those of other libraries.
    """
    forward = forward or (lambda params, config, tokens: decoder.forward(params, config, tokens, keep=False))
    out, left, peak = measured(lambda: forward(params, config, tokens))
    number = np.result_type(*params.values()).itemsize
    formula, found = kv_bytes(config, *tokens.shape, number), sum(array.nbytes for array in (*out.kv_cache.keys, *out.kv_cache.values))
    weights = sum(value.nbytes for value in params.values())
    logits = out.logits.nbytes
    left_over = left - found - logits
    parts = {
        "weights": weights, "payload": found, "logits": logits, "left over": left_over,
        "working arrays": peak - found - logits, "peak": weights + peak,
    }  # fmt: skip
    clean = left_over <= max(SLACK, 0.01 * (found + logits))
    rows = [
        Row("KV payload is the formula's", found == formula, found - formula, "keys and values", _payload_words(found, formula)),
        Row("only cache and logits are left", clean, left_over, "after the call", "holds" if clean else f"fails, {size_text(left_over)} more are held"),
        Row("weights", None, weights, verdict=size_text(weights)),
        Row("logits", None, logits, verdict=size_text(logits)),
        Row("working arrays at the peak", None, parts["working arrays"], verdict=size_text(parts["working arrays"])),
        Row("peak, weights included", None, parts["peak"], verdict=f"{size_text(parts['peak'])}, {parts['peak'] / found:.3g} times the payload"),
    ]
    if budget is not None:
        fits = parts["peak"] <= budget
        words = "fits" if fits else "does not fit"
        rows.append(Row("the peak is within the budget", fits, parts["peak"] - budget, verdict=f"{size_text(parts['peak'])} {words} into {size_text(budget)}"))
    failed = sum(row.holds is False for row in rows)
    title = "Memory: " + (f"{failed} of {sum(row.holds is not None for row in rows)} fail" if failed else "every byte has its place")
    return MemoryReport(title, tuple(rows), parts)


def _payload_words(found, formula):
    return f"holds, {size_text(found)}" if found == formula else f"fails, {size_text(found)} for {size_text(formula)}"
