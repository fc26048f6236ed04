"""Checks for a gradient, a training step, or a transformer of your own."""

from .compare import compare
from .decoder_checks import causal_isolation, derivative_agreement, head_shapes, probability_invariants
from .derivatives import central_difference, directional_difference, gradient_check, numerical_gradient
from .diagnosis import diagnose
from .exercise import attempt
from .invariants import invariants
from .measure import agreement, difference
from .memory import kv_bytes, memory_accounting
from .mine import mine
from .task import task_evaluation
from .torch_model import TorchModel
from .watch import watch
from .witnesses import four_witnesses
