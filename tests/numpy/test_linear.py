import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.numpy.linear import linear, linear_backward

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


@given(leading=st.lists(sizes, max_size=3), d_in=sizes, d_out=sizes, seed=seeds)
def test_against_pytorch_and_central_differences(prove, leading, d_in, d_out, seed):
    rng = np.random.default_rng(seed)
    inputs = {"x": rng.normal(size=(*leading, d_in)), "w": rng.normal(size=(d_in, d_out)), "b": rng.normal(size=d_out)}

    def backward(dy, cache):
        dx, grads = linear_backward(dy, cache)
        return {"x": dx} | grads

    prove(linear, backward, lambda x, w, b: x @ w + b, inputs, seed)


def test_without_a_bias_there_is_no_bias_gradient():
    x, w = np.ones((2, 3)), np.ones((3, 4))
    y, cache = linear(x, w)
    dx, grads = linear_backward(np.ones_like(y), cache)
    assert y.shape == (2, 4) and dx.shape == x.shape and grads.keys() == {"w"}


def test_a_bias_serves_every_row_and_its_gradients_add():
    y, cache = linear(np.zeros((2, 3, 4)), np.zeros((4, 5)), np.zeros(5))
    _, grads = linear_backward(np.ones_like(y), cache)
    assert (grads["b"] == 6).all()


@pytest.mark.parametrize(
    ("x", "w", "b", "words"),
    [
        ((2, 3), (4, 5), (5,), r"x had shape \(2, 3\).* 4"),
        ((2, 4), (4, 5), (4,), r"b had shape \(4,\); it must be \(5,\)"),
    ],
)
def test_shapes_that_do_not_fit(x, w, b, words):
    with pytest.raises(ValueError, match=words):
        linear(np.zeros(x), np.zeros(w), np.zeros(b))


@pytest.mark.parametrize("name", ["x", "w", "b"])
def test_what_is_not_finite_is_named(name):
    values = {"x": np.ones((2, 3)), "w": np.ones((3, 4)), "b": np.ones(4)}
    values[name].flat[2] = np.nan
    with pytest.raises(ValueError, match=f"{name} held nan at"):
        linear(**values)


def test_a_vector_for_a_matrix():
    with pytest.raises(ValueError, match=r"w had shape \(3,\); it must be \(d_in, d_out\)"):
        linear(np.ones((2, 3)), np.ones(3))
