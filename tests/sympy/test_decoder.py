from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs
from byhand import Config, toy
from byhand.parameters import decoder_shapes


def floats(value):
    return np.array([floats(part) for part in value]) if isinstance(value, tuple) else np.array(value.evalf(20).tolist(), dtype=float)


def worst(case, entries, seed=0):
    """The largest disagreement of the exact derivative with the hand-written one, by DESIGN.md's measure."""
    grads, rng, found = bn.step.run(case).gradients.params, np.random.default_rng(seed), []
    for name, gradient in grads.items():
        for flat in rng.choice(gradient.size, min(entries, gradient.size), replace=False):
            place = tuple(map(int, np.unravel_index(flat, gradient.shape)))
            found.append(abs(float(bs.witness(case, name, place)) - gradient[place]) / max(np.abs(gradient).max(), 1e-3))
    return max(found)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_forward_has_numpys_stages(norm, assert_agrees):
    case = toy.block(norm)
    ours = bn.step.run(case).output
    out = bs.decoder.forward(case.params, case.config, case.decoder_input, digits=30)
    assert list(out.activations) == list(ours.activations)
    for name, value in out.activations.items():
        assert_agrees(floats(value), ours.activations[name])


def test_gqa_rope_rms_swiglu_and_padding(assert_agrees):
    case = toy.decoder()
    ours = bn.step.run(case).output
    out = bs.decoder.forward(case.params, case.config, case.decoder_input[1:2], case.target_lengths[1:2], digits=20)
    assert list(out.activations) == list(ours.activations)
    for name, value in out.activations.items():
        assert_agrees(floats(value), ours.activations[name][1:2])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_parameter_of_the_block(norm):
    assert worst(toy.block(norm), 2) < 1e-12


@pytest.mark.parametrize(
    "choices",
    [
        dict(norm="pre", norm_kind="rms", positions="rope", activation="swiglu", n_kv_heads=1, tied=True),
        dict(norm="post", norm_kind="rms", positions="sinusoidal", activation="gelu_tanh", pairing="half", biases=()),
        dict(norm="pre", norm_kind="layer", positions="rope", activation="gelu", tied=True, pairing="half", biases=("attention", "feed_forward")),
        dict(norm="pre", positions="learned", max_length=4, scaled=False, tied=True, biases=("attention", "feed_forward")),
    ],
    ids=["rms-rope-swiglu", "post-gelu_tanh", "layer-rope-gelu", "learned"],
)
def test_every_choice(choices):
    """Two blocks, a padded row, a repeated token, γ ≠ 1 and β ≠ 0."""
    config = Config(d_model=4, n_heads=2, d_ff=3, n_layers=2, source_vocab=1, target_vocab=5, **choices)
    rng = np.random.default_rng(3)
    params = {name: rng.normal(0.4, 0.7, shape) for name, shape in decoder_shapes(config).items()}
    case = toy.Case(
        config, params, None, np.array([[0, 2, 2], [4, 1, 0]]), np.array([[2, 2, 3], [1, 0, 0]]),
        source_lengths=None, target_lengths=np.array([3, 2]), reduction="mean", smoothing=0.1, names={},
    )  # fmt: skip
    assert worst(case, 1) < 1e-12


def test_bad_input():
    case = toy.block()
    with pytest.raises(ValueError, match="'norm.beta' is missing"):
        bs.decoder.forward({name: v for name, v in case.params.items() if name != "norm.beta"}, case.config, case.decoder_input)
    with pytest.raises(ValueError, match="'norm.beta' had shape"):
        bs.decoder.forward(case.params | {"norm.beta": np.ones(3)}, case.config, case.decoder_input)
    with pytest.raises(ValueError, match="lengths held 4"):
        bs.decoder.forward(case.params, case.config, case.decoder_input, [4])
    with pytest.raises(IndexError, match="token 7"):
        bs.decoder.forward(case.params, case.config, [[0, 7]])
    assert isinstance(bs.decoder.forward(case.params, replace(case.config), [[0]], digits=5).logits[0], sp.MatrixBase)
