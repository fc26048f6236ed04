import re

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from byhand import worked


def both(shown):
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == repr(shown)
    return bundle["text/plain"], bundle["text/latex"]


def balanced(latex):
    """Every \\begin has its \\end, every \\left its \\right, every brace its brother; no blank line, which would cut a display in two."""
    assert latex.startswith("$$\n") and latex.endswith("\n$$")
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", latex):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    assert len(re.findall(r"\\left\b", latex)) == len(re.findall(r"\\right\b", latex))
    bare = latex.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert "\n\n" not in latex
    return True


def test_matrix_with_name_shape_and_rows():
    text, latex = both(worked.matrix(np.array([[1, 0.5], [-0.0, -2]]), "W_Q", rows=["je", "suis"]))
    assert text == "W_Q (2, 2) =\nje   [1  0.5]\nsuis [0   -2]"
    assert r"\underset{2 \times 2}{W_{Q}} =" in latex
    assert r"\text{je} \\" in latex and r"1 & 0.5 \\" in latex and "0 & -2" in latex
    assert balanced(latex)


def test_matrix_with_columns():
    text, latex = both(worked.matrix([[1, 2]], cols=["a", "<eos>"]))
    assert text == "  a  <eos>\n[1      2]".replace("  a", " a", 1)
    assert r" & \text{a} & \text{<eos>} \\" in latex and balanced(latex)


def test_vector_and_number():
    assert worked.matrix([1, 2]).text == "[1  2]"
    assert worked.matrix(0.5, "b").text == "b () =\n[0.5]"


def test_a_large_matrix_is_never_silently_cut():
    text, latex = both(worked.matrix(np.arange(200.0 * 30).reshape(200, 30), "E"))
    assert "(200, 30)" in text and r"200 \times 30" in latex
    for dots in (r"\vdots", r"\cdots", r"\ddots"):
        assert dots in latex
    for dots in "⋮…⋱":
        assert dots in text
    assert len(text.splitlines()) == 1 + 7
    assert "5999" in text  # the last entry stays
    nameless_text, nameless = both(worked.matrix(np.zeros((20, 2))))
    assert "(20, 2)" in nameless_text and r"20 \times 2" in nameless and balanced(nameless)


def test_limit_none_shows_all():
    text = worked.matrix(np.arange(100), limit=None).text
    assert "…" not in text and "57" in text


def test_labels_of_a_large_matrix_keep_their_ends():
    text = worked.matrix(np.zeros((20, 20)), rows=range(20), cols=range(20)).text
    assert "19" in text and "⋮" in text and " 10" not in text


def test_heads_are_a_stack():
    text, latex = both(worked.matrix(np.arange(24).reshape(2, 3, 2, 2), "A"))
    assert text.startswith("A (2, 3, 2, 2)\nA[0, 0] =\n[0  1]\n[2  3]\n")
    assert "... (2 more)" in text and r"\text{(2 more)}" in latex
    assert "A[1, 2] =\n[20  21]" in text
    assert balanced(latex)


def test_exact_entries():
    text, latex = both(worked.matrix(sympy.Matrix([[sympy.sqrt(2), 1]]), "M", decimals=True))
    assert text == "M (1, 2) =\n[sqrt(2)  1]\n≈\n[1.414  1]"
    assert r"\sqrt{2} & 1" in latex and r"\approx" in latex and balanced(latex)


def test_masks_are_shown_as_letters():
    assert worked.matrix(np.tri(2, dtype=bool)).text == "[T  F]\n[T  T]"


def test_infinite_scores():
    text, latex = both(worked.matrix(np.array([[1.0, -np.inf], [np.nan, 2.0]])))
    assert "-∞" in text and r"-\infty" in latex and r"\text{nan}" in latex


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(array=np.zeros((0, 2))), "at least one entry"),
        (dict(array=[["a"]]), "real numbers"),
        (dict(array=[[1, 2]], rows=["a", "b"]), "rows had 2 labels; there must be 1"),
        (dict(array=[[1, 2]], cols=["a"]), "cols had 1 labels; there must be 2"),
        (dict(array=[[1]], name=""), "name was ''"),
        (dict(array=[[1.5]], digits=-2), "digits was -2"),
    ],
)
def test_matrix_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.matrix(**args)


