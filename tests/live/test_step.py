"""The stored formulas against the package: every number of the step on every worked example, and gradients against differences."""

from dataclasses import replace

import numpy as np
import pytest

from byhand import Config, toy
from byhand.live import step
from byhand.live.formulas import evaluate
from byhand.numpy import transformer

RECORDED_NOWHERE = {  # what the package's record does not keep: the gradients of a norm's inner numbers
    f"d:{name.replace('residual', 'norm')}.{part}" for name in step.RESIDUALS for part in ("mean", "var", "normalised")
}


def random_case(seed):
    """Every size different from every other, two heads or three, padding, random everything."""
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(2, 4))
    config = Config(
        d_model=4, n_heads=heads, d_k=5, d_v=5, d_ff=7, n_layers=1, source_vocab=6, target_vocab=9, eps=float(10 ** rng.uniform(-6, -1)),
        positions=("sinusoidal", "none")[seed // 3 % 2],
    )  # fmt: skip
    params = {name: rng.normal(0, 0.7, value.shape) for name, value in transformer.init(config).items()}
    return toy.Case(
        config, params, rng.integers(0, 6, (1, 8)), rng.integers(0, 9, (1, 3)), rng.integers(0, 9, (1, 3)), np.array([int(rng.integers(1, 9))]), None,
        reduction=("mean", "last", "sum")[seed % 3], smoothing=float(rng.uniform(0, 0.5)), names={},
    )  # fmt: skip


CASES = {"document": toy.document, "exact": toy.exact, "lively": toy.lively} | {f"random {seed}": lambda seed=seed: random_case(seed) for seed in range(6)}


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_every_formula_gives_its_number(name, shown):
    case = CASES[name]()
    ours, want = step.run(case, 0.01, shown=shown), step.recorded(case, 0.01)
    unrecorded = ours.keys() - want.keys() - step.leaf_axes().keys()
    assert unrecorded <= RECORDED_NOWHERE and not want.keys() - ours.keys()
    for stage, value in want.items():
        if not stage.startswith("new:"):
            assert ours[stage].shape == value.shape, stage
            np.testing.assert_allclose(ours[stage], value, rtol=1e-12, atol=1e-12, err_msg=stage)
            continue
        # Where terms cancel, 1e-17 of rounding meets Adam's 1e-9: so from the package's own gradient
        rule = [s for s in step.stages() if s.name == stage]
        axes = {of: pattern for of, pattern in rule[0].operands.values()}
        given = {rule[0].operands["w"][0]: case.params[stage[4:]], "lr": 0.01, rule[0].operands["g"][0]: want["d:" + stage[4:]]}
        mine = evaluate(step.rules(), rule, axes, step.sizes(case), given)[stage]
        np.testing.assert_allclose(mine, value, rtol=0, atol=1e-14, err_msg=stage)


def changed_rules():
    """Each rule with one mistake in it."""
    mistakes = {
        "copy": "-a", "look up": "table", "collect": 'sum(@: when("", token = #0, d))', "product": "sum(@: b)", "product and bias": "sum(@: a * b)",
        "product over root": "sum(@: a * b)", "total": "-sum(@: d)", "mean": "sum(@: x)", "variance": "mean(@: sq(x))", "standardise": "(x - mu) / sqrt(var)",
        "scale and shift": "gamma * n", "times gamma": "d", "into the mean": "0 * sum(@: d)", "into the variance": "-sum(@: d * n) / (var + eps)",
        "norm backward": "d / sqrt(var + eps) + dmean / size(c)", "softmax": "exp(z) / sum(@: exp(2 * z))", "masked softmax": "exp(z) / sum(@: exp(z))",
        "softmax backward": "p * d", "relu": "x", "gate": "d", "smoothed target": "(1 - s) * is(y = #1)", "p minus q": "p - q",
        "cross-entropy": "sum(t: w * log(sum(v: exp(z))))", "adam": "w + lr * g / (abs(g) + 1e-9)", "add": "-a",
    }  # fmt: skip
    return list(mistakes.items())


def test_each_rule_has_a_mistake():
    assert {name for name, _ in changed_rules()} == step.RULES.keys() - {"cut"}


@pytest.mark.parametrize("name, formula", changed_rules())
def test_a_wrong_rule_is_noticed(name, formula):
    case = random_case(0)
    rules = step.rules() | {name: {"formula": formula}}
    ours = evaluate(rules, step.stages(), step.leaf_axes(), step.sizes(case), step.leaves(case, 0.01))
    assert any(np.abs(ours[stage] - value).max() > 1e-6 for stage, value in step.recorded(case, 0.01).items())


SWITCHES = {
    "none": (step.Switches(), {}),
    "no ReLU": (step.Switches(relu=False), {}),
    "no norms": (step.Switches(norms=False), {}),
    "no residuals": (step.Switches(residuals=()), {}),
    "one residual less": (step.Switches(residuals=step.RESIDUALS[:2] + step.RESIDUALS[3:]), {}),
    "no scale": (step.Switches(), {"root_d_k": np.array(1.0)}),
    "no mask": (step.Switches(), {"causal_mask": np.ones((2, 2))}),
    "first word scored": (step.Switches(), {"scored": np.array([1.0, 0.0])}),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_gradients_with_a_switch_are_those_of_the_switched_model(name):
    """Central differences of the switched loss itself, along one random direction in each weight."""
    switches, edits = SWITCHES[name]
    case, rng = replace(toy.lively(), config=replace(toy.lively().config, eps=0.1)), np.random.default_rng(1)
    every = step.stages(switches)
    forward = every[: [stage.name for stage in every].index("loss") + 1]
    leaves = step.leaves(case, 0.01) | edits
    values = evaluate(step.rules(), every, step.leaf_axes(), step.sizes(case), leaves)

    def loss(**changed):
        return float(evaluate(step.rules(), forward, step.leaf_axes(), step.sizes(case), leaves | changed)["loss"])

    for weight in step.weight_axes():
        direction, h = rng.normal(size=case.params[weight].shape), 1e-5
        up, down = (loss(**{weight: case.params[weight] + sign * h * direction}) for sign in (1, -1))
        along = float((values[f"d:{weight}"] * direction).sum())
        assert abs((up - down) / (2 * h) - along) < 1e-7 * max(1, abs(along)), weight


def test_forward_alone_is_not_enough():
    """A switch that is thrown forward only gives gradients of another model: the check above sees it."""
    case = toy.lively()
    rules = step.rules() | {"relu": {"formula": "x"}}
    wrong = evaluate(rules, step.stages(), step.leaf_axes(), step.sizes(case), step.leaves(case, 0.01))
    right = step.run(case, 0.01, step.Switches(relu=False))
    assert wrong["loss"] == right["loss"]
    assert np.abs(wrong["d:decoder.0.feed_forward.w_1"] - right["d:decoder.0.feed_forward.w_1"]).max() > 1e-3


@pytest.mark.parametrize("case", [toy.generic(), replace(toy.lively(), target_lengths=np.array([1]))])
def test_an_example_that_the_stages_do_not_describe_is_refused(case):
    with pytest.raises(ValueError, match="case must hold one sentence pair"):
        step.leaves(case, 0.01)
