import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.norm import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward

seeds = st.integers(0, 2**32 - 1)
leading = st.lists(st.integers(1, 4), min_size=0, max_size=3)


def _inputs(leading, d, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(0.5, 1.0, (*leading, d)), "gamma": rng.normal(1.2, 0.6, d)}


def _backward(dy, cache):
    dx, grads = rms_norm_backward(dy, cache)
    return {"x": dx, **grads}


@given(leading=leading, d=st.integers(2, 7), eps=st.sampled_from((0.0, 1e-5, 0.3)), seed=seeds)
def test_against_pytorch_and_central_differences(prove, leading, d, eps, seed):
    from torch.nn.functional import rms_norm as pytorch

    prove(
        lambda x, gamma: rms_norm(x, gamma, eps), _backward, lambda x, gamma: pytorch(x, (d,), gamma, eps), _inputs(leading, d, seed), seed
    )  # fmt: skip


def test_the_formula_entry_by_entry_and_a_mean_square_of_one():
    x, gamma = _inputs((2, 3), 5, 0).values()
    y, cache = rms_norm(x, gamma, 1e-5)
    for place in np.ndindex(2, 3):
        square = sum(value * value for value in x[place]) / 5
        np.testing.assert_allclose(y[place], gamma * x[place] / np.sqrt(square + 1e-5), rtol=1e-14)
    np.testing.assert_allclose(np.square(rms_norm(x, gamma, 0.0)[1].normalised).mean(-1), 1, rtol=1e-14)
    assert cache.inverse_rms.shape == (2, 3, 1)


def test_on_centred_rows_it_is_layer_norm():
    x, gamma = _inputs((4,), 6, 1).values()
    x -= x.mean(-1, keepdims=True)
    assert agreement(rms_norm(x, gamma)[0], layer_norm(x, gamma, np.zeros(6))[0]) < 1e-12


def test_the_scale_of_a_row_makes_no_difference_and_a_shift_does():
    x, gamma = _inputs((4,), 6, 2).values()
    y = rms_norm(x, gamma, 0.0)[0]
    assert agreement(rms_norm(37.0 * x, gamma, 0.0)[0], y) < 1e-12
    assert agreement(rms_norm(x + 1.0, gamma, 0.0)[0], y) > 0.1


def test_only_the_part_along_the_row_is_taken_out_of_the_gradient():
    """Layer norm also takes out the part along the ones."""
    x, gamma = _inputs((4,), 6, 3).values()
    dy = np.random.default_rng(4).normal(size=(4, 6))
    rms = rms_norm_backward(dy, rms_norm(x, gamma, 0.0)[1])[0]
    layer = layer_norm_backward(dy, layer_norm(x, gamma, gamma, 0.0)[1])[0]
    np.testing.assert_allclose((rms * x).sum(-1), 0, atol=1e-13)
    assert abs(rms.sum(-1)).min() > 1e-3 and abs(layer.sum(-1)).max() < 1e-13


def test_a_row_of_zeros():
    x = np.array([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="x has a row of zeros and eps was 0"):
        rms_norm(x, np.ones(2), 0.0)
    assert rms_norm(x, np.ones(2), 1e-5)[0][1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("gamma", "eps", "words"),
    [
        (np.ones(3), 1e-5, r"gamma had shape \(3,\)"),
        (np.ones(2), -1e-5, "eps was -1e-05"),
        (np.ones(2), np.nan, "eps was nan"),
    ],
)
def test_what_cannot_be_meant(gamma, eps, words):
    with pytest.raises(ValueError, match=words):
        rms_norm(np.ones((4, 2)), gamma, eps)


@pytest.mark.parametrize(("x", "words"), [([np.nan, 1], "x held nan"), ([1e200, 1], "x held ±1e.200, whose square overflows")])
def test_what_is_not_finite_or_too_large(x, words):
    with pytest.raises(ValueError, match=words):
        rms_norm(np.array(x), np.ones(2))
