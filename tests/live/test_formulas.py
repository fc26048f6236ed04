"""The language of the stored formulas, and the reader that evaluates them with arrays."""

import numpy as np
import pytest

from byhand.live.formulas import Stage, evaluate, parse

AXES = {"a": "t,c", "b": "c", "table": "v,c", "tokens": "t", "wide": "t,hk", "split": "h,t,k"}
SIZES = dict(t=2, c=3, v=4, h=2, k=5)
RNG = np.random.default_rng(0)
LEAVES = {name: RNG.normal(size=[int(np.prod([SIZES[c] for c in group])) for group in axes.split(",")]) for name, axes in AXES.items()}
LEAVES["tokens"] = np.array([3, 1])
A, B, TABLE, TOKENS, WIDE, SPLIT = LEAVES.values()


def value(formula, axes="", over="", show=None, shown=False, **operands):
    rules = {"rule": {"formula": formula} | ({"show": show} if show else {})}
    return evaluate(rules, [Stage("x", axes, "rule", over, operands)], AXES, SIZES, LEAVES, shown)["x"]


a, b = ("a", "t,c"), ("b", "c")


@pytest.mark.parametrize(
    "formula, axes, over, operands, want",
    [
        ("2 * a - 1 / 4", "t,c", "", dict(a=a), 2 * A - 0.25),
        ("a - b - 1e-3", "t,c", "", dict(a=a, b=b), A - B - 1e-3),
        ("-a / (b * 2)", "t,c", "", dict(a=a, b=b), -A / (2 * B)),
        ("+", "t,c", "", dict(a=a, b=b), A + B),
        ("sum(@: a * b)", "t", "c", dict(a=a, b=b), A @ B),
        ("sum(tc: a)", "", "", dict(a=a), A.sum()),
        ("sum(t: b)", "c", "", dict(b=b), 2 * B),  # once for every t, though b does not depend on it
        ("mean(c: sq(a))", "t", "", dict(a=a), (A**2).mean(1)),
        ("top(c: a)", "t", "", dict(a=a), A.max(1)),
        ('top(c: when("no", a > 0, -sq(a)))', "t", "", dict(a=a), np.where(A > 0, -(A**2), -np.inf).max(1)),
        ('sum(c: when("no", a > 0, a))', "t", "", dict(a=a), A.clip(0).sum(1)),
        ("exp(a) + log(sq(a)) + sqrt(abs(a))", "t,c", "", dict(a=a), np.exp(A) + np.log(A**2) + np.sqrt(np.abs(A))),
        ("is(y = #1) + size(v)", "t,v", "", dict(y=("tokens", "t")), np.eye(4)[TOKENS] + 4),
        ("is(y)", "t", "", dict(y=("tokens", "t")), np.ones(2)),
        ("w", "t,c", "", dict(w=("table", "tokens@t,c")), TABLE[TOKENS]),
        ("w", "h,t,k", "", dict(w=("wide", "t,hk")), WIDE.reshape(2, 2, 5).swapaxes(0, 1)),
        ("w", "t,hk", "", dict(w=("split", "h,t,k")), SPLIT.swapaxes(0, 1).reshape(2, 10)),
        ("a", "c,t", "", dict(a=a), A.T),
    ],
)
def test_a_formula_is_what_it_says(formula, axes, over, operands, want):
    np.testing.assert_allclose(value(formula, axes, over, **operands), want, rtol=1e-14, atol=0)


def test_a_rule_can_be_shown_in_another_form():
    rule = dict(axes="t,c", over="c", a=a, show="exp(a) / sum(@: exp(a))")
    computed = value("exp(a - top(@: a)) / sum(@: exp(a - top(@: a)))", **rule)
    np.testing.assert_allclose(value("0", **rule, shown=True), computed, rtol=1e-14)


@pytest.mark.parametrize("formula", ["", "a +", "(a", "a)", "a b", "sum(a)", "when(a, b)", "nothing(a)", "a ? b", "sum(c: a", "is(a = )", "* a", '"text"'])
def test_what_cannot_be_read_is_refused(formula):
    with pytest.raises(ValueError, match="formula was"):
        parse(formula)


def test_a_letter_too_many_is_refused():
    with pytest.raises(ValueError, match=r"stage 'x' has the axes 't', but its formula still depends on \['c'\]"):
        value("a", "t", a=a)


def test_a_leaf_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"leaf 'a' had shape \(3, 2\); its axes 't,c' are \(2, 3\) here"):
        evaluate({}, [], {"a": "t,c"}, SIZES, {"a": A.T})
