import pytest
import torch

from byhand.numpy import linear as np_linear
from byhand.torch.linear import Linear, linear, weight


@pytest.mark.parametrize("bias", [False, True])
def test_linear_agrees_with_numpy(draw_tensor, differ, bias):
    inputs = [draw_tensor(2, 3, 4), draw_tensor(4, 5)] + [draw_tensor(5)] * bias
    dy = draw_tensor(2, 3, 5).detach()
    y, cache = np_linear.linear(*(t.detach().numpy() for t in inputs))
    dx, grads = np_linear.linear_backward(dy.numpy(), cache)
    mine = linear(*inputs)
    assert differ(mine, y) < 1e-13
    for gradient, wanted in zip(torch.autograd.grad(mine, inputs, dy), (dx, *(grads[name] for name in "wb"[: 1 + bias])), strict=True):
        assert differ(gradient, wanted) < 1e-13


def test_a_tied_layer_has_no_matrix_of_its_own(draw_tensor):
    module = Linear(4, 5, tied=True).double()
    x, table = draw_tensor(2, 4), draw_tensor(5, 4)
    assert list(module.state_dict()) == ["b"]
    torch.testing.assert_close(module(x, table.T), x @ table.T)
    with pytest.raises(TypeError):
        module(x)  # it has to be handed over
    free = Linear(4, 5)
    torch.testing.assert_close(free(x.float()), x.float() @ free.w)
    torch.testing.assert_close(free(x.float(), 2 * free.w), 2 * x.float() @ free.w)


@pytest.mark.parametrize(("d_in", "d_out"), [(40, 50), (10, 300)])
def test_a_weight_starts_uniform_within_glorots_bound(d_in, d_out):
    torch.manual_seed(0)
    w, bound = weight(d_in, d_out), (6 / (d_in + d_out)) ** 0.5
    assert w.shape == (d_in, d_out) and 0.99 * bound < w.max() <= bound and -0.99 * bound > w.min() >= -bound and abs(w.mean()) < 0.1 * bound
