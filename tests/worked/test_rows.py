import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byhand import worked
from byhand.numpy import loss, norm, softmax

rng = np.random.default_rng(7)


def test_softmax_row_writes_exponentials_sum_and_quotients():
    shown = worked.softmax_row([2 * 2**0.5, 0.0, 3.0], mask=[True, True, False], labels=["je", "suis", "<pad>"])
    assert "16.919 / 17.919 = 0.944" in shown.text
    assert "1 / 17.919 = 0.056" in shown.text
    last = shown.text.splitlines()[-1].split()
    assert last == ["sum", "17.919", "1"]
    assert [line.split() for line in shown.text.splitlines() if "<pad>" in line] == [["<pad>", "-∞", "0", "0"]]
    assert r"e^{2.828} = 16.919 & 16.919 / 17.919 = 0.944" in shown.latex
    assert r"\text{<pad>} & -\infty & 0 & 0" in shown.latex


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-200, 200), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_softmax_row_is_the_package_softmax(scores, random):
    mask = np.array([random.random() < 0.7 for _ in scores])
    expected, _ = softmax.softmax(np.array(scores), mask=mask)
    np.testing.assert_allclose(worked.softmax_row(scores, mask=mask).value, expected, atol=1e-14)


def test_softmax_row_of_large_scores_takes_the_largest_off():
    shown = worked.softmax_row([800.0, 799.0])
    assert "e^(s - max)" in shown.text and r"e^{s - 800}" in shown.latex
    assert "0.731" in shown.text


def test_a_softmax_row_that_may_attend_nowhere_is_zero():
    shown = worked.softmax_row([1.0, 2.0], mask=[False, False])
    assert shown.value.tolist() == [0, 0]
    assert shown.text.splitlines()[-1].split() == ["sum", "0", "0"]


def test_minus_infinity_counts_as_masked():
    assert worked.softmax_row([0.0, -np.inf]).value.tolist() == [1, 0]


def test_a_long_softmax_row_says_how_long_it_is():
    shown = worked.softmax_row(np.zeros(50))
    assert "⋮" in shown.text and "sum of all 50" in shown.text and r"\vdots" in shown.latex


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(scores=[[1.0, 2.0]]), r"scores had shape \(1, 2\)"),
        (dict(scores=[]), "scores had"),
        (dict(scores=[np.nan]), "not finite"),
        (dict(scores=[np.inf, 1]), "not finite"),
        (dict(scores=[1, 2], mask=[True]), r"mask had shape \(1,\)"),
        (dict(scores=[1, 2], mask=[1, 0]), "hold bools"),
        (dict(scores=[1, 2], labels=["a"]), "labels had 1"),
    ],
)
def test_softmax_row_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.softmax_row(**args)


def test_layer_norm_row_writes_every_stage():
    shown = worked.layer_norm_row([1.944, 0.056, 1.944, 0.056], eps=0)
    lines = shown.text.splitlines()
    assert lines[0] == "mean      = (1.944 + 0.056 + 1.944 + 0.056) / 4 = 1"
    assert lines[2] == "variance  = (0.944² + (-0.944)² + 0.944² + (-0.944)²) / 4 = 0.891"
    assert lines[3] == "root      = √(0.891 + 0) = 0.944"
    assert lines[-1].endswith("[1, -1, 1, -1]")
    assert r"\sqrt{\sigma^2 + \varepsilon} &= \sqrt{0.891 + 0} = 0.944" in shown.latex


@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layer_norm_row_is_the_package_layer_norm(n, dtype):
    x, gamma, beta = (rng.normal(size=n).astype(dtype) for _ in range(3))
    expected, _ = norm.layer_norm(x[None], gamma, beta, eps=1e-5)
    shown = worked.layer_norm_row(x, gamma, beta)
    np.testing.assert_allclose(shown.value, expected[0], rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6 if dtype == np.float32 else 1e-12)
    assert ("…" in shown.text) == (n > 8)
    assert "10^{-5}" in shown.latex and "1e-5" in shown.text


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(x=[1, 1, 1], eps=0), "x has a constant row and eps was 0"),
        (dict(x=[0.1, 0.1, 0.1], eps=0.0), "x has a constant row"),
        (dict(x=[1, 2], eps=-1e-5), "eps was -1e-05"),
        (dict(x=[1, 2], gamma=[1]), "gamma had 1 entries; it must have 2"),
        (dict(x=[1, np.nan]), "not finite"),
        (dict(x=3.0), r"x had shape \(\)"),
    ],
)
def test_layer_norm_row_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.layer_norm_row(**args)


def test_a_constant_row_is_fine_with_eps():
    shown = worked.layer_norm_row([0.1, 0.1, 0.1])
    np.testing.assert_allclose(shown.value, 0, atol=1e-12)
    assert shown.text.splitlines()[-1].endswith("[0, 0, 0]")  # what rounding left is not shown


