import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


def test_the_first_step_is_a_sign():
    g, lr = sp.Symbol("g", real=True, nonzero=True), sp.Symbol("eta", positive=True)
    assert sp.simplify(bs.optimizer.first_step_limit() + lr * sp.sign(g)) == 0


def test_exact_adam_is_numpys_adam(rng, assert_agrees):
    theta, gradients = rng.integers(-4, 5, (2, 3)) / 4, rng.integers(-9, 10, (2, 2, 3)) / 8
    params, exact, state, exact_state = {"w": theta}, {"w": sp.Matrix(theta.tolist()).applyfunc(sp.Rational)}, None, None
    for t, g in enumerate(gradients, start=1):
        lr = bs.optimizer.noam(t, 4, 10)
        params, state = bn.optimizer.adam(params, {"w": g}, state, bn.optimizer.noam(t, 4, 10))
        exact, exact_state = bs.optimizer.adam(exact, {"w": sp.Matrix(g.tolist()).applyfunc(sp.Rational)}, exact_state, lr)
    assert exact_state.t == 2
    assert_agrees(np.array(exact["w"].evalf(20).tolist(), dtype=float), params["w"])


def test_the_schedule():
    assert bs.optimizer.noam(1, 512) == sp.sqrt(5) / 12800000
    assert bs.optimizer.noam(4000, 512) == sp.sqrt(5) / 3200
    with pytest.raises(ValueError, match="step was 0"):
        bs.optimizer.noam(0, 4)
