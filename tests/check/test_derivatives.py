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


@pytest.mark.parametrize(
    ("how", "evaluations"),
    [
        ({}, 24),
        ({"count": 5}, 10),
        ({"count": 12}, 24),
        ({"count": 99}, 24),
        ({"along": "directions"}, 6),
        ({"along": "directions", "count": 5}, 10),
        ({"order": 4}, 48),
    ],
    ids=str,
)
def test_every_evaluation_is_counted_and_none_is_of_the_same_place_twice(how, evaluations):
    seen = []

    def f(x):
        seen.append(x.tobytes())
        return _cubic(x)

    x = np.arange(1.0, 13).reshape(3, 4) / 12
    assert check.gradient_check(f, x, 3 * x**2, **how)
    assert len(seen) == evaluations == len(set(seen))


def test_a_sample_is_drawn_by_the_seed_and_measured_by_the_whole_array():
    x = np.arange(1.0, 41)
    off = 3 * x**2 + np.arange(40) * 1.0

    def places(seed):
        return {check.gradient_check(_cubic, x, off, count=1, seed=s, bound=1e-12)["x"].where for s in seed}

    assert len(places(range(30))) > 10 and places([3]) == places([3])
    large = np.array([1.0, 1e6])  # the first entry's gradient is off by a thousandth of itself, which is nothing beside the second's
    near = 2 * large + np.array([2e-3, 0.0])
    for count in (None, 1):
        assert all(check.gradient_check(lambda x: float((x * x).sum()), large, near, count=count, seed=seed, h=1e-2) for seed in range(4))
    report = check.gradient_check(lambda x: float((x * x).sum()), large[:1], near[:1])
    assert not report and report["x"].worst == pytest.approx(1e-3, rel=1e-2) and report["x"].by_hand == pytest.approx(2.002)


def test_the_title_counts():
    x = {name: np.ones(2) for name in "abc"}

    def title(small=1.0, **gradients):
        return check.gradient_check(lambda p: _cubic(p["a"]) + _cubic(p["b"]) + small * _cubic(p["c"]), x, gradients).title.removeprefix(
            "Central differences: "
        )

    three, wrong = np.full(2, 3.0), np.full(2, 3.1)
    assert title(a=three, b=three, c=three) == "3 arrays, all agree within 1e-6"
    assert title(a=three, b=wrong, c=three) == "3 arrays, 1 differ" and title(a=three, b=wrong, c=wrong) == "3 arrays, 2 differ"
    assert title(1e-10, a=three, b=three, c=0 * three) == "3 arrays, 2 agree within 1e-6, 1 left open, too small to tell"
    assert title(1e-10, a=three, b=wrong, c=0 * three) == "3 arrays, 1 differ, 1 left open, too small to tell"
    assert check.gradient_check(_cubic, np.ones(1), three[:1]).title == "Central differences: 1 array, all agree within 1e-6"
    nothing = {name: np.zeros(2) for name in "cab"}
    assert (
        check.gradient_check(lambda p: 1e-10 * sum(map(_cubic, p.values())), x, nothing).title
        == "Central differences: 3 arrays, 3 left open, too small to tell"
    )


def test_what_is_shown_of_a_row():
    x = np.array([[1.0, 2.0]])
    wrong = check.gradient_check(_cubic, x, np.array([[3.0, 11.0]]))
    assert wrong.cells(wrong.rows[0])[1:] == ["off by 0.083", "[0, 1]", "11", "12"]
    right = check.gradient_check(_cubic, x, 3 * x**2)
    assert right.cells(right.rows[0])[1:] == ["agrees within 1e-6", "", "", ""]
    small = check.gradient_check(lambda x: 1e-12 * _cubic(x), x, 0 * x)
    assert small.cells(small.rows[0])[1:] == ["left open: too small to tell", "", "", ""]
    along = check.gradient_check(_cubic, x, np.array([[3.0, 11.0]]), "directions")
    assert along.rows[0].where in ("direction 0", "direction 1", "direction 2")


def test_whether_a_value_moved():
    from byhand.check.derivatives import Moving

    eps = np.finfo(float).eps
    for size in (1.0, -1.0):
        for steps, moved in ((0, False), (16, False), (17, True), (np.nan, True)):
            values = iter([size, size * (1 + steps * eps)])
            moving = Moving(lambda arrays: next(values), {"a": np.ones(1)}, "a")
            moving(np.ones(1)), moving(np.ones(1))
            assert moving.moved is moved


@pytest.mark.parametrize(
    "how",
    [
        dict(h=-1.0),
        dict(h=0.0),
        dict(h=np.inf),
        dict(h=np.nan),
        dict(seed=-1),
        dict(seed=0.5),
        dict(order=3),
        dict(order=1),
        dict(along="entry"),
        dict(count=0),
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant(how):
    with pytest.raises(ValueError, match=f"{next(iter(how))} was"):
        check.gradient_check(_cubic, np.ones(2), np.full(2, 3.0), **how)


@pytest.mark.parametrize(
    ("x", "index"), [(np.ones(2), 2), (np.ones(2), (0, 0)), (np.ones(2), ()), (np.ones((2, 2)), 1), (np.ones(2), "a"), (np.ones(2), 0.5), (np.ones(()), 0)]
)
def test_what_is_no_index_of_one_entry(x, index):
    with pytest.raises((IndexError, ValueError), match="index"):
        check.central_difference(_cubic, x, index)
    with pytest.raises(ValueError, match=r"direction had shape \(3,\); it must be x's"):
        check.directional_difference(_cubic, x, np.ones(3))


def test_names_that_only_one_side_has_are_listed_up_to_four():
    x = {name: np.ones(1) for name in "abcdef"}
    with pytest.raises(ValueError, match="only one of them has a, b, c, d$"):
        check.gradient_check(lambda p: 0.0, x, {})
    with pytest.raises(ValueError, match="only one of them has ndarray"):
        check.gradient_check(lambda p: 0.0, x, np.ones(1))
