"""What both models give back, and how a pass is looked at: its results alone, unless they are not finite."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..record import Nothing, Record
from .checks import is_finite

Array = np.ndarray
Arrays = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Output:
    """logits, what backward needs in `cache`, and every stage under its dotted name in `activations`.

    A pass that was given a record has recorded its activations. Any other has kept none, and is run again the first time that they are
    asked for.
    """

    logits: Float[Array, "batch time vocab"]
    cache: Any
    run: Callable[[Record], Any] | None = field(repr=False)  # the pass itself; None where nothing was to be kept
    recorded: Arrays | None = field(default=None, repr=False)

    @cached_property
    def activations(self) -> Arrays:
        """Raises ValueError where a parameter has been changed in place since the pass."""
        if self.recorded is not None or self.run is None:
            return self.recorded or {}
        record = Record()
        again = self.run(record)[0]
        if not np.abs(again - self.logits).max() <= 1e3 * np.finfo(again.dtype).eps * np.abs(self.logits).max():  # NaN is a change too
            raise ValueError("params have changed since this pass, and with them its activations; give forward a record to keep them as they were")
        return record.kept | {"logits": self.logits}


class Gradients(NamedTuple):
    params: Arrays
    stages: Arrays


# An infinity here can end as a weight of 0, an inactive unit or a row of zeros, and never reach what is computed from it.
_SWALLOWED = frozenset(("scores", "hidden", "var", "mean_square"))


class _NotFinite(Exception):
    pass


class _Watching(Nothing):
    """Keeps nothing, and looks only where an infinity would leave no trace in the logits."""

    def __call__(self, name: str, value: Array) -> Array:
        if name in _SWALLOWED and not is_finite(value):
            raise _NotFinite
        return value


_watching = _Watching()


def run_forward(run: Callable, record: Record, check: Callable[[], None]) -> Any:
    """run(record), whose first result is the logits. Where they are not finite `check` may refuse what the pass was given.

    Otherwise it is run again with a record, and a ValueError names the first stage that is not finite.
    """
    if not record.on:
        try:
            results = run(_watching)
            if is_finite(results[0]):
                return results
        except _NotFinite:
            pass
        check()
        record = Record()
    with np.errstate(all="ignore"):
        results = run(record)
    for name, value in record.kept.items():
        if not is_finite(value):
            check()
            raise ValueError(f"activation {name!r} is the first that is not finite; every activation must be a finite number")
    return results


def run_backward(run: Callable, dlogits: Array, record: Record) -> Arrays:
    """run(dlogits, record), the parameters' gradients; where one is not finite, once more with a record, to name the first that is not."""
    grads = run(dlogits, record)
    if not is_finite(*grads.values()):
        record = record if record.on else Record()
        with np.errstate(all="ignore"):
            stages = record.kept | run(dlogits, record)
        for name, value in stages.items():
            if not is_finite(value):
                raise ValueError(f"the gradient of {name!r} is the first that is not finite; every gradient must be a finite number")
    return grads
