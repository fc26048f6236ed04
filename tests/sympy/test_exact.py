import numpy as np
import pytest
import sympy as sp

from byhand.sympy.exact import matrix, number, parameters, setting, tidy


def test_a_float_is_the_fraction_it_stores():
    assert number(0.5) == sp.Rational(1, 2)
    assert number(np.float64(0.1)) == sp.Rational(0.1) != sp.Rational(1, 10)
    assert number(np.int64(3)) == 3
    assert number(sp.Float(0.25) + sp.sqrt(2)) == sp.Rational(1, 4) + sp.sqrt(2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_an_error(value):
    with pytest.raises(ValueError, match="must be finite"):
        number(value)


def test_a_setting_is_taken_as_it_is_written():
    assert setting(1e-5) == sp.Rational(1, 100000)
    assert setting(0.1) == sp.Rational(1, 10)
    assert setting(0) == 0
    assert setting(sp.Rational(1, 3)) == sp.Rational(1, 3)


def test_vectors_are_rows_however_they_come():
    row = sp.Matrix([[1, 2, 3]])
    for value in (np.arange(1.0, 4.0), [1, 2, 3], sp.Matrix([1, 2, 3]), row):
        assert parameters({"encoder.0.norm_1.gamma": value})["encoder.0.norm_1.gamma"] == row
    assert parameters({"output.w": sp.Matrix([1, 2, 3])})["output.w"].shape == (3, 1)
    assert matrix(np.array([[0.5, 1.0]])) == sp.Matrix([[sp.Rational(1, 2), 1]])


def test_tidy_keeps_the_value_and_gathers_logarithms():
    e = sp.E
    assert tidy(sp.log(1 + 2 * e + e**2)) == 2 * sp.log(1 + e)
    short = 1 / (1 + sp.exp(-2 * sp.sqrt(2)))
    assert tidy(short) == short  # simplify alone would make it longer
