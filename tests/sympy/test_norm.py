from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


@pytest.mark.parametrize(("d", "rows"), [(2, 1), (3, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm(d, rows, eps, rng, assert_proved, assert_agrees):
    derived = bs.norm.layer_norm_derivation(d, rows)
    assert_proved(derived)
    x, gamma, beta, dy = rng.normal(size=(rows, d)), rng.normal(size=d), rng.normal(size=d), rng.normal(size=(rows, d))
    dx, grads = bn.norm.layer_norm_backward(dy, bn.norm.layer_norm(x, gamma, beta, eps)[1])
    given = {"x": x, "gamma": gamma, "beta": beta, "eps": eps, "dy": dy}
    assert_agrees(derived["dgamma"].numeric(**given), grads["gamma"])
    assert_agrees(derived["dbeta"].numeric(**given), grads["beta"])
    # Two entries under a small ε are near ±1 whatever x is: what is left of dx is a difference of nearly equal numbers.
    assert_agrees(derived["dx"].numeric(**given), dx, bound=1e-12 if d > 2 else 1e-9)


def test_gamma_in_front_of_the_sums_is_wrong_unless_it_is_one_number():
    d = bs.norm.layer_norm_derivation(3)["dx"]
    gamma, dy, (sigma, *hat) = d.inputs["gamma"], d.inputs["dy"], list(d.where)[:4]
    inner = [dy[i] - sum(dy) / 3 - hat[i] * sum(a * b for a, b in zip(dy, hat)) / 3 for i in range(3)]
    pulled_out = sp.Matrix([[gamma[i] * inner[i] / sigma for i in range(3)]])
    assert not replace(d, textbook=pulled_out).difference_is_zero
    uniform = {gamma[1]: gamma[0], gamma[2]: gamma[0]}
    assert replace(d, derivative=d.derivative.subs(uniform), textbook=pulled_out.subs(uniform)).difference_is_zero


@pytest.mark.parametrize("d", [2, 4])
def test_the_three_ways_add_up(d, rng, assert_proved, assert_agrees):
    small = bs.norm.normalise_derivation(d), bs.norm.mean_derivation(d), bs.norm.variance_derivation(d)
    for derived in small:
        assert_proved(derived)
    x, dy, eps = rng.normal(size=(1, d)), rng.normal(size=(1, d)), 0.1
    given = {"x": x, "mu": x.mean(), "var": x.var(), "eps": eps, "dy": dy}
    normalise, mean, variance = small
    dx = normalise["dx"].numeric(**given)
    dx = dx + mean["dx"].numeric(x=x, dy=normalise["dmu"].numeric(**given))
    dx = dx + variance["dx"].numeric(x=x, dy=normalise["dvar"].numeric(**given))
    ones, zeros = np.ones(d), np.zeros(d)
    assert_agrees(dx, bn.norm.layer_norm_backward(dy, bn.norm.layer_norm(x, ones, zeros, eps)[1])[0])


def test_a_constant_row_needs_eps():
    one, zero = sp.ones(1, 2), sp.zeros(1, 2)
    with pytest.raises(ValueError, match="constant row"):
        bs.norm.layer_norm(sp.Matrix([[1, 1]]), one, zero, 0)
    with pytest.raises(ValueError, match="eps was -1"):
        bs.norm.layer_norm(sp.Matrix([[1, 2]]), one, zero, -1)
    assert bs.norm.layer_norm(sp.Matrix([[1, 1]]), one, zero, sp.Rational(1, 10)).is_zero_matrix


@pytest.mark.parametrize(("d", "rows"), [(2, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_rms_norm(d, rows, eps, rng, assert_proved, assert_agrees):
    derived = bs.norm.rms_norm_derivation(d, rows)
    assert_proved(derived)
    x, gamma, dy = rng.normal(size=(rows, d)), rng.normal(size=d), rng.normal(size=(rows, d))
    y, cache = bn.norm.rms_norm(x, gamma, eps)
    dx, grads = bn.norm.rms_norm_backward(dy, cache)
    given = {"x": x, "gamma": gamma, "eps": eps, "dy": dy}
    assert_agrees(derived["dx"].numeric(**given), dx)
    assert_agrees(derived["dgamma"].numeric(**given), grads["gamma"])
    exact = bs.norm.rms_norm(sp.Matrix(x), sp.Matrix([gamma]), sp.Float(eps))
    assert_agrees(np.array(exact.tolist(), dtype=float), y)


def test_the_rule_of_layer_norm_is_not_that_of_rms_norm():
    d = bs.norm.rms_norm_derivation(3)["dx"]
    gamma, dy, (root, *hat) = d.inputs["gamma"], d.inputs["dy"], d.where
    dhat = [g * upstream for g, upstream in zip(gamma, dy)]
    centred = [dhat[i] - sum(dhat) / 3 - hat[i] * sum(a * b for a, b in zip(dhat, hat)) / 3 for i in range(3)]
    assert not replace(d, textbook=sp.Matrix([[entry / root for entry in centred]])).difference_is_zero


def test_a_row_of_zeros_needs_eps():
    with pytest.raises(ValueError, match="row of zeros"):
        bs.norm.rms_norm(sp.zeros(1, 2), sp.ones(1, 2), 0)
    with pytest.raises(ValueError, match="eps was -1"):
        bs.norm.rms_norm(sp.ones(1, 2), sp.ones(1, 2), -1)
    assert list(bs.norm.rms_norm(sp.Matrix([[3, 3]]), sp.ones(1, 2), 0)) == [1, 1]  # a constant row is no trouble here
