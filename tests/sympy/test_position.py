import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


def test_sinusoids_are_exact(assert_agrees):
    waves = bs.position.sinusoidal(3, 4)
    assert list(waves[0, :]) == [0, 1, 0, 1]
    assert waves[2, 2] == sp.sin(sp.Rational(1, 50)) and waves[1, 1] == sp.cos(1)
    assert_agrees(np.array(bs.position.sinusoidal(5, 6).evalf(20).tolist(), dtype=float), bn.position.sinusoidal(5, 6))


@pytest.mark.parametrize(("length", "d_model", "name"), [(0, 4, "length"), (2, 3, "d_model")])
def test_bad_sizes(length, d_model, name):
    with pytest.raises(ValueError, match=f"{name} was"):
        bs.position.sinusoidal(length, d_model)
