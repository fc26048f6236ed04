import math
import re

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from byhand.worked import formatting as f


@pytest.mark.parametrize(
    "value, digits, text",
    [
        (0.9441927, 3, "0.944"),
        (-0.0, 3, "0"),
        (-1e-17, 3, "0"),
        (1e-17, 6, "0"),
        (2.0, 3, "2"),
        (1.9999999999999998, 3, "2"),
        (0.5, 3, "0.5"),
        (0.49999, 3, "0.500"),
        (0.9996, 3, "1.000"),
        (-0.853, 2, "-0.85"),
        (1.7469281e-7, 3, "1.75e-7"),
        (-1.7469281e-7, 3, "-1.75e-7"),
        (9.996e-7, 3, "1e-6"),
        (12345678.9, 3, "1.23e7"),
        (1234567.5, 3, "1234567.5"),
        (0.0625, 3, "0.063"),  # a tie, and the same number a bit below the tie
        (0.06249999999999999, 3, "0.063"),
        (0.6, 0, "1"),
        (3, 3, "3"),
        (10**30, 3, "1" + "0" * 30),
        (np.int64(-4), 3, "-4"),
        (np.float32(0.1), 3, "0.1"),
        (np.float32(0.1), 10, "0.1000000015"),
        (np.float16(0.3), 3, "0.3"),
        (np.array(0.25), 3, "0.25"),
        (True, 3, "T"),
        (math.inf, 3, "∞"),
        (-math.inf, 3, "-∞"),
        (math.nan, 3, "nan"),
        (sympy.tanh(sympy.sqrt(2)), 3, "tanh(sqrt(2))"),
        (sympy.Rational(1, 3), 3, "1/3"),
    ],
)
def test_text(value, digits, text):
    assert f.text(value, digits) == text


@pytest.mark.parametrize(
    "value, latex",
    [
        (1.7469281e-7, r"1.75 \times 10^{-7}"),
        (1e-9, "10^{-9}"),
        (-math.inf, r"-\infty"),
        (math.nan, r"\text{nan}"),
        (False, r"\text{F}"),
        (0.5, "0.5"),
        (sympy.sqrt(2), r"\sqrt{2}"),
    ],
)
def test_latex(value, latex):
    assert f.latex(value, 3) == latex


def test_what_is_far_below_the_scale_is_a_leftover():
    assert f.text(1e-14, 3, scale=1.0) == "0"
    assert f.text(1e-14, 3, scale=0.0) == "1e-14"
    assert f.TEXT.entries(np.array([1.0, 1e-16, 1e-5])).tolist() == ["1", "0", "1e-5"]


def test_entries_of_an_array_share_their_places():
    assert f.TEXT.entries(np.array([0.25, 1.0, 0.5])).tolist() == ["0.25", "1", "0.50"]
    assert f.TEXT.entries(np.array([1 / 3, 0.5])).tolist() == ["0.333", "0.500"]
    assert f.TEXT.entries(np.array([1.0, -2.0])).tolist() == ["1", "-2"]


def test_float32_leftovers_do_not_show():
    assert f.text(np.float32(1) - np.float32(1e-7)) == "1"
    assert f.text(np.float32(1.0000001)) == "1"
    assert f.TEXT.entries(np.array([1, 6e-8], dtype=np.float32)).tolist() == ["1", "0"]
    assert f.TEXT.entries(np.array([1e-6, 6e-7], dtype=np.float32)).tolist() == ["1e-6", "6e-7"]


@given(st.floats(-1e6, 1e6), st.integers(0, 8))
def test_a_shown_number_is_the_number_rounded(value, digits):
    shown = f.text(value, digits)
    assert not shown.startswith("-0") or float(shown) != 0
    assert shown not in ("-0", "0.", "-") and not re.fullmatch(r"-0\.0+", shown)
    if "e" in shown:
        assert float(shown) == pytest.approx(value, rel=0.51 * 10 ** -max(digits - 1, 0))
    else:
        assert abs(float(shown) - value) <= 0.5 * 10**-digits * (1 + 1e-9) + 1e-11 * abs(value) + 1e-15


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_can_be_written(value):
    assert f.text(value) and f.latex(value)
    assert "e-0" not in f.text(value)


