"""y = x W + b."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..doors import whole
from ..shapes import check_linear
from .inputs import checked


@checked(check_linear)
def linear(x: Float[Tensor, "*batch d_in"], w: Float[Tensor, "d_in d_out"], b: Float[Tensor, "d_out"] | None = None) -> Float[Tensor, "*batch d_out"]:
    """y = x W + b

    W is stored as it multiplies, (d_in, d_out): nn.Linear keeps the transpose.
    """
    y = x @ w
    return y if b is None else y + b


def _check_weight(d_in, d_out):
    whole("d_in", d_in)
    whole("d_out", d_out)


@checked(_check_weight)
def weight(d_in: int, d_out: int) -> nn.Parameter:
    """A (d_in, d_out) matrix, uniform within ±√(6/(d_in + d_out)) (Glorot and Bengio 2010)."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out)))


@checked(lambda d_out: whole("d_out", d_out))
def zeros(d_out: int) -> nn.Parameter:
    """A bias (d_out,), which starts at 0."""
    return nn.Parameter(torch.zeros(d_out))


class Linear(nn.Module):
    """y = x W + b; parameters `w` (d_in, d_out) and `b` (d_out,). With tied=True there is no `w`: it is handed over at each call; with bias=False no `b`."""

    def __init__(self, d_in: int, d_out: int, tied: bool = False, bias: bool = True):
        super().__init__()
        self.w = None if tied else weight(d_in, d_out)
        self.b = zeros(d_out) if bias else None

    def forward(self, x: Tensor, w: Tensor | None = None) -> Tensor:
        return linear.rule(x, self.w if w is None else w, self.b)
