import numpy as np
import pytest
import sympy

from byhand import worked
from byhand.numpy import linear

rng = np.random.default_rng(3)


def test_number():
    shown = worked.number(np.tanh(2**0.5), "O", exact=sympy.tanh(sympy.sqrt(2)))
    assert shown.text == "O = tanh(sqrt(2)) ≈ 0.888"
    assert shown.latex == r"O = \tanh{\left(\sqrt{2} \right)} \approx 0.888"
    assert worked.number(-0.0).text == "0"
    with pytest.raises(AssertionError, match="value and exact differ"):
        worked.number(0.888, exact=sympy.tanh(sympy.sqrt(2)))


def test_sum_of_whole_arrays():
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    shown = worked.sum_of_terms({"through Q": a, "through K": b}, "dX")
    np.testing.assert_array_equal(shown.value, a + b)
    assert shown.text.startswith("dX (2, 3) =\n  through Q:\n[") and "\n+ through K:\n" in shown.text and "\n=\n" in shown.text
    assert r"&& \text{through Q}" in shown.latex and r"\underset{2 \times 3}{dX} &=" in shown.latex


def test_sum_at_one_entry():
    shown = worked.sum_of_terms([("through Q", [[0.1, 0.2]]), ("through K", [[0.3, -0.25]])], "dX", entry=(0, 1))
    assert shown.text == "dX[0, 1] = 0.2 (through Q) + (-0.25) (through K) = -0.05"
    assert shown.latex == r"dX_{0,1} = \underbrace{0.2}_{\text{through Q}} + \underbrace{\left(-0.25\right)}_{\text{through K}} = -0.05"


def test_sum_that_cancels_is_zero():
    assert worked.sum_of_terms({"a": [0.1 + 0.2], "b": [-0.3]}, "dx", entry=(0,)).text.endswith("= 0")


def test_sum_of_numbers():
    assert worked.sum_of_terms({"a": 1.0, "b": 2.5}, "L").text == "L = 1 (a) + 2.5 (b) = 3.5"


@pytest.mark.parametrize(
    "terms, entry, message",
    [
        ({}, None, "terms was empty"),
        ({"a": [1, 2], "b": [1]}, None, r"b had shape \(1,\), a \(2,\)"),
        ({"a": [1, 2]}, (2,), r"entry was \(2,\)"),
        ({"a": [[1, 2]]}, (0,), "it must have 2 indices"),
        ({"a": np.zeros((2, 2, 2))}, None, "pick one matrix"),
    ],
)
def test_sum_refuses(terms, entry, message):
    with pytest.raises(ValueError, match=message):
        worked.sum_of_terms(terms, entry=entry)


def test_product_entry_is_the_weight_gradient():
    x, g, w = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5)), rng.normal(size=(4, 5))
    _, cache = linear.linear(x, w)
    _, grads = linear.linear_backward(g, cache)
    shown = worked.product_entry(x, g, (3, 1))
    np.testing.assert_allclose(shown.value, grads["w"], atol=1e-14)
    assert shown.text.startswith("dW[i, j] = Σ_t X[t, i]·G[t, j]\ndW[3, 1] = ")
    assert r"dW_{i,j} &= \sum_{t} X_{t,i}\, G_{t,j}" in shown.latex and r"X^\top\, G" in shown.latex
    with pytest.raises(ValueError, match="x had 6 rows and g had 3"):
        worked.product_entry(x, g[0])
    with pytest.raises(ValueError, match=r"x had shape \(2,\)"):
        worked.product_entry([1, 2], g)


def test_outer_product():
    shown = worked.outer_product([1.0, 2.0], [0.5, -1.0], ("dW", "h", "dz"), entry=(1, 1))
    assert shown.text == "dW[1, 1] = 2·(-1) = -2\ndW (2, 2) = h^T dz =\n[0.5  -1]\n[  1  -2]"
    with pytest.raises(ValueError, match="one vector"):
        worked.outer_product([[1.0]], [1.0])


def test_sheet():
    shown = worked.sheet(
        [("W_Q", np.eye(2), [[0.1, 0], [0, -0.2]]), ("gamma", [1.0, 2.0], None), ("L", 2.5, 1.0), ("X", np.zeros((1, 20, 20)), np.ones((20, 20)))]
    )
    assert "W_Q (2, 2)\n  value     [1  0]\n            [0  1]\n  gradient  [0.1     0]\n" in shown.text
    assert "gamma (2,)\n  value     [1  2]\n  gradient  -" in shown.text
    assert "X (20, 20)" in shown.text and "⋱" in shown.text
    assert shown.latex.startswith(r"\begin{array}{l|c|c|c}") and r"20 \times 20" in shown.latex


@pytest.mark.parametrize(
    "rows, message",
    [
        ([], "rows was empty"),
        ([("W", [1.0])], "each must be"),
        ([("W", [1.0], [1.0, 2.0])], r"gradient of W had shape \(2,\)"),
        ([("W", np.zeros((2, 2, 2)), None)], r"W had shape \(2, 2, 2\)"),
    ],
)
def test_sheet_refuses(rows, message):
    with pytest.raises(ValueError, match=message):
        worked.sheet(rows)
