import math

import pytest
import torch

from byhand.numpy import feed_forward as np_feed_forward
from byhand.torch.feed_forward import FeedForward, feed_forward, gelu, gelu_tanh, silu


def test_feed_forward_agrees_with_numpy(draw_tensor, differ):
    inputs = [draw_tensor(*shape) for shape in ((2, 3, 4), (4, 7), (7,), (7, 4), (4,))]
    dy = draw_tensor(2, 3, 4).detach()
    y, cache = np_feed_forward.feed_forward(*(t.detach().numpy() for t in inputs))
    dx, grads, _ = np_feed_forward.feed_forward_backward(dy.numpy(), cache)
    mine = feed_forward(*inputs)
    assert differ(mine, y) < 1e-12
    for gradient, wanted in zip(torch.autograd.grad(mine, inputs, dy), (dx, *(grads[n] for n in ("w_1", "b_1", "w_2", "b_2"))), strict=True):
        assert differ(gradient, wanted) < 1e-12


def test_the_bends_are_their_formulas(draw_tensor):
    x = draw_tensor(50).detach()
    torch.testing.assert_close(gelu(x), x * (1 + torch.erf(x / math.sqrt(2))) / 2)
    torch.testing.assert_close(gelu_tanh(x), x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    torch.testing.assert_close(silu(x), x / (1 + torch.exp(-x)))


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_the_module_has_a_gate_for_swiglu_alone(activation):
    names = ["w_1", "b_1", "w_2", "b_2"] + ["w_3"] * (activation == "swiglu")
    module = FeedForward(4, 6, activation)
    assert list(module.state_dict()) == names
    assert module(torch.ones(1, 2, 4)).shape == (1, 2, 4)


def test_swiglu_is_gated(draw_tensor):
    x, w_1, b_1, w_2, b_2, w_3 = (draw_tensor(*shape) for shape in ((3, 4), (4, 7), (7,), (7, 4), (4,), (4, 7)))
    torch.testing.assert_close(feed_forward(x, w_1, b_1, w_2, b_2, "swiglu", w_3), (silu(x @ w_1 + b_1) * (x @ w_3)) @ w_2 + b_2)