def test_product_entry_by_entry():
    x, w = np.array([[1, 0.0, 1, 0], [0, 1, 0, 1]]), np.array([[1, 0], [0, 1], [1, 0], [0, -0.5]])
    shown = worked.matrix_product(x, w, ("Q", "X", "W_Q"), entry="all")
    text, latex = both(shown)
    assert "Q[1, 1] = 0·0 + 1·1 + 0·0 + 1·(-0.5) = 0.5" in text
    assert text.endswith("Q (2, 2) = X W_Q =\n[2    0]\n[0  0.5]")
    assert r"Q_{0,0} &= 1 \cdot 1 + 0 \cdot 0 + 1 \cdot 1 + 0 \cdot 0 = 2" in latex
    assert r"\left(-0.5\right) = 0.5" in latex and r"\underset{2 \times 2}{Q} &= X\, W_{Q} =" in latex
    assert balanced(latex)
    np.testing.assert_array_equal(shown.value, x @ w)


def test_one_entry_and_none():
    a = np.arange(6).reshape(2, 3)
    assert worked.matrix_product(a, a.T, entry=(1, 0)).text.startswith("C[1, 0] = 3·0 + 4·1 + 5·2 = 14\n")
    assert worked.matrix_product(a, a.T, entry=(-1, -1)).text.startswith("C[1, 1] = ")
    assert worked.matrix_product(a, a.T).text.startswith("C (2, 2) = A B =")


def test_a_long_sum_says_how_many_terms_it_has():
    text, latex = both(worked.matrix_product(np.ones((1, 64)), np.ones((64, 1)), entry=(0, 0)))
    assert "1·1 + 1·1 + 1·1 + … + 1·1 + 1·1 + 1·1 = 64 (64 terms)" in text
    assert r"\text{(64 terms)}" in latex


def test_all_entries_of_a_large_result_show_dots():
    text, latex = both(worked.matrix_product(np.ones((20, 2)), np.ones((2, 20)), entry="all"))
    assert "⋮" in text and r"\vdots" in latex and "C[19, 19]" in text and balanced(latex)


def test_exact_product():
    m = sympy.Matrix([[sympy.sqrt(2), 1], [0, 1]])
    shown = worked.matrix_product(m, m, entry=(0, 1))
    assert shown.value[0, 1] == 1 + sympy.sqrt(2)
    assert "C[0, 1] = sqrt(2)·1 + 1·1 = 1 + sqrt(2)" in shown.text


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.sampled_from([np.float32, np.float64, np.int64]), st.integers(0, 6))
def test_any_product_can_be_written(m, n, p, dtype, digits):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s) * 3 for s in ((m, n), (n, p)))
    shown = worked.matrix_product(a.astype(dtype), b.astype(dtype), entry="all", digits=digits)
    assert balanced(both(shown)[1])
    assert not re.search(r"(?<![\d.])-0(\.0+)?(?![\d.e])", shown.text)


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(a=np.ones((2, 3)), b=np.ones((2, 3))), r"a had shape \(2, 3\) and b had shape \(2, 3\)"),
        (dict(a=np.ones((1, 2, 3)), b=np.ones((3, 3))), "one matrix each"),
        (dict(a=np.ones((2, 2)), b=np.ones((2, 2)), entry=(2, 0)), r"entry was \(2, 0\)"),
        (dict(a=np.ones((2, 2)), b=np.ones((2, 2)), entry="some"), "entry was 'some'"),
        (dict(a=np.ones((2, 2)), b=np.ones((2, 2)), entry=3), "entry was 3"),
        (dict(a=np.ones((2, 2)), b=np.ones((2, 2)), names=("A", "B")), "three names"),
    ],
)
def test_product_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.matrix_product(**args)


def test_a_product_alone_keeps_its_columns_apart():
    shown = worked.matrix_product([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    assert shown.latex.count("&") == 1 and "13 & 16" in shown.latex and "aligned" not in shown.latex


def test_beside_holds_each_formula_and_refuses_what_is_none():
    a, b = worked.matrix(np.eye(2), "A"), worked.matrix([[0.5]], "B")
    shown = worked.beside(a, b)
    assert shown.html.count('class="math"') == 2 and "&amp; 0" in shown.html and a.text in shown.text and b.text in shown.text
    assert [value.shape for value in shown.value] == [(2, 2), (1, 1)]
    with pytest.raises(ValueError, match="pieces held a str"):
        worked.beside(a, "B")
    with pytest.raises(ValueError, match="pieces was empty"):
        worked.beside()
