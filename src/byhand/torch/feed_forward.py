"""The position-wise network: wider, bent, narrower again."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ..config import Config
from ..record import Record, nothing
from ..shapes import check_choice, check_feed_forward
from .inputs import checked, plain
from .linear import linear, weight, zeros

(linear,) = plain(linear)


@checked()
def relu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = max(0, x)"""
    return functional.relu(x)


@checked()
def gelu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x Φ(x), Φ the normal distribution function     (Hendrycks and Gimpel 2016)"""
    return functional.gelu(x)


@checked()
def gelu_tanh(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), GPT-2's approximation of gelu"""
    return functional.gelu(x, approximate="tanh")


@checked()
def silu(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """y = x/(1 + e^(−x))"""
    return functional.silu(x)


ACTIVATIONS = dict(zip(("relu", "gelu", "gelu_tanh", "swiglu"), plain(relu, gelu, gelu_tanh, silu)))


def _check_activation(activation):
    check_choice("activation", activation, ACTIVATIONS)


def _check_feed_forward(x, w_1, b_1, w_2, b_2, activation, w_3):
    check_feed_forward(x, w_1, b_1, w_2, b_2, activation, w_3, ACTIVATIONS)


@checked(_check_feed_forward)
def feed_forward(
    x: Float[Tensor, "*batch d_model"],
    w_1: Float[Tensor, "d_model d_ff"],
    b_1: Float[Tensor, "d_ff"] | None,
    w_2: Float[Tensor, "d_ff d_model"],
    b_2: Float[Tensor, "d_model"] | None,
    activation: str = "relu",
    w_3: Float[Tensor, "d_model d_ff"] | None = None,
    record: Record = nothing,
) -> Float[Tensor, "*batch d_model"]:
    """y = f(x w_1 + b_1) w_2 + b_2     (Vaswani et al. 2017, equation 2); with "swiglu" y = (silu(x w_1 + b_1) ⊙ x w_3) w_2 + b_2 (Shazeer 2020)"""
    hidden = record("hidden", linear(x, w_1, b_1))
    active = ACTIVATIONS[activation](hidden)
    if w_3 is not None:
        active = active * record("gate", x @ w_3)
    return record("out", linear(record("active", active), w_2, b_2))


class FeedForward(nn.Module):
    """feed_forward with its parameters `w_1`, `b_1`, `w_2`, `b_2` (the biases unless bias=False), and `w_3` where activation is "swiglu"."""

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", bias: bool = True):
        super().__init__()
        _check_activation(activation)
        self.activation = activation
        self.w_1, self.b_1 = weight(d_model, d_ff), zeros(d_ff) if bias else None
        self.w_2, self.b_2 = weight(d_ff, d_model), zeros(d_model) if bias else None
        self.w_3 = weight(d_model, d_ff) if activation == "swiglu" else None

    @classmethod
    def of(cls, config: Config) -> "FeedForward":
        """A model's network."""
        return cls(config.d_model, config.d_ff, config.activation, "feed_forward" in config.biases)

    def forward(self, x: Tensor, record: Record = nothing) -> Tensor:
        return feed_forward.rule(x, self.w_1, self.b_1, self.w_2, self.b_2, self.activation, self.w_3, record)