@pytest.mark.parametrize("digits", [-1, 2.5, True, "3", 31])
def test_digits_must_make_sense(digits):
    with pytest.raises(ValueError, match="digits was"):
        f.text(1.0, digits)


@pytest.mark.parametrize("value", [1j, "1", None, np.array([1.0])])
def test_only_one_real_number(value):
    with pytest.raises(ValueError, match="value was"):
        f.text(value)


def test_a_number_and_its_decimal():
    assert f.TEXT.decimal(sympy.tanh(sympy.sqrt(2))) == "tanh(sqrt(2)) ≈ 0.888"
    assert f.LATEX.decimal(sympy.sqrt(2)) == r"\sqrt{2} \approx 1.414"
    assert f.TEXT.decimal(sympy.Rational(1, 2)) == "1/2 = 0.5"
    assert f.TEXT.decimal(sympy.Rational(1, 3)) == "1/3 ≈ 0.333"
    assert f.LATEX.decimal(sympy.Integer(2)) == "2"
    assert f.LATEX.decimal(sympy.Symbol("x")) == "x"
    assert f.TEXT.decimal(0.25) == "0.25"


def test_significant():
    assert f.significant(0.00519071768995239) == "0.005191"
    assert f.significant(1.7469281e-7) == "1.747e-7"
    assert f.significant(123.456, 4) == "123.5"
    assert f.significant(0.0) == "0"


def test_factors_get_brackets_where_they_would_be_misread():
    assert f.TEXT.factor(-0.5) == "(-0.5)"
    assert f.TEXT.factor(0.5) == "0.5"
    assert f.LATEX.factor(sympy.sqrt(2) + 1) == r"\left(1 + \sqrt{2}\right)"


def test_as_array():
    torch = pytest.importorskip("torch")
    assert f.as_array(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert f.as_array(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32
    assert f.as_array(sympy.Matrix([[1, 2]])).shape == (1, 2)
    assert f.as_array(sympy.sqrt(2)).shape == ()
    with pytest.raises(ValueError, match="x was a list with rows of different lengths"):
        f.as_array([[1, 2], [3]], "x")
    for bad in (["a"], [1j], [None]):
        with pytest.raises(ValueError, match="x had entries of type"):
            f.as_array(bad, "x")


@pytest.mark.parametrize(
    "name, latex",
    [
        ("X", "X"),
        ("W_Q", "W_Q"),
        ("W_out", r"W_\text{out}"),
        ("dW_1", "dW_1"),
        ("X^T", r"X^\top"),
        ("QK^T", r"QK^\top"),
        ("gamma", r"\gamma"),
        ("dgamma_2", r"d\gamma_2"),
        (r"\hat{x}", r"\hat{x}"),
        ("encoder.0.norm_1", r"\texttt{encoder.0.norm}\_\texttt{1}"),
        ("scores", r"\text{scores}"),
    ],
)
def test_names(name, latex):
    # braces around one letter change nothing
    assert (
        f.name_latex(name).replace("{Q}", "Q").replace("{1}", "1", 0).replace("_{1}", "_1").replace("_{2}", "_2").replace(r"_{\text{out}}", r"_\text{out}")
        == latex
    )


def test_labels_stand_outside_text_where_mathjax_reads_them_differently():
    assert f.label_latex("<bos>") == r"\text{<bos>}"
    assert f.label_latex("x_y & 50%") == r"\text{x}\_\text{y }\&\text{ 50}\%"
    assert f.label_latex(3) == "3"


def test_prints():
    assert str(f.rounded_like("0.535", 0.534446645388523)) == "0.534"
    assert f.printed_decimal("1.75 × 10^-7") == f.printed_decimal("1.75e-7")
    assert f.printed_decimal("−37,000") == -37000
    assert f.printed_places("1.75e-7") == 9
    assert f.printed_places("37000") == 0
    with pytest.raises(ValueError, match="claimed was 'p - q'"):
        f.printed_decimal("p - q")
    with pytest.raises(ValueError, match="must be finite"):
        f.rounded_like("1", math.nan)


def test_a_name_in_upright_letters_reads_without_its_command():
    assert f.name_text(r"d\mathrm{DEC}_2") == "dDEC_2" and f.name_latex(r"d\mathrm{DEC}_2") == r"d\mathrm{DEC}_2"
