from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs
from byhand import Config, toy
from byhand.parameters import encoder_decoder_shapes

CASES = {"document": lambda: toy.document(exact=True), "lively": toy.lively, "exact": toy.exact}


def by_hand(case):
    """Every gradient of the NumPy floor, at the floats nearest to the case's parameters."""
    params = {name: np.array(case.params[name].tolist(), dtype=float).reshape(shape) for name, shape in encoder_decoder_shapes(case.config).items()}
    out = bn.transformer.forward(params, case.config, case.source, case.decoder_input, case.source_lengths, case.target_lengths)
    _, dlogits = bn.loss.cross_entropy(out.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)
    return params, bn.transformer.backward(dlogits, out.cache)


def sampled(gradients, entries, seed=0):
    """Some entries of every parameter."""
    rng = np.random.default_rng(seed)
    for name, gradient in gradients.items():
        for flat in rng.choice(gradient.size, min(entries, gradient.size), replace=False):
            yield name, tuple(map(int, np.unravel_index(flat, gradient.shape)))


def worst(case, expected, entries):
    """The largest disagreement by DESIGN.md's measure over the sampled entries."""

    def disagreement(name, index):
        return abs(float(bs.witness(case, name, index)) - expected[name][index]) / max(np.abs(expected[name]).max(), 1e-3)

    return max(disagreement(name, index) for name, index in sampled(expected, entries))


@pytest.mark.parametrize("entries", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_numpy_by_hand(name, entries):
    case = CASES[name]()
    _, expected = by_hand(case)
    assert worst(case, expected, entries) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_torch_autograd(name):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from byhand.torch import loss, transformer

    case = CASES[name]()
    params, _ = by_hand(case)
    module = transformer.Transformer(case.config).load_params(params)
    loss.cross_entropy(module(case.source, case.decoder_input), case.targets, case.smoothing, reduction=case.reduction).backward()
    assert worst(case, module.grads(), 1) < 1e-12


def test_batches_padding_two_layers_and_tied_weights():
    """Sizes all different, a key's padding, a repeated token; the tied table gets both its gradients."""
    config = Config(d_model=4, n_heads=2, d_k=1, d_v=3, d_ff=5, n_layers=2, source_vocab=3, target_vocab=5, tied=True)
    rng = np.random.default_rng(3)
    params = {name: rng.normal(0.5, 0.7, shape) for name, shape in encoder_decoder_shapes(config).items()}
    case = toy.Case(
        config, params, np.array([[0, 2, 2], [1, 0, 1]]), np.array([[0, 1], [4, 4]]), np.array([[1, 2], [3, 0]]),
        source_lengths=np.array([3, 2]), target_lengths=np.array([2, 1]), reduction="mean", smoothing=0.1, names={},
    )  # fmt: skip
    _, expected = by_hand(case)
    assert "output.w" not in expected
    assert worst(case, expected, 1) < 1e-12


@pytest.mark.parametrize("every", [21, pytest.param(1, marks=pytest.mark.slow)], ids=["a sample", "all"])
def test_generic(every):
    case = toy.generic()
    _, expected = by_hand(case)
    assert worst(case, {name: expected[name] for name in list(expected)[::every]}, 1) < 1e-12


def test_what_toy_md_says_of_the_document():
    case = CASES["document"]()
    source = bs.witnesses(case, "source_embedding")
    assert np.round(np.array(source.tolist(), dtype=float), 6).tolist() == [
        [-0.164921, 0.050725, 0.164921, -0.050725],
        [0.050725, -0.164921, -0.050725, 0.164921],
    ]
    assert round(abs(bs.witness(case, "encoder.0.self_attention.w_q", (2, 1))), 6) == sp.Float("0.004255", 30).round(6)
    assert round(abs(bs.witness(case, "decoder.0.cross_attention.w_q", (0, 0))), 6) == sp.Float("0.013544", 30).round(6)


HIDDEN = [("decoder.0.self_attention.w_q", (0, 1)), ("decoder.0.self_attention.w_k", (3, 2)), ("encoder.0.feed_forward.b_2", 1)]


@pytest.mark.parametrize(("parameter", "index"), HIDDEN)
def test_what_symmetry_hides_is_exactly_zero(parameter, index):
    assert bs.witness(CASES["document"](), parameter, index, digits=60) == 0


def test_closed_form_at_the_output():
    case, e = CASES["document"](), sp.E
    closed = bs.witness(case, "output.w", (0, 0), digits=None)
    assert sp.simplify(closed - (39 * e**2 - 2 * e - 1) / (40 * (1 + 2 * e + e**2))) == 0
    assert abs(bs.witness(case, "output.w", (0, 0), digits=40) - closed.evalf(45)) < sp.Float("1e-40")


PLACES = [
    ("lively", "source_embedding", (0, 2)),
    ("lively", "encoder.0.norm_1.gamma", 3),
    ("document", "encoder.0.feed_forward.w_1", (0, 1)),
    ("exact", "output.b", 2),
]


@pytest.mark.parametrize(("name", "parameter", "index"), PLACES)
def test_thirty_digits_are_right(name, parameter, index):
    """Central differences of the loss itself, with enough digits that their own error is far below the thirtieth."""
    case, place = CASES[name](), (0, index) if isinstance(index, int) else index
    h = sp.Rational(1, 10**25)

    def loss_at(step):
        params = bs.exact.parameters(case.params)
        params[parameter] = params[parameter] + sp.Matrix(*params[parameter].shape, lambda i, j: step if (i, j) == place else 0)
        logits = bs.transformer.forward(params, case.config, case.source, case.decoder_input, digits=90).logits[0]
        p = logits.applyfunc(sp.exp)
        losses = []
        for t, target in enumerate(case.targets[0]):
            q = bs.loss.smoothed_targets(target, logits.cols, case.smoothing)
            losses.append(-sum(q[k] * sp.log(p[t, k] / sum(p[t, :])) for k in range(logits.cols)))
        return losses[-1] if case.reduction == "last" else sum(losses) / len(losses)

    difference = (loss_at(h) - loss_at(-h)) / (2 * h)
    found = bs.witness(case, parameter, index, digits=32)
    assert abs(difference - found) < abs(found) * sp.Float("1e-30")


def test_bad_input():
    case = toy.lively()
    with pytest.raises(ValueError, match="parameter was 'w'"):
        bs.witness(case, "w", (0, 0))
    with pytest.raises(ValueError, match="parameter was 'w'"):
        bs.witnesses(case, "w")
    with pytest.raises(IndexError, match=r"index was \(0, 4\)"):
        bs.witness(case, "output.w", (0, 4))
    with pytest.raises(IndexError, match="index was 4"):
        bs.witness(case, "output.b", 4)
    with pytest.raises(ValueError, match="digits was 0"):
        bs.witness(case, "output.b", 0, digits=0)
    with pytest.raises(ValueError, match="norm was 'pre'"):
        bs.witness(replace(case, config=replace(case.config, norm="pre")), "output.b", 0)
