import pytest
import torch

from byhand.numpy import embedding as np_embedding
from byhand.torch.embedding import embedding, table


def test_embedding_agrees_with_numpy_and_sums_a_repeated_token(draw_tensor, differ):
    tokens, table, dy = torch.tensor([[1, 1, 3], [0, 1, 3]]), draw_tensor(5, 6), draw_tensor(2, 3, 6).detach()
    y, cache = np_embedding.embedding(tokens.numpy(), table.detach().numpy())
    _, grads = np_embedding.embedding_backward(dy.numpy(), cache)
    mine = embedding(tokens, table)
    assert differ(mine, y) < 1e-14
    (gradient,) = torch.autograd.grad(mine, table, dy)
    assert differ(gradient, grads["table"]) < 1e-14
    assert (gradient[[2, 4]] == 0).all()


@pytest.mark.parametrize("d_model", [16, 400])
def test_a_table_starts_so_that_a_scaled_row_has_entries_of_size_1(d_model):
    torch.manual_seed(0)
    rows = embedding(torch.arange(100)[None], table(100, d_model)).detach()[0]
    assert rows.shape == (100, d_model) and abs(rows.mean()) < 0.1 and abs(rows.std() - 1) < 0.1


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3,), (2, 3, 4)])
def test_no_table(shape):
    with pytest.raises(ValueError, match=r"table had shape .*; it must be \(vocab, d_model\), neither of them 0"):
        embedding(torch.tensor([[0]]), torch.ones(*shape))
    with pytest.raises(ValueError, match=r"tokens had shape .*; it must be \(batch, time\), neither of them 0"):
        embedding(torch.zeros(*shape, dtype=torch.int64), torch.ones(3, 2))
