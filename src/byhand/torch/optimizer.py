"""Adam with the paper's schedule, through torch.optim."""

from collections.abc import Iterable
from numbers import Real

import torch
from torch import nn

from ..doors import whole
from .inputs import checked


def _check_noam(step, d_model, warmup):
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        whole(name, value)


@checked(_check_noam)
def noam(step: int, d_model: int, warmup: int = 4000) -> float:
    """lr(t) = d_model^(−1/2) · min(t^(−1/2), t · warmup^(−3/2)), t = 1, 2, …     (Vaswani et al. 2017, equation 3)"""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def _check_adam(lr, betas, eps):
    for name, value in (("lr", lr), ("eps", eps)):
        if value < 0:
            raise ValueError(f"{name} was {value!r}; it must be a finite number of at least 0")
    if len(betas) != 2 or not all(isinstance(beta, Real) and 0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas was {betas}; both must lie in [0, 1)")


def _checked_parameters(parameters):
    """A list of them, since a look would use up what module.parameters() gives."""
    parameters = list(parameters)
    for i, value in enumerate(parameters or [None]):
        trained = isinstance(value, torch.Tensor) and value.is_floating_point() and value.is_leaf
        if not trained and not isinstance(value, dict):  # torch.optim's parameter groups are dicts
            was = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(f"parameters held {was} at {i}; it must hold parameters: floating-point tensors that were not computed, at least one")
    return parameters


@checked(_check_adam)
def adam(
    parameters: Iterable[nn.Parameter], lr: float = 1.0, betas: tuple[float, float] = (0.9, 0.98), eps: float = 1e-9, fused: bool | None = None
) -> torch.optim.Adam:
    """m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², p ← p − lr · m̂/(√v̂ + ε), with m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ)     (Kingma and Ba 2015)

    lr stays 1 where `schedule` gives the rate.
    """
    return torch.optim.Adam(_checked_parameters(parameters), lr=lr, betas=betas, eps=eps, fused=fused)


def _check_schedule(d_model, warmup):
    _check_noam(1, d_model, warmup)


@checked(_check_schedule)
def schedule(optimizer: torch.optim.Optimizer, d_model: int, warmup: int = 4000) -> torch.optim.lr_scheduler.LambdaLR:
    """The rate of step t is the optimizer's lr times noam(t): call .step() after each step of the optimizer.

    Steps are counted by the optimizer's own state. To go on with a run, make the optimizer and load its state, then make the schedule, or make both
    and load both: either way the next step has the rate that comes next.
    """
    done = max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: noam.rule(done + 1, d_model, warmup), last_epoch=done - 1)
