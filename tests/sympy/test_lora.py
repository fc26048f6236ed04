from dataclasses import replace

import pytest

import byhand.numpy as bn
import byhand.sympy as bs


@pytest.mark.parametrize("sizes", [(2, 3, 2, 1), (1, 3, 4, 2)])
def test_lora(sizes, rng, assert_proved, assert_agrees):
    rows, d_in, d_out, rank = sizes
    derived = bs.lora.lora_derivation(*sizes)
    assert_proved(derived)
    shapes = {"x": (rows, d_in), "w": (d_in, d_out), "a": (d_in, rank), "b": (rank, d_out)}
    values, dy = {name: rng.normal(size=shape) for name, shape in shapes.items()}, rng.normal(size=(rows, d_out))
    dx, grads = bn.lora.lora_backward(dy, bn.lora.lora(**values, alpha=3.0)[1])
    for name, expected in {"dx": dx, "da": grads["a"], "db": grads["b"]}.items():
        assert_agrees(derived[name].numeric(**values, alpha=3.0, dy=dy), expected)


def test_a_rule_without_its_scale_does_not_pass():
    derived = bs.lora.lora_derivation()["db"]
    x, a, dy = (derived.inputs[name] for name in ("x", "a", "dy"))
    assert not replace(derived, textbook=(x * a).T * dy).difference_is_zero
