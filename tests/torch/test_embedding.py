import torch

from byhand.numpy import embedding as np_embedding
from byhand.torch.embedding import embedding


def test_embedding_agrees_with_numpy_and_sums_a_repeated_token(draw_tensor, differ):
    tokens, table, dy = torch.tensor([[1, 1, 3], [0, 1, 3]]), draw_tensor(5, 6), draw_tensor(2, 3, 6).detach()
    y, cache = np_embedding.embedding(tokens.numpy(), table.detach().numpy())
    _, grads = np_embedding.embedding_backward(dy.numpy(), cache)
    mine = embedding(tokens, table)
    assert differ(mine, y) < 1e-14
    (gradient,) = torch.autograd.grad(mine, table, dy)
    assert differ(gradient, grads["table"]) < 1e-14
    assert (gradient[[2, 4]] == 0).all()
