import pytest
import torch

from byhand.numpy import norm as np_norm
from byhand.record import Record
from byhand.torch.norm import LayerNorm, RMSNorm, layer_norm, rms_norm


def both_ways(operation, *arguments):
    """PyTorch's own kernel, and the recorded steps."""
    return operation(*arguments), operation(*arguments, record=Record({}))


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
def test_layer_norm_agrees_with_numpy(draw_tensor, differ, eps):
    x, gamma, beta, dy = draw_tensor(2, 3, 5), draw_tensor(5), draw_tensor(5), draw_tensor(2, 3, 5).detach()
    y, cache = np_norm.layer_norm(*(t.detach().numpy() for t in (x, gamma, beta)), eps)
    dx, grads = np_norm.layer_norm_backward(dy.numpy(), cache)
    for mine in both_ways(layer_norm, x, gamma, beta, eps):
        assert differ(mine, y) < 1e-12
        for gradient, wanted in zip(torch.autograd.grad(mine, (x, gamma, beta), dy), (dx, grads["gamma"], grads["beta"]), strict=True):
            assert differ(gradient, wanted) < 1e-11


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_rms_norms_two_ways_agree(draw_tensor, differ, eps):
    x, gamma, dy = draw_tensor(2, 3, 5), draw_tensor(5), draw_tensor(2, 3, 5).detach()
    kernel, steps = both_ways(rms_norm, x, gamma, eps)
    assert differ(kernel, steps) < 1e-12
    for gradient, wanted in zip(torch.autograd.grad(kernel, (x, gamma), dy), torch.autograd.grad(steps, (x, gamma), dy), strict=True):
        assert differ(gradient, wanted) < 1e-12
    assert torch.autograd.gradcheck(lambda x, gamma: rms_norm(x, gamma, 0.0), (x, gamma))


def test_a_row_without_spread_needs_eps():
    with pytest.raises(ValueError, match="constant row"):
        layer_norm(torch.ones(1, 4), torch.ones(4), torch.zeros(4), eps=0.0)
    with pytest.raises(ValueError, match="zero row"):
        rms_norm(torch.zeros(1, 4), torch.ones(4), eps=0.0)
    assert (layer_norm(torch.ones(1, 4), torch.ones(4), torch.zeros(4)) == 0).all()


@pytest.mark.parametrize(("norm", "more"), [(layer_norm, [torch.zeros(4)]), (rms_norm, [])])
def test_pytorchs_own_kernel_does_the_work_unless_recorded_or_without_eps(monkeypatch, norm, more):
    kernel, calls = getattr(torch.nn.functional, norm.__name__), []
    monkeypatch.setattr(torch.nn.functional, norm.__name__, lambda *arguments: calls.append(None) or kernel(*arguments))
    for how, times in (({}, 1), ({"eps": 1e-12}, 1), ({"eps": 0.0}, 0), ({"record": Record({})}, 0)):
        norm(torch.arange(4.0)[None], torch.ones(4), *more, **how)
        assert len(calls) == times, how
        calls.clear()


def test_the_modules_have_the_usual_eps(draw_tensor, differ):
    x = draw_tensor(2, 5) * 1e-2
    for module, rows in ((LayerNorm(5).double(), x - x.mean(-1, keepdim=True)), (RMSNorm(5).double(), x)):
        y = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        assert differ(module(x), y) < 1e-12 and differ(module(x, Record({})), y) < 1e-12


def test_the_modules_hold_gamma_and_beta():
    assert list(LayerNorm(4).state_dict()) == ["gamma", "beta"]
    assert list(RMSNorm(4).state_dict()) == ["gamma"]


@pytest.mark.parametrize("value", [0.1, 0.7])
def test_a_constant_row_under_eps_0_whose_mean_rounds(value):
    with pytest.raises(ValueError, match="x had a constant row and eps was 0"):
        layer_norm(torch.full((2, 3), value, dtype=torch.float64), torch.ones(3).double(), torch.zeros(3).double(), eps=0.0)
