"""One training step of a transformer, with every gradient by hand."""

from importlib import import_module

from .config import Config
from .record import Record

_SUBPACKAGES = ("check", "numpy", "sympy", "torch", "toy", "worked")
__all__ = ["Config", "Record", *_SUBPACKAGES]


def __getattr__(name):
    # Each floor is imported when it is first used, so that none drags in another's libraries.
    if name in _SUBPACKAGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
