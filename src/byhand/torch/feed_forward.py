"""The position-wise network: wider, bent, narrower again."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from .linear import linear, weight
from .record import Record, nothing


def relu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = max(0, x)"""
    return functional.relu(x)


def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x Φ(x), Φ the normal distribution function     (Hendrycks and Gimpel 2016)"""
    return functional.gelu(x)


def gelu_tanh(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), GPT-2's approximation of gelu"""
    return functional.gelu(x, approximate="tanh")


def silu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x/(1 + e^(−x))"""
    return functional.silu(x)


ACTIVATIONS = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "swiglu": silu}


class FeedForward(nn.Module):
    """y = f(x W_1 + b_1) W_2 + b_2     (Vaswani et al. 2017, equation 2)

    Parameters `w_1` (d_model, d_ff), `b_1`, `w_2` (d_ff, d_model), `b_2`. With activation="swiglu" there is a `w_3` (d_model, d_ff) as
    well, and y = (silu(x W_1 + b_1) ⊙ x W_3) W_2 + b_2 (Shazeer 2020).
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu"):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.w_1, self.b_1 = weight(d_model, d_ff), nn.Parameter(torch.zeros(d_ff))
        self.w_2, self.b_2 = weight(d_ff, d_model), nn.Parameter(torch.zeros(d_model))
        self.w_3 = weight(d_model, d_ff) if activation == "swiglu" else None

    def forward(self, x: Float[Tensor, "*batch d_model"], record: Record = nothing) -> Float[Tensor, "*batch d_model"]:
        hidden = record("hidden", linear(x, self.w_1, self.b_1))
        active = self.activation(hidden)
        if self.w_3 is not None:
            active = active * record("gate", x @ self.w_3)
        return record("out", linear(record("active", active), self.w_2, self.b_2))
