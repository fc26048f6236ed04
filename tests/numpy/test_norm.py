import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement, gradient_check
from byhand.numpy.norm import layer_norm, layer_norm_backward
from byhand.record import Record

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


def _backward(dy, cache):
    dx, grads = layer_norm_backward(dy, cache)
    return {"x": dx} | grads


@given(leading=st.lists(sizes, max_size=3), d=st.integers(2, 6), eps=st.sampled_from((0.0, 1e-5, 0.1, 2.0)), seed=seeds)
def test_against_pytorch_and_central_differences(prove, leading, d, eps, seed):
    from torch.nn.functional import layer_norm as by_pytorch

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*leading, d)) + 4 * np.arange(d)  # no row so nearly constant that rounding is blown up
    inputs = {"x": x, "gamma": rng.normal(1.2, 0.6, d), "beta": rng.normal(size=d)}
    prove(lambda **a: layer_norm(**a, eps=eps), _backward, lambda x, gamma, beta: by_pytorch(x, (d,), gamma, beta, eps), inputs, seed)


def test_rows_before_gain_and_bias_have_mean_0_and_variance_just_under_1():
    rng = np.random.default_rng(1)
    x, gamma, beta, eps = rng.normal(3, 2, (4, 5, 6)), rng.normal(size=6), rng.normal(size=6), 0.3
    record = Record()
    y, _ = layer_norm(x, gamma, beta, eps, record)
    rows, variance = (y - beta) / gamma, x.var(-1)
    np.testing.assert_allclose(rows.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(rows.var(-1), variance / (variance + eps), atol=1e-12)
    np.testing.assert_allclose(record["var"][..., 0], variance, atol=1e-12)  # divided by d, not d − 1


def test_backward_takes_away_two_components_and_keeps_the_share_of_eps_in_one():
    rng = np.random.default_rng(2)
    x, gamma = rng.normal(size=(7, 6)), rng.normal(1, 0.5, 6)
    dy = rng.normal(size=x.shape)
    for eps in (0.0, 0.1):
        _, cache = layer_norm(x, gamma, np.zeros(6), eps)
        dx, _ = layer_norm_backward(dy, cache)
        np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-12)
        centred = x - x.mean(-1, keepdims=True)
        arrived = (gamma * dy * centred).sum(-1) / np.sqrt(x.var(-1) + eps)
        np.testing.assert_allclose((dx * centred).sum(-1), eps / (x.var(-1) + eps) * arrived, atol=1e-12)


def test_gamma_stands_inside_both_means():
    """Pulled in front it is right where all its entries are equal, and wrong by more than half at a random γ."""
    rng = np.random.default_rng(3)
    x, dy = rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    for gamma, equal in ((np.full(6, 0.7), True), (rng.normal(1, 0.5, 6), False)):
        _, cache = layer_norm(x, gamma, np.zeros(6))
        dx, _ = layer_norm_backward(dy, cache)
        n = cache.normalised
        outside = gamma * cache.inverse_std * (dy - dy.mean(-1, keepdims=True) - n * (dy * n).mean(-1, keepdims=True))
        assert (agreement(dx, outside) < 1e-12) == equal
    assert agreement(dx, outside) > 0.1


@pytest.mark.parametrize("eps", [1e-12, 1e-5])
def test_a_nearly_constant_row(eps):
    x = np.array([[1.0, 1.0, 1.0 + 1e-3]])
    gamma, dy = np.array([1.0, 2.0, 0.5]), np.array([[0.3, -0.2, 1.0]])
    _, cache = layer_norm(x, gamma, np.zeros(3), eps)
    dx, _ = layer_norm_backward(dy, cache)
    gradient_check(lambda x: (layer_norm(x, gamma, np.zeros(3), eps)[0] * dy).sum(), x, dx, h=1e-7, bound=1e-4).require()


def test_a_constant_row_needs_eps():
    constant = np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    with pytest.raises(ValueError, match="x has a constant row and eps was 0"):
        layer_norm(constant, np.ones(3), np.zeros(3), eps=0)
    y, _ = layer_norm(constant, np.ones(3), np.zeros(3), eps=1e-5)
    assert y[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("eps", [-1e-5, np.nan, np.inf])
def test_an_eps_that_cannot_be(eps):
    with pytest.raises(ValueError, match="eps was .*; it must be a finite number"):
        layer_norm(np.eye(3), np.ones(3), np.zeros(3), eps)


@pytest.mark.parametrize(("gamma", "beta", "words"), [((2,), (3,), r"gamma had shape \(2,\)"), ((3,), (1, 3), r"beta had shape \(1, 3\)")])
def test_shapes_that_do_not_fit(gamma, beta, words):
    with pytest.raises(ValueError, match=words):
        layer_norm(np.eye(3), np.ones(gamma), np.zeros(beta))


@pytest.mark.parametrize("value", [0.1, 0.7, -3.3, 1e-200])
@pytest.mark.parametrize("d", [2, 3, 7])
def test_a_constant_row_under_eps_0_whose_mean_rounds(value, d):
    with pytest.raises(ValueError, match="x has a constant row and eps was 0"):
        layer_norm(np.full((2, d), value), np.ones(d), np.zeros(d), eps=0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["x", "gamma", "beta"])
def test_what_is_not_finite_is_named(name, bad):
    values = {"x": np.array([1.0, 2.0]), "gamma": np.ones(2), "beta": np.ones(2)}
    values[name][1] = bad
    with pytest.raises(ValueError, match=rf"{name} held {bad} at \(1,\); every entry must be a finite number"):
        layer_norm(**values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_whose_square_overflows_is_no_row_of_zeros(dtype):
    large = np.sqrt(np.finfo(dtype).max) * np.array([2, -2], dtype)
    with pytest.raises(ValueError, match="x held ±.*, whose square overflows float"):
        layer_norm(large, np.ones(2, dtype), np.zeros(2, dtype))
    assert np.isfinite(layer_norm(large / 8, np.ones(2, dtype), np.zeros(2, dtype))[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_how_large_a_row_may_be(dtype):
    """As long as the sum of its squares, centred at worst to twice their size, is a number."""
    largest = float(np.sqrt(np.finfo(dtype).max / 6) / 2)
    row = np.array([1, -1, 1, -1, 1, -1], dtype)
    y, _ = layer_norm((row * 0.99 * largest)[None].astype(dtype), np.ones(6, dtype), np.zeros(6, dtype))
    np.testing.assert_allclose(y[0], row, rtol=1e-6)
    with pytest.raises(ValueError, match="whose square overflows"):
        layer_norm((row * 1.01 * largest)[None].astype(dtype), np.ones(6, dtype), np.zeros(6, dtype))
