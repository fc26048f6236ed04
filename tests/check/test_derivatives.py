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


def test_the_function_gets_copies():
    kept = np.ones(3)

    def f(p):
        p["b"] *= 1.5
        p["w"] += 1.0
        return float(2 * p["w"].sum())

    assert check.gradient_check(f, {"w": np.ones(3), "b": kept}, {"w": np.full(3, 2.0), "b": np.zeros(3)})
    assert kept.tolist() == [1, 1, 1]

    def squares(x):
        x *= x
        return float(x.sum())

    assert check.gradient_check(squares, np.array([1.0, 2.0]), np.array([2.0, 4.0]), order=4)
    assert check.central_difference(squares, np.array([1.0, 2.0]), 1) == pytest.approx(4)


def test_a_gradient_below_the_floor_is_left_open():
    def f(x):
        return 1e-10 * float((x**2).sum())

    report = check.gradient_check(f, np.ones(3), np.zeros(3))
    assert not report and not report.failures and "1 left open, too small to tell" in report.title
    both = check.gradient_check(lambda p: f(p["a"]) + _cubic(p["b"]), {"a": np.ones(3), "b": np.ones(2)}, {"a": np.zeros(3), "b": np.full(2, 3.0)})
    assert both and both["a"].holds is None and "1 agrees within 1e-6, 1 left open, too small to tell" in both.title
    unused = check.gradient_check(lambda p: _cubic(p["b"]), {"a": np.ones(3), "b": np.ones(2)}, {"a": np.zeros(3), "b": np.full(2, 3.0)})
    assert unused and unused["a"].holds  # it must be 0, and is exactly 0 on both sides


@pytest.mark.parametrize("along", ["entries", "directions"])
def test_a_function_that_never_moves_checks_nothing(along):
    def f(x):  # 1 for every row, up to rounding
        e = np.exp(x - x.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).sum()

    x = np.random.default_rng(0).normal(size=(3, 5))
    for wrong in (np.zeros((3, 5)), np.full((3, 5), 1e-16)):
        report = check.gradient_check(f, x, wrong, along)
        assert not report and "nothing was checked" in report.title and all(row.holds is None for row in report.rows)
        with pytest.raises(AssertionError, match="nothing was checked"):
            report.require()
    assert check.gradient_check(f, x, np.ones((3, 5)), along).failures  # a gradient of 1 is wrong all the same


def test_tensors_and_counts():
    import torch

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert check.gradient_check(_cubic, x, 3 * x**2) and check.numerical_gradient(_cubic, x).shape == (2,)
    for count in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"count was {count}; it must be .*a whole number"):
            check.gradient_check(_cubic, np.ones(3), np.zeros(3), count=count)
    with pytest.raises(ValueError, match="the gradient of 'x' was str"):
        check.gradient_check(_cubic, np.ones(3), "none")
