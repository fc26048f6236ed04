from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.sympy as bs
from byhand.sympy.derivation import Derivation, derive, reduced, symbols


def test_reduced_finds_what_is_zero():
    x, y = sp.symbols("x y", real=True)
    assert reduced(sp.exp(x) * sp.exp(-x + y) - sp.exp(y)) == 0
    assert reduced(1 / (1 + sp.exp(-x)) - sp.exp(x) / (1 + sp.exp(x))) == 0
    assert reduced(sp.Piecewise((x, x > 0), (0, True)) - x * sp.Piecewise((1, x > 0), (0, True))) == 0


@pytest.mark.parametrize("text", ["exp(x) - 1 - x", "x**2 - x", "Piecewise((x, x > 0), (0, True)) - x", "exp(x)/(1 + exp(x)) - 1/2"])
def test_reduced_leaves_what_is_not_zero(text):
    assert reduced(sp.sympify(text, locals={"x": sp.Symbol("x", real=True)})) != 0


def with_rule(derivation, rule) -> Derivation:
    """The same derivation beside another rule."""
    return replace(derivation, textbook=rule)


def test_a_wrong_rule_is_not_proved():
    linear = bs.linear.linear_derivation(2, 2, 2)["dx"]
    assert not with_rule(linear, linear.inputs["dy"] * linear.inputs["w"]).difference_is_zero  # w for wᵀ

    attention = bs.attention.attention_derivation(2, 2, 2, 1)["dq"]
    assert not with_rule(attention, attention.textbook * sp.sqrt(2)).difference_is_zero  # 1/√d_k missing

    softmax = bs.softmax.softmax_derivation(3)["dx"]
    p, dy = sp.Matrix([list(softmax.where)]), softmax.inputs["dy"]
    elementwise = sp.Matrix(1, 3, lambda _, i: dy[i] * p[i] * (1 - p[i]))
    assert not with_rule(softmax, elementwise).difference_is_zero

    scattered = bs.embedding.embedding_derivation((0, 1, 0))["dtable"]
    last_only = sp.sqrt(2) * sp.Matrix.vstack(scattered.inputs["dy"][2, :], scattered.inputs["dy"][1, :], sp.zeros(1, 2))
    assert not with_rule(scattered, last_only).difference_is_zero  # overwritten, not added


def test_numeric_names_what_is_wrong(rng):
    dw = bs.linear.linear_derivation(2, 3, 2)["dw"]
    x, dy = rng.normal(size=(2, 3)), rng.normal(size=(2, 2))
    assert dw.numeric(x=x, dy=dy).shape == (3, 2)  # w and b are not needed
    with pytest.raises(ValueError, match="x is missing"):
        dw.numeric(dy=dy)
    with pytest.raises(ValueError, match="'z' is not an input"):
        dw.numeric(x=x, dy=dy, z=x)
    with pytest.raises(ValueError, match=r"x had shape \(2, 2\)"):
        dw.numeric(x=dy, dy=dy)


def test_a_derivation_shows_itself():
    derivation = bs.softmax.softmax_derivation(2)["dx"]
    assert repr(derivation) == "softmax: dx  (x 1×2, dy 1×2)\nderivative − rule = 0 in all 2 entries"
    latex = derivation._repr_latex_()
    assert latex.startswith(r"$\displaystyle \begin{aligned}") and latex.count(r"\begin{") == latex.count(r"\end{")
    assert r"\frac{\partial L}{\partial x_{0}}" in latex and derivation.formula.split(" = ")[1] in latex


def test_a_case_distinction_is_shown_by_the_name_of_what_it_asks_about():
    """A network's bend would otherwise repeat its whole input in each case: a line of 2,800 pixels."""
    derivation = bs.feed_forward.feed_forward_derivation()["dx"]
    latex = derivation.to_latex()
    assert r"\text{for}\: h_{0} > 0" in latex and latex.count("b_{1,0} + w_{1,00} x_{0} + w_{1,10} x_{1}") == 1
    assert max(line.count(r"\begin{cases}") for line in latex.splitlines()) == 2
    lines = [line.partition("&= ") for line in latex.splitlines()]
    assert [name.strip() for name, _, shown in lines if "b_{2," in shown] == ["y_{0}", "y_{1}"]
    assert derivation.definition.has(*derivation.inputs["w_1"]) and derivation.difference_is_zero  # only what is shown is shorter


def test_a_failed_proof_says_so():
    x, dy = symbols("x", 1, 2), symbols("dy", 1, 2)
    wrong = derive("doubling", 2 * x, {"x": x, "dy": dy}, "x", sp.Matrix([[2 * dy[0], dy[1]]]), "2X", "dX = 2\\,dY")
    assert not wrong.difference_is_zero
    assert "not 0 in 1 of 2 entries" in repr(wrong) and "not 0 in 1 of 2 entries" in wrong.to_latex()


def test_numeric_follows_the_definition_by_central_differences(rng, assert_agrees):
    """The derivative is that of the operation as the room defines it, not only the NumPy floor's idea of it."""
    d = bs.norm.layer_norm_derivation(3)["dx"]
    values = {"x": rng.normal(size=3), "gamma": rng.normal(size=3), "beta": rng.normal(size=3), "eps": 1e-3, "dy": rng.normal(size=3)}
    flat = [symbol for matrix in d.inputs.values() for symbol in matrix]
    loss = sp.lambdify(flat, sum(a * b for a, b in zip(d.inputs["dy"], d.definition)))

    def at(x):
        return loss(*np.concatenate([np.ravel(v) for v in (values | {"x": x}).values()]))

    h = 1e-6
    slopes = [(at(values["x"] + h * e) - at(values["x"] - h * e)) / (2 * h) for e in np.eye(3)]
    assert_agrees(d.numeric(**values), slopes, bound=1e-8)
