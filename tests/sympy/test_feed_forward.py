from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


@pytest.mark.parametrize("n", [1, 3])
def test_relu(n, rng, assert_proved, assert_agrees):
    derived = bs.feed_forward.relu_derivation(n)
    assert_proved(derived)
    x, dy = rng.normal(size=n), rng.normal(size=n)
    assert_agrees(derived["dx"].numeric(x=x, dy=dy), bn.feed_forward.relu_backward(dy, bn.feed_forward.relu(x)[1])[0])


def test_relu_at_zero():
    """No derivative there: the two sides differ. Ours is NumPy's and PyTorch's 0; SymPy's step function would give 1/2."""
    slopes = bs.feed_forward.relu_at_zero()
    assert (slopes["left"], slopes["right"]) == (0, 1)
    assert slopes["ours"] == 0 and slopes["heaviside"] * 2 == 1
    assert bs.feed_forward.relu_derivation(1)["dx"].numeric(x=[0.0], dy=[1.0]) == 0


@pytest.mark.parametrize("sizes", [(1, 2, 3), (2, 2, 3), (2, 1, 2)])
def test_feed_forward(sizes, rng, assert_proved, assert_agrees):
    rows, d_model, d_ff = sizes
    derived = bs.feed_forward.feed_forward_derivation(*sizes)
    assert_proved(derived)
    shapes = {"x": (rows, d_model), "w_1": (d_model, d_ff), "b_1": (d_ff,), "w_2": (d_ff, d_model), "b_2": (d_model,)}
    given = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    dy = rng.normal(size=(rows, d_model))
    dx, grads, _ = bn.feed_forward.feed_forward_backward(dy, bn.feed_forward.feed_forward(**given)[1])
    for name, expected in ({"x": dx} | grads).items():
        assert_agrees(derived[f"d{name}"].numeric(**given, dy=dy), expected)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_smooth_activations(name, rng, assert_proved, assert_agrees):
    derived = getattr(bs.feed_forward, f"{name}_derivation")(4)
    assert_proved(derived)
    x, dy = np.append(rng.normal(size=3), -6.0), rng.normal(size=4)  # far to the left the slope is almost 0
    y, cache = getattr(bn.feed_forward, name)(x)
    assert_agrees(derived["dx"].numeric(x=x, dy=dy), getattr(bn.feed_forward, f"{name}_backward")(dy, cache)[0])
    exact = getattr(bs.feed_forward, name)(sp.Matrix([x]))
    assert_agrees(np.array(exact.evalf(20).tolist(), dtype=float)[0], y)


def test_swiglu(rng, assert_proved, assert_agrees):
    derived = bs.feed_forward.swiglu_derivation(3)
    assert_proved(derived)
    hidden, gate, dy = rng.normal(size=(3, 3))
    y, cache = bn.feed_forward.swiglu(hidden, gate)
    (dhidden, dgate), _ = bn.feed_forward.swiglu_backward(dy, cache)
    assert_agrees(derived["dhidden"].numeric(hidden=hidden, gate=gate, dy=dy), dhidden)
    assert_agrees(derived["dgate"].numeric(hidden=hidden, gate=gate, dy=dy), dgate)


def test_the_tanh_form_has_another_gradient_than_gelu():
    exact, form = bs.feed_forward.gelu_derivation(1)["dx"], bs.feed_forward.gelu_tanh_derivation(1)["dx"]
    assert not replace(form, textbook=exact.textbook, where={}).difference_is_zero
