import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs

MASKS = [(2, None), (3, None), (4, None), (3, (True, False, True)), (4, (False, True, True, False))]


@pytest.mark.parametrize(("n", "allowed"), MASKS)
def test_softmax(n, allowed, rng, assert_proved, assert_agrees):
    derived = bs.softmax.softmax_derivation(n, allowed)
    assert_proved(derived)
    x, dy = rng.normal(size=(1, n)), rng.normal(size=(1, n))
    _, cache = bn.softmax.softmax(x, None if allowed is None else np.array(allowed))
    assert_agrees(derived["dx"].numeric(x=x, dy=dy), bn.softmax.softmax_backward(dy, cache)[0])
    columns = [bn.softmax.softmax_backward(e[None], cache)[0][0] for e in np.eye(n)]
    assert_agrees(derived["jacobian"].numeric(x=x), columns)


@pytest.mark.parametrize("n", [2, 4])
def test_sympy_reaches_the_rule_by_itself(n):
    """Rewritten in p the Jacobian is p_i (δ_ij − p_j) as it stands, with no use of what p stands for."""
    derived = bs.softmax.softmax_derivation(n)
    for derivation in derived.values():
        assert sp.expand(derivation.simplified - derivation.textbook).is_zero_matrix


def test_a_masked_entry_neither_moves_nor_is_moved():
    jacobian = bs.softmax.softmax_derivation(3, (True, False, True))["jacobian"].derivative
    assert jacobian[1, :].is_zero_matrix and jacobian[:, 1].is_zero_matrix
    assert bs.softmax.softmax_derivation(2, (False, False))["dx"].derivative.is_zero_matrix


def test_numbers_and_symbols_agree():
    numbers = sp.Matrix([[0, 2 * sp.sqrt(2)]])
    a, b = bs.softmax.softmax(numbers)
    assert b == 1 / (1 + sp.exp(-2 * sp.sqrt(2)))
    assert sp.simplify(a + b) == 1
    assert bs.softmax.softmax(numbers, [(False, False)]).is_zero_matrix
