"""Checks for a gradient, a training step, or a transformer of your own."""

from .derivatives import central_difference, directional_difference, gradient_check, numerical_gradient
from .invariants import invariants
from .measure import agreement, difference

__all__ = ["agreement", "central_difference", "difference", "directional_difference", "gradient_check", "invariants", "numerical_gradient"]
