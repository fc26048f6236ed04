"""Checks for a gradient, a training step, or a transformer of your own."""

from .compare import compare
from .derivatives import central_difference, directional_difference, gradient_check, numerical_gradient
from .diagnosis import diagnose
from .exercise import attempt
from .invariants import invariants
from .measure import agreement, difference
from .module import TorchModel
from .watch import watch
from .witnesses import four_witnesses

__all__ = [
    "TorchModel",
    "agreement",
    "attempt",
    "central_difference",
    "compare",
    "diagnose",
    "difference",
    "directional_difference",
    "four_witnesses",
    "gradient_check",
    "invariants",
    "numerical_gradient",
    "watch",
]
