import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.softmax import softmax, softmax_backward

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


def _backward(dy, cache):
    dx, grads = softmax_backward(dy, cache)
    assert grads == {}
    return {"x": dx}


@given(shape=st.lists(sizes, min_size=1, max_size=4), scale=st.sampled_from((0.1, 1.0, 5.0)), seed=seeds)
def test_against_pytorch_and_central_differences(prove, shape, scale, seed):
    x = scale * np.random.default_rng(seed).normal(size=shape)
    prove(softmax, _backward, lambda x: x.softmax(-1), {"x": x}, seed)


@given(batch=sizes, rows=sizes, n=sizes, seed=seeds)
def test_with_a_mask_broadcast_over_the_batch(prove, batch, rows, n, seed):
    import torch

    rng = np.random.default_rng(seed)
    mask = rng.random((rows, n)) < 0.6
    mask[:, 0] = True  # PyTorch gives NaN for a row with nothing left; ours has a test of its own
    x = rng.normal(size=(batch, rows, n))
    prove(lambda x: softmax(x, mask), _backward, lambda x: x.masked_fill(~torch.tensor(mask), -torch.inf).softmax(-1), {"x": x}, seed)


def test_rows_sum_to_one_and_what_is_masked_is_exactly_0_forward_and_backward():
    rng = np.random.default_rng(1)
    x, mask = rng.normal(size=(3, 4, 6)), rng.random((3, 4, 6)) < 0.5
    mask[..., 2] = True
    y, cache = softmax(x, mask)
    dx, _ = softmax_backward(rng.normal(size=x.shape), cache)
    np.testing.assert_allclose(y.sum(-1), 1, atol=1e-15)
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-15)
    assert not y[~mask].any() and not dx[~mask].any()


def test_a_row_with_nothing_left_is_0_forward_and_backward():
    x = np.array([[1.0, 2.0], [3.0, -np.inf]])
    y, cache = softmax(x, np.array([[False, False], [False, True]]))
    dx, _ = softmax_backward(np.ones_like(x), cache)
    assert not y.any() and not dx.any()


def test_a_shift_changes_nothing_and_large_entries_do_not_overflow():
    x = np.array([[1000.0, 1001.0, 999.5], [-1000.0, -1001.0, -1000.5]])
    assert agreement(softmax(x)[0], softmax(x - x.mean(-1, keepdims=True))[0]) < 1e-12
    assert softmax(np.array([1e300, -1e300]))[0].tolist() == [1, 0]
    # a masked entry may be as large as it likes
    assert softmax(np.array([1e300, 0.0, 0.0]), np.array([False, True, True]))[0].tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused_only_where_it_takes_part(bad):
    x = np.array([[0.0, bad, 1.0], [1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=rf"x held {bad} at \(0, 1\); every entry must be a finite number"):
        softmax(x)
    y, _ = softmax(x, np.array([True, False, True]))
    assert y[0, 1] == 0 and y[0].sum() == pytest.approx(1)


@pytest.mark.parametrize("mask", [np.array([0, 1]), np.array([0.0, 1.0]), np.ones((3, 2), bool), np.ones(3, bool), [True, False]])
def test_a_mask_that_is_not_boolean_or_would_enlarge_x(mask):
    with pytest.raises(ValueError, match="mask had .*; it must be a NumPy array of booleans that broadcasts to x, "):
        softmax(np.ones((1, 2)), mask)


@pytest.mark.parametrize(("x", "words"), [([1.0, 2.0], "x was list"), (np.array(1.0), r"x had shape \(\)"), (np.ones((2, 0)), r"x had shape \(2, 0\)")])
def test_what_is_no_row(x, words):
    with pytest.raises(ValueError, match=words):
        softmax(x)


@pytest.mark.parametrize("x", [np.zeros(100_000, np.float16), np.zeros(3, int), np.zeros(3, np.longdouble), [0.0, 1.0]])
def test_other_kinds_are_refused(x):
    with pytest.raises(ValueError, match="x (had dtype .*; it must be float32 or float64|was list)"):
        softmax(x)
