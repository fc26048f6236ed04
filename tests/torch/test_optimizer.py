import numpy as np
import pytest
import torch

from byhand.numpy import optimizer as np_optimizer
from byhand.torch.optimizer import adam, noam, schedule


@pytest.mark.parametrize("step", [1, 2, 39, 40, 41, 1000])
def test_noam_agrees_with_numpy(step):
    assert noam(step, 16, warmup=40) == pytest.approx(np_optimizer.noam(step, 16, warmup=40), rel=1e-15)


def test_noam_starts_at_one():
    with pytest.raises(ValueError, match="step was 0"):
        noam(0, 16)


@pytest.mark.parametrize("fused", [None, True])
def test_adam_with_the_schedule_walks_as_numpys(rng, differ, fused):
    # "large" is more than NumPy's Adam takes at once, and its gradient comes transposed
    params = {"a": rng.normal(size=(3, 4)), "b": rng.normal(size=5), "large": rng.normal(size=(150, 120))}
    tensors = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in params.items()}
    optimizer = adam(tensors.values(), fused=fused)
    rate = schedule(optimizer, d_model=8, warmup=3)
    state = None
    for step in range(1, 7):
        grads = {name: rng.normal(size=value.shape) * 10.0 ** rng.integers(-4, 3) for name, value in params.items()}
        grads["large"] = np.asfortranarray(grads["large"])
        params, state = np_optimizer.adam(params, grads, state, lr=np_optimizer.noam(step, 8, warmup=3))
        for name, tensor in tensors.items():
            # in the parameter's layout, as autograd hands it over: the fused kernel reads any other one wrongly, and says nothing
            tensor.grad = torch.tensor(np.ascontiguousarray(grads[name]))
        optimizer.step()
        rate.step()
        for name, tensor in tensors.items():
            assert differ(tensor, params[name]) < 1e-12, (step, name)
    assert np.isclose(rate.get_last_lr()[0], noam(7, 8, warmup=3))


def test_a_schedule_of_nan():
    with pytest.raises(ValueError, match="step was nan"):
        noam(float("nan"), 8)


@pytest.mark.parametrize("order", ["both, then both", "schedule after the state", "schedule's state forgotten", "saved before the schedule's step"])
@pytest.mark.parametrize("fused", [None, True])
def test_a_run_that_goes_on_has_the_rate_that_comes_next(order, fused):
    def start():
        return adam([torch.nn.Parameter(torch.zeros(3))], fused=fused)

    def go(optimizer, rate, step):
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        used = optimizer.param_groups[0]["lr"]
        optimizer.step()
        if step:
            rate.step()
        return used

    optimizer = start()
    rate = schedule(optimizer, 16, 5)
    used = [go(optimizer, rate, step=not (order.startswith("saved") and t == 4)) for t in range(1, 5)]
    saved = optimizer.state_dict(), rate.state_dict()

    optimizer = start()
    if order == "both, then both":
        rate = schedule(optimizer, 16, 5)
        optimizer.load_state_dict(saved[0])
    else:
        optimizer.load_state_dict(saved[0])
        rate = schedule(optimizer, 16, 5)
    if order != "schedule's state forgotten":
        rate.load_state_dict(saved[1])
    if order.startswith("saved"):
        rate.step()
    used += [go(optimizer, rate, step=True) for _ in range(3)]
    assert used == pytest.approx([noam(t, 16, 5) for t in range(1, 8)], rel=1e-15)


def test_a_schedule_for_an_optimizer_that_ran_without_one():
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = adam([parameter], lr=2.0)
    parameter.grad = torch.ones(3)
    optimizer.step()
    schedule(optimizer, 16, 5)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(2 * noam(2, 16, 5), rel=1e-15)


@pytest.mark.parametrize("betas", [(0.9,), (0.9, 0.98, 0.99), (0.9, 1.0), (-0.1, 0.9), (-1, 0.5), ("a", 0.9), (0.9, None), ()])
def test_betas_that_are_none(betas):
    with pytest.raises(ValueError, match="betas was"):
        adam([torch.nn.Parameter(torch.zeros(3))], betas=betas)


@pytest.mark.parametrize(("name", "value"), [("lr", -1e-3), ("lr", -1.0), ("eps", -1e-9), ("eps", -1.0)])
def test_rates_below_0(name, value):
    with pytest.raises(ValueError, match=f"{name} was {value}; it must be a finite number of at least 0"):
        adam([torch.nn.Parameter(torch.zeros(3))], **{name: value})
    adam([torch.nn.Parameter(torch.zeros(3))], betas=(0.0, 0.0), **{name: 0.0})


def test_only_what_can_be_trained_is_taken():
    good = torch.nn.Parameter(torch.zeros(3))
    for parameters, was in (
        ([good, 2 * good], "torch.float32 at 1"),
        ([torch.zeros(3, dtype=torch.int64)], "torch.int64 at 0"),
        ([good, "w"], "str at 1"),
        ([], "NoneType at 0"),
    ):
        with pytest.raises(ValueError, match=f"parameters held {was}; it must hold parameters"):
            adam(parameters)
    groups = adam([{"params": [good], "lr": 0.5}, {"params": [torch.zeros(2, requires_grad=True)]}]).param_groups
    assert [group["lr"] for group in groups] == [0.5, 1.0]
    assert len(adam(torch.nn.Linear(2, 3).parameters()).param_groups[0]["params"]) == 2
