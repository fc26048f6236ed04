import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand import check


def _cubic(x):
    return float((x**3).sum())


def test_one_entry():
    x = np.array([[1.0, -2.0], [0.5, 3.0]])
    before = x.tobytes()
    assert check.central_difference(_cubic, x, (1, 1)) == pytest.approx(27, rel=1e-9)
    assert x.tobytes() == before
    assert check.central_difference(_cubic, [1.0, 2.0], 1) == pytest.approx(12, rel=1e-9)
    np.testing.assert_allclose(check.numerical_gradient(_cubic, x), 3 * x**2, rtol=1e-8)


def test_the_error_falls_as_h_squared_and_with_order_4_as_h_to_the_fourth():
    def f(x):
        return float(np.exp(x[0]))

    x, right = np.array([1.0]), np.e
    for order, factor in ((2, 4), (4, 16)):
        errors = [abs(check.central_difference(f, x, 0, h, order) - right) for h in (0.02, 0.01)]
        assert errors[0] / errors[1] == pytest.approx(factor, rel=0.01)


@given(shape=st.lists(st.integers(1, 4), max_size=3), seed=st.integers(0, 99), along=st.sampled_from(("entries", "directions")))
def test_a_right_gradient_passes_and_a_wrong_entry_is_found(shape, seed, along):
    rng = np.random.default_rng(seed)
    x = {"a": rng.normal(size=shape) + 2, "b": rng.normal(size=2)}
    gradient = {name: np.array(3 * value**2) for name, value in x.items()}

    def f(values):
        return sum(_cubic(value) for value in values.values())

    assert check.gradient_check(f, x, gradient, along)
    place = tuple(int(rng.integers(n)) for n in shape)
    gradient["a"][place] += 1e-3
    report = check.gradient_check(f, x, gradient, along)
    assert not report and [row.name for row in report.failures] == ["a"]
    if along == "entries":
        assert report["a"].where == (str(list(place)) if place else "")
        assert report["a"].by_hand - report["a"].by_difference == pytest.approx(1e-3, rel=1e-3)


def test_an_array_alone_and_a_sample_of_it():
    x = np.linspace(1, 2, 50).reshape(5, 10)
    calls = []

    def f(x):
        calls.append(x)
        return _cubic(x)

    assert check.gradient_check(f, x, 3 * x**2, count=4)
    assert len(calls) == 8
    assert not check.gradient_check(f, x, 3 * x**2 + 1, count=4)


def test_the_report_can_be_read():
    x = np.array([1.0, 2.0])
    text = repr(check.gradient_check(_cubic, x, np.array([3.0, 11.0])))
    assert "1 differ" in text and "[1]" in text and "11" in text and "12" in text and "off by 0.083" in text
    report = check.gradient_check(_cubic, x, 3 * x**2)
    assert "all agree within 1e-6" in repr(report) and "text/html" in report._repr_mimebundle_()
    with pytest.raises(AssertionError, match="1 differ"):
        check.gradient_check(_cubic, x, x).require()


@pytest.mark.parametrize("gradient", [np.array([3.0, np.nan]), np.array([3.0, np.inf])])
def test_a_gradient_that_is_not_finite_fails(gradient):
    assert not check.gradient_check(_cubic, np.array([1.0, 2.0]), gradient)
    assert not check.gradient_check(_cubic, np.array([1.0, 2.0]), gradient, "directions")


def test_what_cannot_be_meant():
    x = np.ones(2)
    with pytest.raises(ValueError, match="h was 0"):
        check.central_difference(_cubic, x, 0, h=0)
    with pytest.raises(ValueError, match="order was 3"):
        check.central_difference(_cubic, x, 0, order=3)
    with pytest.raises(IndexError, match="one entry"):
        check.central_difference(_cubic, np.ones((2, 2)), 0)
    with pytest.raises(IndexError):
        check.central_difference(_cubic, x, 2)
    with pytest.raises(ValueError, match="along was 'rows'"):
        check.gradient_check(_cubic, x, x, "rows")
    with pytest.raises(ValueError, match="only one of them has b"):
        check.gradient_check(lambda v: 0.0, {"a": x}, {"a": x, "b": x})
    with pytest.raises(ValueError, match=r"the gradient of 'x' had shape \(3,\); it must be \(2,\)"):
        check.gradient_check(_cubic, x, np.ones(3))
