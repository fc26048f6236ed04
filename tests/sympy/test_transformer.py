import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs
from byhand import Config, toy
from byhand.parameters import encoder_decoder_shapes

ROOT = sp.sqrt(2)


@pytest.fixture(scope="module")
def document():
    case = toy.document(exact=True)
    return case, bs.transformer.forward(case.params, case.config, case.source, case.decoder_input)


def equal(a, b):
    return sp.simplify(a - b) == 0


def test_the_closed_forms_of_the_document(document):
    case, out = document
    stage = out.activations
    weights = stage["encoder.0.self_attention.weights"][0][0]
    assert weights[0, 0] == 1 / (1 + sp.exp(-2 * ROOT))  # in this form, not only of this value
    assert stage["encoder.memory"][0] == sp.Matrix([[1, -1, 1, -1], [-1, 1, -1, 1]])
    assert stage["decoder.0.self_attention.weights"][0][1][1, :] == sp.Matrix([[sp.Rational(1, 2)] * 2])
    assert stage["decoder.0.norm_1.out"][0] == sp.Matrix([[1, 1, -1, -1], [-1, -1, 1, 1]])
    mixed = stage["decoder.0.cross_attention.mixed"][0]
    assert mixed[0] == sp.tanh(ROOT) * sp.Matrix([[1, -1], [-1, 1]]) and mixed[1] == -mixed[0]
    t = sp.tanh(ROOT)
    assert equal(stage["decoder.0.norm_2.out"][0][1, 0], -(1 + t) / sp.sqrt(1 + t**2))
    assert stage["decoder.out"][0] == sp.Matrix([[-1, 0, 1, 0], [1, 0, -1, 0]])

    last, dlogits = bs.loss.cross_entropy(out.logits, case.targets, case.smoothing, reduction=case.reduction)
    assert last == 2 * sp.log(1 + sp.E) - sp.Rational(1, 10)
    assert abs(sp.N(last - (sp.Rational(9, 10) + sp.log(2 + 2 * sp.cosh(1))), 40, chop=True)) < 1e-35
    mean, _ = bs.loss.cross_entropy(out.logits, case.targets, case.smoothing, reduction="mean")
    assert mean == 2 * sp.log(1 + sp.E) - sp.Rational(11, 20)
    e = sp.E
    assert equal(dlogits[0][1, 0], (39 * e**2 - 2 * e - 1) / (40 * (1 + 2 * e + e**2)))
    assert dlogits[0][0, :].is_zero_matrix and equal(sum(dlogits[0]), 0)


def numbers(value):
    return np.array([numbers(part) for part in value]) if isinstance(value, tuple) else np.array(value.evalf(20).tolist(), dtype=float)


def assert_stages(out, case, assert_agrees):
    """Same names, shapes and values as the NumPy floor's."""
    expected = bn.transformer.forward(case.params, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    assert list(out.activations) == list(expected.activations)
    for name, value in out.activations.items():
        assert_agrees(numbers(value), expected.activations[name])
    assert_agrees(numbers(out.logits), expected.logits)


def test_every_stage_of_the_document(document, assert_agrees):
    assert_stages(document[1], toy.document(), assert_agrees)


@pytest.mark.parametrize("name", ["exact", "lively"])
def test_every_stage_to_many_digits(name, assert_agrees):
    case = getattr(toy, name)()
    out = bs.transformer.forward(case.params, case.config, case.source, case.decoder_input, digits=30)
    assert_stages(out, case, assert_agrees)
    finer = bs.transformer.forward(case.params, case.config, case.source, case.decoder_input, digits=45)
    for coarse, fine in zip(out.logits[0], finer.logits[0]):
        assert abs(sp.Float(coarse, 45) - fine) < sp.Float("1e-29")


def test_one_table_for_all_three_half_sines_and_biases_everywhere(assert_agrees):
    """And the gradient of an entry of the table, which was used three times, and of a bias of each room."""
    config = Config(
        4, 2, 3, 1, 5, 5, shared=True, tied=True, scaled=False, pairing="half", biases=("attention", "feed_forward", "output")
    )  # fmt: skip
    rng = np.random.default_rng(0)
    params = {name: rng.normal(0.4, 0.7, shape) for name, shape in encoder_decoder_shapes(config).items()}
    case = toy.Case(
        config, params, np.array([[1, 2, 1], [4, 0, 0]]), np.array([[0, 2], [3, 1]]), np.array([[2, 4], [1, 0]]),
        np.array([3, 2]), np.array([2, 1]), reduction="mean", smoothing=0.1, names={},
    )  # fmt: skip
    out = bs.transformer.forward(params, config, case.source, case.decoder_input, case.source_lengths, case.target_lengths, digits=20)
    assert_stages(out, case, assert_agrees)
    grads = bn.step.run(case).gradients.params
    for name, place in (("embedding", (1, 2)), ("decoder.0.cross_attention.b_v", (1,)), ("encoder.0.self_attention.b_q", (3,)), ("output.b", (2,))):
        assert abs(float(bs.witness(case, name, place)) - grads[name][place]) < 1e-12 * max(np.abs(grads[name]).max(), 1e-3)


@pytest.mark.parametrize("change", [{"norm": "pre"}, {"norm_kind": "rms"}, {"activation": "gelu"}, {"positions": "rope"}])
def test_other_models_are_refused(change):
    (name, value), case = *change.items(), toy.lively()
    config = Config(4, 2, 8, 1, 2, 4, **change)
    with pytest.raises(ValueError, match=f"{name} was '{value}'"):
        bs.transformer.forward(case.params, config, case.source, case.decoder_input)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda params: params.pop("output.b"), "'output.b' is missing"),
        (lambda params: params.update({"output.c": np.ones(4)}), "'output.c' is unknown"),
        (lambda params: params.update({"output.b": np.ones(3)}), r"'output.b' had shape \(1, 3\); it must be \(1, 4\)"),
        (lambda params: params.update({"output.b": np.full(4, np.nan)}), "must be finite"),
    ],
)
def test_bad_parameters(change, message):
    case = toy.lively()
    change(case.params)
    with pytest.raises(ValueError, match=message):
        bs.transformer.forward(case.params, case.config, case.source, case.decoder_input, digits=5)
    with pytest.raises(ValueError, match=message):
        bs.witness(case, "output.w", (0, 0))


def test_bad_tokens_and_lengths():
    case = toy.lively()
    with pytest.raises(IndexError, match="token 7"):
        bs.transformer.forward(case.params, case.config, [[0, 7]], case.decoder_input, digits=5)
    with pytest.raises(ValueError, match="source_lengths held 4"):
        bs.transformer.forward(case.params, case.config, case.source, case.decoder_input, source_lengths=[4], digits=5)


@pytest.mark.parametrize("digits", [None, 20])
def test_a_constant_row_under_eps_0(digits):
    case = toy.document(exact=True)
    params = case.params | {"source_embedding": sp.ones(2, 4)}
    with pytest.raises(ValueError, match="constant"):
        bs.transformer.forward(params, case.config, case.source, case.decoder_input, digits=digits)
