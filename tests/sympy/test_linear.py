import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


@pytest.mark.parametrize("sizes", [(2, 3, 2), (1, 2, 4), (3, 2, 2)])
def test_linear(sizes, rng, assert_proved, assert_agrees):
    rows, d_in, d_out = sizes
    derived = bs.linear.linear_derivation(*sizes)
    assert_proved(derived)
    x, w, b, dy = rng.normal(size=(rows, d_in)), rng.normal(size=(d_in, d_out)), rng.normal(size=d_out), rng.normal(size=(rows, d_out))
    dx, grads = bn.linear.linear_backward(dy, bn.linear.linear(x, w, b)[1])
    for name, expected in {"dx": dx, "dw": grads["w"], "db": grads["b"]}.items():
        assert_agrees(derived[name].numeric(x=x, w=w, b=b, dy=dy), expected)


@pytest.mark.parametrize("sizes", [(1, 3), (2, 2)])
def test_add(sizes, assert_proved):
    assert_proved(bs.linear.add_derivation(*sizes))


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x had shape \(1, 2\)"):
        bs.linear.linear(sp.ones(1, 2), sp.ones(3, 1))
    with pytest.raises(ValueError, match=r"b had shape \(2, 1\)"):
        bs.linear.linear(sp.ones(1, 3), sp.ones(3, 2), sp.ones(2, 1))
