import numpy as np
import pytest
import sympy

from byhand import worked
from byhand.numpy import norm, position

rng = np.random.default_rng(0)


def test_rms_norm_row_writes_every_stage():
    shown = worked.rms_norm_row([1, -1, 3, 1], gamma=[1, 2, 1, 0.5], eps=0)
    lines = shown.text.splitlines()
    assert lines[0] == "mean(x²) = (1² + (-1)² + 3² + 1²) / 4 = 3"
    assert lines[1] == "root     = √(3 + 0) = 1.732"
    assert lines[3].startswith("y        = [1, 2, 1, 0.5] · x̂ = [0.577, -1.155, 1.732, 0.289]")
    assert r"\sqrt{\operatorname{mean}(x^2) + \varepsilon} &= \sqrt{3 + 0} = 1.732" in shown.latex


@pytest.mark.parametrize("n", [2, 5, 40])
def test_rms_norm_rows_are_the_packages(n):
    x, gamma, dy = rng.normal(size=(3, n))
    expected, cache = norm.rms_norm(x[None], gamma, eps=1e-5)
    np.testing.assert_allclose(worked.rms_norm_row(x, gamma).value, expected[0], rtol=1e-12)
    back = worked.rms_norm_backward_row(dy, x, gamma)
    np.testing.assert_allclose(back.value, norm.rms_norm_backward(dy[None], cache)[0][0], atol=1e-12)
    assert back.text.splitlines()[-1].startswith("dx ") and back.latex.count("&=") == 6


def test_exact_rms_norm_row():
    shown = worked.rms_norm_row([sympy.Integer(1), sympy.sqrt(7)], eps=0)
    assert list(shown.value) == [sympy.Rational(1, 2), sympy.sqrt(7) / 2] and "= 4" in shown.latex


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("d", [2, 4, 6])
def test_rope_row_is_the_packages(d, pairing):
    x = rng.normal(size=d)
    shown = worked.rope_row(x, 3, pairing=pairing)
    np.testing.assert_allclose(shown.value, position.rope(x[None], np.array([3]), pairing=pairing)[0][0], rtol=1e-12)
    assert len(shown.text.splitlines()) == 3 * d // 2 and shown.latex.count("&=") == 3 * d // 2


def test_rope_row_writes_the_arithmetic():
    lines = worked.rope_row([1, 2, 3, 4], 1).text.splitlines()
    assert lines[0] == "θ[0] = 1·1 = 1"
    assert lines[1] == "y[0] = 1·0.540 - 2·0.841 = -1.143"
    assert lines[3] == "θ[1] = 1·0.01 = 0.01"
    half = worked.rope_row([1, 2, 3, 4], 1, pairing="half").text.splitlines()
    assert half[1] == "y[0] = 1·0.540 - 3·0.841 = -1.984" and half[2].startswith("y[2] = ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worked.rms_norm_row([0, 0], eps=0), "row of zeros and eps was 0"),
        (lambda: worked.rms_norm_row([1, 2], eps=-1), "eps was -1"),
        (lambda: worked.rms_norm_row([1, np.nan]), "not finite"),
        (lambda: worked.rms_norm_backward_row([1], [1, 2]), "dy had 1 entries"),
        (lambda: worked.rope_row([1, 2, 3], 1), "even d"),
        (lambda: worked.rope_row([1, 2], -1), "positions held -1"),
        (lambda: worked.rope_row([1, 2], 1, pairing="both"), "pairing was 'both'"),
    ],
)
def test_bad_rows(call, message):
    with pytest.raises(ValueError, match=message):
        call()
