"""Reading on: the KV cache of a decoder stack, and tokens generated one by one with it or without.

A model is met here as `read(tokens, kv_cache, lengths)`, which gives back logits and a longer KV cache.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..config import Config
from ..doors import whole
from .checks import check_integers, check_lengths, checked

Array = np.ndarray
Arrays = dict[str, Array]
Read = Callable[..., tuple[Float[Array, "batch time vocab"], "KVCache"]]
Choose = Callable[[Float[Array, "batch vocab"]], Int[Array, "batch"]]


class KVCache(NamedTuple):
    """Keys and values of every block for the tokens read so far, so that the next token need not compute them again.

    Nothing in it is ever changed: a forward pass that continues from it returns a longer one. `valid` is False at
    padding. config and params are those it was made with; a cache of another model is refused.
    """

    keys: tuple[Float[Array, "batch kv_heads time d_k"], ...]  # rotated already, where positions are "rope"
    values: tuple[Float[Array, "batch kv_heads time d_v"], ...]
    valid: Bool[Array, "batch time"]
    config: Config
    params: Arrays

    @property
    def time(self) -> int:
        """Places filled, padding included."""
        return self.valid.shape[1]

    @property
    def nbytes(self) -> int:
        """What keys and values take: batch · layers · time · kv_heads · (d_k + d_v) · bytes a number."""
        return sum(array.nbytes for array in self.keys + self.values)

    def __repr__(self):
        batch, heads, time, _ = self.keys[0].shape
        return f"KVCache({len(self.keys)} layers, batch {batch}, {heads} heads, time {time}, {self.nbytes} bytes)"


def _check_places(tokens, kv_cache):
    check_integers("tokens", tokens)
    if tokens.ndim != 2 or (kv_cache is not None and len(tokens) != len(kv_cache.valid)):
        raise ValueError(f"tokens had shape {tokens.shape}; it must be (batch, time), with kv_cache's batch")


@checked(_check_places)
def places(
    tokens: Int[Array, "batch time"], kv_cache: KVCache | None = None
) -> Int[Array, "time"] | Int[Array, "batch time"]:
    """Where these tokens stand: one row for all; after a padded past one a sequence."""
    steps = np.arange(tokens.shape[1])
    if kv_cache is None:
        return steps
    before = kv_cache.valid.sum(axis=1)
    return steps + (before[0] if (before == before[0]).all() else before[:, None])


def _check_read(tokens, lengths, kv_cache):
    _check_places(tokens, kv_cache)
    if lengths is not None:
        check_lengths("lengths", lengths, *tokens.shape)


@checked(_check_read)
def read_so_far(
    tokens: Int[Array, "batch time"], lengths: Int[Array, "batch"] | None,
    kv_cache: KVCache | None,
) -> Bool[Array, "batch time"]:
    """True at every token read so far, these included, that is not padding."""
    new = np.ones(tokens.shape, bool)
    if lengths is not None:
        new = np.arange(tokens.shape[1]) < np.asarray(lengths)[:, None]
    return new if kv_cache is None else np.concatenate((kv_cache.valid, new), axis=1)


def _check_loop(tokens, n_new, lengths):
    _check_places(tokens, None)
    whole("n_new", n_new)
    check_lengths("lengths", lengths, *tokens.shape)


@checked(_check_loop)
def with_cache(
    read: Read, tokens: Int[Array, "batch time"], n_new: int, choose: Choose,
    lengths: Int[Array, "batch"],
) -> Iterator[Int[Array, "batch"]]:
    """token_(t+1) = choose(logits after token_t)

    The prompt is read at once (prefill), then a token at a time (decode).
    """
    lengths = np.asarray(lengths)
    logits, kv_cache = read(tokens, None, lengths)
    last = logits[np.arange(len(tokens)), lengths - 1]
    for step in range(n_new):
        new = choose(last)
        yield new
        if step < n_new - 1:  # the last token is never read
            logits, kv_cache = read(new[:, None], kv_cache, None)
            last = logits[:, 0]


@checked(_check_loop)
def without_cache(
    read: Read, tokens: Int[Array, "batch time"], n_new: int, choose: Choose,
    lengths: Int[Array, "batch"],
) -> Iterator[Int[Array, "batch"]]:
    """The same tokens, everything read again at each step."""
    rows, lengths = np.arange(len(tokens)), np.asarray(lengths)
    tokens = np.pad(tokens, ((0, 0), (0, n_new)))
    for step in range(n_new):
        ends = lengths + step
        logits, _ = read(tokens[:, : ends.max()], None, ends)
        new = choose(logits[rows, ends - 1])
        tokens[rows, ends] = new
        yield new


def check_time(config: Config, time: int, kv_cache: KVCache | None = None) -> None:
    """Raise ValueError for more tokens than max_length, those in kv_cache included."""
    past = 0 if kv_cache is None else kv_cache.time
    if config.max_length is not None and past + time > config.max_length:
        read = f" after the {past} in kv_cache" if past else ""
        raise ValueError(f"tokens had time {time}{read}; together they must be at most max_length, {config.max_length}")


def check_kv_cache(kv_cache: KVCache, params: Arrays, config: Config, batch: int) -> None:
    """Raise ValueError unless kv_cache came from this model, with this batch and dtype."""
    if not isinstance(kv_cache, KVCache):
        raise ValueError(f"kv_cache was {type(kv_cache).__name__}; it must be None or the .kv_cache of an earlier forward")
    if kv_cache.config != config:
        raise ValueError(f"kv_cache was made under another config, {kv_cache.config}; it must be {config}")
    dtype = np.result_type(*params.values())
    shape = (batch, config.n_kv_heads, kv_cache.time)
    for name, arrays, width in (("keys", kv_cache.keys, config.d_k), ("values", kv_cache.values, config.d_v)):
        if len(arrays) != config.n_layers:
            raise ValueError(f"kv_cache had {name} of {len(arrays)} layers; it must have {config.n_layers}")
        for array in arrays:
            if array.dtype != dtype:
                raise ValueError(f"kv_cache held {name} in {array.dtype}; it must be the parameters' dtype, {dtype}")
            if array.shape != (*shape, width):
                raise ValueError(f"kv_cache held {name} of shape {array.shape}; it must be {(*shape, width)}, for this batch and model")
    for name, value in params.items():
        if kv_cache.params[name] is not value and not np.array_equal(kv_cache.params[name], value):
            raise ValueError(f"kv_cache was made by another model: parameter {name!r} differs; read the tokens again with this one")
