"""Layer norm and RMS norm."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config
from ..record import Record, nothing
from ..shapes import check_norm
from .inputs import checked, looks


def _check_layer_norm(x, gamma, beta, eps):
    check_norm(x, eps, gamma=gamma, beta=beta)


def _check_rms_norm(x, gamma, eps):
    check_norm(x, eps, gamma=gamma)


@checked(_check_layer_norm)
def layer_norm(
    x: Float[Tensor, "*batch d"], gamma: Float[Tensor, "d"], beta: Float[Tensor, "d"], eps: float = 1e-5, record: Record = nothing
) -> Float[Tensor, "*batch d"]:
    """y = γ (x − μ)/√(σ² + ε) + β, σ² the mean square of the deviations (over d, not d − 1)     (Ba et al. 2016)

    With eps = 0 a constant row is a ValueError. Step by step when recorded, otherwise PyTorch's own kernel.
    """
    if not record.on and eps > 0:
        return functional.layer_norm(x, x.shape[-1:], gamma, beta, eps)
    mean = record("mean", x.mean(-1, keepdim=True))
    var = record("var", (x - mean).square().mean(-1, keepdim=True))
    # the mean of equal numbers can round to another one, and then var is not 0
    _refuse_zero(var * (x != x[..., :1]).any(-1, keepdim=True), eps, "constant")
    normalised = record("normalised", (x - mean) / (var + eps).sqrt())
    return record("out", gamma * normalised + beta)


@checked(_check_rms_norm)
def rms_norm(x: Float[Tensor, "*batch d"], gamma: Float[Tensor, "d"], eps: float = 1e-5, record: Record = nothing) -> Float[Tensor, "*batch d"]:
    """y = γ x/√(mean(x²) + ε)     (Zhang and Sennrich 2019)"""
    if not record.on and eps > 0:
        return functional.rms_norm(x, x.shape[-1:], gamma, eps)
    mean_square = record("mean_square", x.square().mean(-1, keepdim=True))
    _refuse_zero(mean_square, eps, "zero")
    normalised = record("normalised", x / (mean_square + eps).sqrt())
    return record("out", gamma * normalised)


def _refuse_zero(spread, eps, what):
    if eps == 0 and looks(spread) and bool((spread == 0).any()):
        raise ValueError(f"x had a {what} row and eps was 0, so that the norm would divide 0 by 0; eps must be above 0 for such a row")


class LayerNorm(nn.Module):
    """Layer norm over the last axis; parameters `gamma`, `beta` (d,)."""

    def __init__(self, d: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d))
        self.beta = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor, record: Record = nothing) -> Tensor:
        return layer_norm.rule(x, self.gamma, self.beta, self.eps, record)


class RMSNorm(nn.Module):
    """RMS norm over the last axis; parameter `gamma` (d,)."""

    def __init__(self, d: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor, record: Record = nothing) -> Tensor:
        return rms_norm.rule(x, self.gamma, self.eps, record)


@checked()
def make(config: Config) -> nn.Module:
    """The norm that config.norm_kind names."""
    return (RMSNorm if config.norm_kind == "rms" else LayerNorm)(config.d_model, config.eps)
