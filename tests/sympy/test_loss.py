import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs

SCORED = [(2, (1,), "mean"), (4, (2,), "last"), (3, (0, 2), "mean"), (3, (1, 1), "sum"), (3, (0, 2), "last")]


@pytest.mark.parametrize(("vocab", "targets", "reduction"), SCORED)
def test_p_minus_q(vocab, targets, reduction, rng, assert_proved, assert_agrees):
    derived = bs.loss.cross_entropy_derivation(vocab, targets, reduction)
    assert_proved(derived)
    logits = rng.normal(size=(1, len(targets), vocab))
    _, dlogits = bn.loss.cross_entropy(logits, np.array([targets]), smoothing=0.1, reduction=reduction)
    assert_agrees(derived["dlogits"].numeric(logits=logits, smoothing=0.1), dlogits)


def test_sympy_reaches_p_minus_q_by_itself():
    derivation = bs.loss.cross_entropy_derivation(4, (2,))["dlogits"]
    assert sp.expand(derivation.simplified - derivation.textbook).is_zero_matrix


def test_the_gradient_sums_to_zero():
    derivative = bs.loss.cross_entropy_derivation(3, (1,))["dlogits"].derivative
    assert sp.simplify(sum(derivative)) == 0


@pytest.mark.parametrize("reduction", bn.loss.REDUCTIONS)
def test_exact_loss_of_a_batch_with_padding(reduction, assert_agrees):
    logits = np.array([[[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [[0.0, -1.0], [3.0, 0.0], [5.0, 0.0]]])
    targets, choices = np.array([[0, -1, 1], [1, 1, 0]]), {"ignore_index": -1, "lengths": np.array([3, 2]), "reduction": reduction}
    expected, dexpected = bn.loss.cross_entropy(logits, targets, 0.1, **choices)
    exact = [sp.Matrix(row).applyfunc(sp.Integer) for row in logits.tolist()]
    value, dlogits = bs.loss.cross_entropy(exact, targets, 0.1, **choices)
    assert_agrees(value.evalf(20), expected)
    assert_agrees([np.array(z.evalf(20).tolist(), dtype=float) for z in dlogits], dexpected)


def test_bad_input():
    z = [sp.zeros(1, 3)]
    with pytest.raises(ValueError, match="smoothing was 1"):
        bs.loss.cross_entropy(z, [[0]], smoothing=1)
    with pytest.raises(ValueError, match="reduction was 'first'"):
        bs.loss.cross_entropy(z, [[0]], reduction="first")
    with pytest.raises(ValueError, match="no position to score"):
        bs.loss.cross_entropy(z, [[0]], ignore_index=0)
    with pytest.raises(IndexError, match="class 3"):
        bs.loss.cross_entropy(z, [[3]])