NAMES = ["<bos>", "i", "am", "<eos>"]


def test_loss_terms_of_the_document():
    shown = worked.loss_terms([1.0, 0, -1, 0], 2, smoothing=0.1, names=NAMES)
    assert shown.value == pytest.approx(2.5265233750364455)
    assert [line.split() for line in shown.text.splitlines()][3] == ["am", "←", "-1", "0.072", "-2.627", "0.925", "2.430"]
    assert shown.text.splitlines()[-1].split() == ["sum", "2.527"]
    assert r"\text{am} \;\leftarrow & -1 & 0.072 & -2.627 & 0.925 & 2.430" in shown.latex


def test_loss_terms_of_positions_gives_last_and_mean():
    shown = worked.loss_terms([[1.0, 0, -1, 0], [-1, 0, 1, 0]], np.array([2, 1]), smoothing=0.1, names=NAMES)
    expected, _ = loss.cross_entropy(np.array([[[1.0, 0, -1, 0], [-1, 0, 1, 0]]]), np.array([[2, 1]]), smoothing=0.1)
    assert shown.value.mean() == pytest.approx(expected, abs=1e-14)
    assert "L[0] (target am) = 2.527" in shown.text and "mean = (2.527 + 1.627) / 2 = 2.077" in shown.text


def test_loss_without_smoothing_has_one_term():
    shown = worked.loss_terms([1000.0, 0.0], 1)
    assert shown.value == pytest.approx(1000)
    assert shown.text.splitlines()[1].split()[-1] == "0"


@pytest.mark.parametrize(
    "args, error, message",
    [
        (dict(scores=[1, 2], target=2), IndexError, "targets held the class 2"),
        (dict(scores=[1, 2], target=-1), IndexError, "targets held the class -1"),
        (dict(scores=[1, 2], target=0.5), ValueError, "target was 0.5"),
        (dict(scores=[1, 2], target=True), ValueError, "target was True"),
        (dict(scores=[1, 2], target=0, smoothing=1.0), ValueError, "smoothing was 1.0"),
        (dict(scores=[[1, 2]], target=[0, 1]), ValueError, r"target had shape \(2,\)"),
        (dict(scores=[1, 2], target=0, names=["a"]), ValueError, "names had 1"),
        (dict(scores=[1, np.inf], target=0), ValueError, "not finite"),
    ],
)
def test_loss_terms_refuses(args, error, message):
    with pytest.raises(error, match=message):
        worked.loss_terms(**args)


def test_softmax_backward_row_is_the_package_backward():
    y, cache = softmax.softmax(rng.normal(size=(1, 5)))
    dy = rng.normal(size=(1, 5))
    expected, _ = softmax.softmax_backward(dy, cache)
    shown = worked.softmax_backward_row(dy[0], y[0])
    np.testing.assert_allclose(shown.value, expected[0], atol=1e-15)
    assert shown.text.startswith("Σ dp·p = ") and "ds[4] = " in shown.text and r"ds_{4} &=" in shown.latex


def test_layer_norm_backward_row_is_the_package_backward():
    x, gamma, beta, dy = (rng.normal(size=6) for _ in range(4))
    _, cache = norm.layer_norm(x[None], gamma, beta, eps=1e-5)
    expected, _ = norm.layer_norm_backward(dy[None], cache)
    shown = worked.layer_norm_backward_row(dy, x, gamma, eps=1e-5)
    np.testing.assert_allclose(shown.value, expected[0], atol=1e-13)
    assert "mean(g·x̂)" in shown.text and shown.latex.count("&=") == 7


@pytest.mark.parametrize("helper, args", [(worked.softmax_backward_row, ([1.0], [0.5, 0.5])), (worked.layer_norm_backward_row, ([1.0], [1.0, 2.0]))])
def test_backward_rows_refuse_other_lengths(helper, args):
    with pytest.raises(ValueError, match="dy had 1 entries; it must have 2"):
        helper(*args)


def test_layer_norm_backward_refuses_a_constant_row_without_eps():
    with pytest.raises(ValueError, match="x has a constant row"):
        worked.layer_norm_backward_row([1.0, 2.0], [1.0, 1.0], eps=0)


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worked.rms_norm_row([0, 0], eps=0), "row of zeros and eps was 0"),
        (lambda: worked.rms_norm_row([1, 2], eps=-1), "eps was -1"),
        (lambda: worked.rms_norm_row([1, np.nan]), "not finite"),
        (lambda: worked.rms_norm_backward_row([1], [1, 2]), "dy had 1 entries"),
    ],
)
def test_rms_norm_rows_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
