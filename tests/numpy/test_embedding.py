import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.numpy.embedding import embedding, embedding_backward

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


@given(batch=sizes, time=sizes, vocab=sizes, d_model=sizes, scaled=st.booleans(), seed=seeds)
def test_against_pytorch_and_central_differences(prove, batch, time, vocab, d_model, scaled, seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, vocab, (batch, time))  # few tokens, many places: most are repeated

    def by_pytorch(table):
        import torch

        y = torch.nn.functional.embedding(torch.tensor(tokens), table)
        return y * d_model**0.5 if scaled else y

    def backward(dy, cache):
        nothing, grads = embedding_backward(dy, cache)
        assert nothing is None
        return grads

    prove(lambda table: embedding(tokens, table, scaled), backward, by_pytorch, {"table": rng.normal(size=(vocab, d_model))}, seed)


def test_a_repeated_token_adds_its_gradients_and_an_absent_one_gets_none():
    tokens = np.array([[1, 1, 1], [0, 1, 0]])
    y, cache = embedding(tokens, np.zeros((3, 4)))
    _, grads = embedding_backward(np.ones_like(y), cache)
    assert grads["table"].tolist() == [[4.0] * 4, [8.0] * 4, [0.0] * 4]  # √4 times how often each stands there


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
def test_any_integer_type_is_a_token(kind):
    y, _ = embedding(np.array([[1, 0]], dtype=kind), np.eye(2))
    assert y.shape == (1, 2, 2)


@pytest.mark.parametrize("tokens", [[[0, 3]], [[-1, 0]]])
def test_a_token_outside_the_vocabulary(tokens):
    with pytest.raises(IndexError, match=r"tokens held the token (3|-1); it must lie in \[0, 3\)"):
        embedding(np.array(tokens), np.zeros((3, 2)))


@pytest.mark.parametrize("tokens", [np.array([[0.0, 1.0]]), np.array([[True, False]]), [[0, 1]]])
def test_tokens_that_are_not_integers(tokens):
    with pytest.raises(ValueError, match="tokens was (float64|bool|list); it must be a NumPy array of integers"):
        embedding(tokens, np.zeros((3, 2)))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (3,), (1, 2, 3)])
def test_an_empty_or_misshapen_batch(shape):
    with pytest.raises(ValueError, match=r"tokens had shape .*; it must be \(batch, time\), neither of them 0"):
        embedding(np.zeros(shape, int), np.zeros((3, 2)))


def test_a_table_that_is_not_finite():
    with pytest.raises(ValueError, match=r"table held nan at \(1, 0\)"):
        embedding(np.array([[0]]), np.array([[1.0], [np.nan]]))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3,)])
def test_a_table_without_rows_or_columns(shape):
    with pytest.raises(ValueError, match=r"table had shape .*; it must be \(vocab, d_model\), neither of them 0"):
        embedding(np.zeros((1, 1), int), np.zeros(shape))
