import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy import feed_forward as ff

seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
@given(shape=shapes, scale=st.sampled_from((0.3, 1.0, 4.0)), seed=seeds)
def test_against_pytorch_and_central_differences(prove, name, shape, scale, seed):
    from torch.nn import functional as F

    pytorch = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}[name]
    by_pytorch = lambda x: pytorch(x)  # noqa: E731 (F.silu calls its argument something else)
    forward, backward = getattr(ff, name), getattr(ff, f"{name}_backward")
    x = scale * np.random.default_rng(seed).normal(size=shape)
    prove(forward, lambda dy, cache: {"x": backward(dy, cache)[0]}, by_pytorch, {"x": x}, seed)


@given(shape=shapes, seed=seeds)
def test_swiglu(prove, shape, seed):
    from torch.nn.functional import silu

    hidden, gate = np.random.default_rng(seed).normal(size=(2, *shape))

    def backward(dy, cache):
        (dhidden, dgate), grads = ff.swiglu_backward(dy, cache)
        assert grads == {}
        return {"hidden": dhidden, "gate": dgate}

    prove(ff.swiglu, backward, lambda hidden, gate: silu(hidden) * gate, {"hidden": hidden, "gate": gate}, seed)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
@given(leading=st.lists(st.integers(1, 3), min_size=1, max_size=2), d=st.integers(1, 4), d_ff=st.integers(1, 5), seed=seeds)
def test_the_network(prove, activation, leading, d, d_ff, seed):
    from torch.nn import functional as F

    rng = np.random.default_rng(seed)
    shapes = {"x": (*leading, d), "w_1": (d, d_ff), "b_1": (d_ff,), "w_2": (d_ff, d), "b_2": (d,)}
    if activation == "swiglu":
        shapes["w_3"] = (d, d_ff)
    inputs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    if activation == "relu":  # away from the kink
        hidden = inputs["x"] @ inputs["w_1"] + inputs["b_1"]
        if np.abs(hidden).min() < 1e-3:
            return
    bend = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "swiglu": F.silu}[activation]

    def by_pytorch(x, w_1, b_1, w_2, b_2, w_3=None):
        active = bend(x @ w_1 + b_1)
        return (active if w_3 is None else active * (x @ w_3)) @ w_2 + b_2

    def backward(dy, cache):
        dx, grads, _ = ff.feed_forward_backward(dy, cache)
        return {"x": dx, **grads}

    prove(lambda **inputs: ff.feed_forward(**inputs, activation=activation), backward, by_pytorch, inputs, seed)


def test_with_swiglu_x_is_read_twice_and_the_two_ways_back_add_up():
    rng = np.random.default_rng(0)
    _, cache = ff.feed_forward(
        rng.normal(size=(2, 3)), rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=(5, 3)), rng.normal(size=3), "swiglu", rng.normal(size=(3, 5))
    )  # fmt: skip
    dx, _, ways = ff.feed_forward_backward(rng.normal(size=(2, 3)), cache)
    assert agreement(ways["hidden"] + ways["gate"], dx) < 1e-15
    assert abs(ways["hidden"]).max() > 0.1 and abs(ways["gate"]).max() > 0.1


def test_gelu_is_x_times_the_normal_distributions_share_below_x():
    x = np.concatenate((np.linspace(-9, 9, 721), [0.0, -0.0, 1e-300]))
    share = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in x])
    np.testing.assert_allclose(ff.gelu(x)[0], x * share, atol=1e-15)
    assert ff.gelu.rule(np.array([[np.inf]]))[0].item() == np.inf


def test_the_tanh_form_is_within_5e4_of_gelu_and_not_equal():
    x = np.linspace(-6, 6, 2401)
    gap = abs(ff.gelu(x)[0] - ff.gelu_tanh(x)[0])
    assert 4e-4 < gap.max() < 5e-4


def test_large_arguments_neither_overflow_nor_leave_a_nan():
    x = np.array([-1e4, -50.0, 50.0, 1e4])
    with np.errstate(all="raise", under="ignore"):
        for name in ("gelu", "gelu_tanh", "silu"):
            y, cache = getattr(ff, name)(x)
            dx, _ = getattr(ff, f"{name}_backward")(np.ones(4), cache)
            np.testing.assert_allclose(y, [0, 0, 50, 1e4], atol=1e-18)
            np.testing.assert_allclose(dx, [0, 0, 1, 1], atol=1e-18)


@pytest.mark.parametrize(
    ("activation", "gated", "words"),
    [
        ("elu", False, "activation was 'elu'; it must be one of 'relu', 'gelu', 'gelu_tanh', 'swiglu'"),
        ("swiglu", False, "w_3 was missing and activation was 'swiglu'"),
        ("relu", True, "w_3 was given and activation was 'relu'"),
    ],
)
def test_what_cannot_be_meant(activation, gated, words):
    ones = np.ones((2, 2))
    with pytest.raises(ValueError, match=words):
        ff.feed_forward(ones, ones, ones[0], ones, ones[0], activation, ones if gated else None)
