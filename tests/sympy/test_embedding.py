import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


@pytest.mark.parametrize(("tokens", "vocab", "d_model", "scaled"), [((0, 1, 0), 3, 2, True), ((2, 2, 1, 2), 4, 3, True), ((0, 1, 0), 3, 2, False)])
def test_embedding_adds_repeated_tokens(tokens, vocab, d_model, scaled, rng, assert_proved, assert_agrees):
    derived = bs.embedding.embedding_derivation(tokens, vocab, d_model, scaled)
    assert_proved(derived)
    table, dy = rng.normal(size=(vocab, d_model)), rng.normal(size=(1, len(tokens), d_model))
    _, grads = bn.embedding.embedding_backward(dy, bn.embedding.embedding(np.array([tokens]), table, scaled)[1])
    found = derived["dtable"].numeric(table=table, dy=dy)
    assert_agrees(found, grads["table"])
    for row in set(range(vocab)) - set(tokens):
        assert not found[row].any()


def test_embedding_scales_exactly():
    table = sp.Matrix([[sp.Rational(1, 2), 0, 0], [1, 2, 3]])
    assert bs.embedding.embedding(table, (1, 0))[1, 0] == sp.sqrt(3) / 2
    with pytest.raises(IndexError, match="token 2"):
        bs.embedding.embedding(table, (0, 2))
