import pytest
import torch

from byhand.numpy import softmax as np_softmax
from byhand.torch.softmax import softmax


@pytest.mark.parametrize("masked", [False, True])
def test_softmax_agrees_with_numpy(draw_tensor, differ, masked):
    x, dy = draw_tensor(4, 5), draw_tensor(4, 5).detach()
    mask = (torch.arange(20).reshape(4, 5) % 3 > 0) & (torch.arange(4) != 2)[:, None] if masked else None
    y, cache = np_softmax.softmax(x.detach().numpy(), None if mask is None else mask.numpy())
    dx, _ = np_softmax.softmax_backward(dy.numpy(), cache)
    mine = softmax(x, mask)
    assert differ(mine, y) < 1e-14
    assert differ(torch.autograd.grad(mine, x, dy)[0], dx) < 1e-13
    if masked:
        assert (mine[2] == 0).all() and (mine[~mask] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_large_scores_stay_finite(dtype):
    x = torch.tensor([[3e4, 0.0], [-3e4, -3e4]], dtype=dtype)
    assert softmax(x, torch.tensor([[True, True], [False, True]])).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_last_axis_counts():
    assert softmax(torch.zeros(4)).tolist() == [0.25] * 4 and softmax(torch.zeros(2, 0, 3)).shape == (2, 0, 3)
    with pytest.raises(ValueError, match=r"x had shape \(2, 3, 0\)"):
        softmax(torch.zeros(2, 3, 0))
