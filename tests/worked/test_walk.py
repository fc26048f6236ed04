import numpy as np
import pytest

from byhand import toy, worked
from byhand.numpy import step


def walk(**cases):
    return worked.Walk("decoder.0", **(cases or {"document": toy.document(), "lively": toy.lively()}))


def start(steps):
    steps("logits", lambda c: step.run(c.case).dlogits)
    return steps("decoder.out", lambda c: c.g["logits"] @ c.p["output.w"].T)


def test_a_rule_is_run_on_every_case_and_uses_what_the_walk_found():
    steps = walk()
    shown = start(steps)
    for name, case in (("document", toy.document()), ("lively", toy.lively())):
        np.testing.assert_allclose(shown.value[name], step.run(case).gradients.stages["decoder.out"], rtol=0, atol=1e-15)
    assert shown.text.startswith("document (2, 4)\n[") and "\nlively (2, 4)\n[" in shown.text
    assert r"\underset{2 \times 4}{\text{document}} &\;\; \left[" in shown.latex


def test_parameters_are_gradients_too_and_the_layer_need_not_be_named():
    steps = walk()
    start(steps)
    steps("norm_3.out", lambda c: c.g["decoder.out"])
    shown = steps("norm_3.beta", lambda c: c.g["norm_3.out"].sum((0, 1)), symbol="dbeta")
    assert r"d\beta: \quad" in shown.latex
    assert "decoder.0.norm_3.beta" not in steps.left("decoder.0.norm_3") and "decoder.0.norm_3.gamma" in steps.left("decoder.0.norm_3")


@pytest.mark.parametrize("planted", [lambda c: c.g["logits"] @ c.p["output.w"], lambda c: 2 * (c.g["logits"] @ c.p["output.w"].T)])
def test_a_wrong_rule_is_refused_on_the_case_that_shows_it(planted):
    steps = walk()
    steps("logits", lambda c: step.run(c.case).dlogits)
    with pytest.raises(AssertionError, match="decoder.out on (document|lively): this rule gives"):
        steps("decoder.out", planted)


def test_a_wrong_shape_is_refused():
    with pytest.raises(AssertionError, match=r"logits on document: this rule gives the shape \(4,\)"):
        walk()("logits", lambda c: np.zeros(4))


def test_nothing_can_be_used_before_it_was_found():
    with pytest.raises(ValueError, match="'logits' is not a gradient that this walk has found; there are none yet"):
        walk()("decoder.out", lambda c: c.g["logits"])
    with pytest.raises(ValueError, match="must be a stage or a parameter"):
        walk()("logit", lambda c: 0)


def from_the_package(name):
    return lambda c: step.run(c.case).gradients.stages[name]


def test_paths_meet_and_each_is_held_to_its_own_gradient():
    steps = walk()
    shown = steps.fork(
        "norm_2.out",
        residual=from_the_package("decoder.0.norm_2.out.via_residual"),
        feed_forward=from_the_package("decoder.0.norm_2.out.via_feed_forward"),
    )
    assert {"decoder.0.norm_2.out", "decoder.0.norm_2.out.via_residual"}.isdisjoint(steps.left("decoder.0.norm_2.out"))
    right = step.run(toy.lively()).gradients.stages["decoder.0.norm_2.out"]
    np.testing.assert_allclose(shown.value["lively"], right, rtol=0, atol=1e-15)
    assert r"\text{feed-forward}" in shown.latex and "residual:" in shown.text


def test_a_path_left_out_is_refused():
    with pytest.raises(AssertionError, match="decoder.0.norm_2.out on document"):
        walk().fork("norm_2.out", residual=from_the_package("decoder.0.norm_2.out.via_residual"))


def test_what_the_rules_asked_for_is_what_has_to_be_saved():
    steps = walk()
    steps("logits", lambda c: step.run(c.case).dlogits)
    assert steps.saved() == {}
    steps("output.w", lambda c: c.a["decoder.out"][0].T @ c.g["logits"][0])
    assert steps.saved() == {"decoder.out": (1, 2, 4)}


def test_what_an_earlier_page_found_can_be_taken_along():
    steps = walk()
    steps.take("decoder.0.norm_3.out")
    steps("norm_3.beta", lambda c: c.g["norm_3.out"].sum((0, 1)))
    with pytest.raises(ValueError, match="names held 'norm_3'"):
        steps.take("norm_3")


def test_heads_stand_beside_one_another():
    shown = walk()("cross_attention.q", from_the_package("decoder.0.cross_attention.q"), symbol="dQ")
    assert shown.latex.count(r"\left[") == 4


def test_empty_arguments_are_refused():
    with pytest.raises(ValueError, match="cases was empty"):
        worked.Walk("decoder.0")
    with pytest.raises(ValueError, match="paths was empty"):
        walk().fork("norm_2.out")


def test_inside_a_room_its_name_may_be_left_out_and_the_walk_goes_on():
    steps = walk()
    steps.take("residual_2")
    cross = steps.inside("cross_attention")
    cross("out", lambda c: c.g["residual_2"])
    cross("concat", lambda c: c.g["out"] @ c.p["w_o"].T)
    cross("w_o", lambda c: c.a["concat"][0].T @ c.g["out"][0])
    assert "decoder.0.cross_attention.w_o" not in steps.left("decoder.0.cross_attention")
    assert set(steps.saved()) == {"decoder.0.cross_attention.concat"}
    assert "decoder.0.cross_attention.out" in steps.cases["lively"].g
