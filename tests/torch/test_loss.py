import numpy as np
import pytest
import torch
from torch.nn import functional

from byhand.numpy import loss as np_loss
from byhand.torch.loss import cross_entropy


@pytest.mark.parametrize("reduction", ["mean", "sum", "last"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("ignore_index", [None, 2, -1])
@pytest.mark.parametrize("lengths", [None, [4, 1, 3]])
@pytest.mark.parametrize("masked", [False, True])
def test_value_and_gradient_agree_with_numpy(rng, draw_tensor, differ, reduction, smoothing, ignore_index, lengths, masked):
    logits = draw_tensor(3, 4, 5)
    targets = rng.integers(0, 5, (3, 4))
    targets[0, 3] = targets[1, 0] = 0  # something is left to score under "last"
    if ignore_index is not None:
        targets[2, :2] = ignore_index
    mask = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]], bool) if masked else None
    value, dlogits = np_loss.cross_entropy(logits.detach().numpy(), targets, smoothing, ignore_index, lengths, reduction, mask)
    mine = cross_entropy(logits, targets, smoothing, ignore_index, lengths, reduction, mask)
    assert differ(mine, value) < 1e-12
    assert differ(torch.autograd.grad(mine, logits)[0], dlogits) < 1e-12


def test_the_plain_mean_is_pytorchs(rng, draw_tensor):
    logits, targets = draw_tensor(2, 3, 7), torch.as_tensor(rng.integers(0, 7, (2, 3)))
    wanted = functional.cross_entropy(logits.transpose(1, 2), targets, label_smoothing=0.2)
    torch.testing.assert_close(cross_entropy(logits, targets, 0.2), wanted)


def test_a_padded_target_need_not_be_a_token(draw_tensor):
    assert torch.isfinite(cross_entropy(draw_tensor(1, 2, 3), np.array([[1, 99]]), lengths=[1]))


def test_without_a_look_a_mean_of_nothing_is_nan(draw_tensor):
    assert cross_entropy(draw_tensor(1, 2, 3), [[0, 0]], ignore_index=0, look=False).isnan()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(smoothing=1.0), ValueError, "smoothing was 1.0"),
        (dict(smoothing=-0.1), ValueError, "smoothing was -0.1"),
        (dict(smoothing=float("nan")), ValueError, "smoothing was nan"),
        (dict(reduction="max"), ValueError, "reduction was 'max'"),
        (dict(targets=[[0, 1, 2]]), ValueError, r"targets had shape \(1, 3\)"),
        (dict(targets=[[0.0, 1.0]]), ValueError, "targets had dtype"),
        (dict(targets=[[0, 3]]), IndexError, "targets held token 3"),
        (dict(targets=[[-1, 0]]), IndexError, "targets held token -1"),
        (dict(targets=[[-100, -100]], ignore_index=-100), ValueError, "targets leave no position to score"),
        (dict(logits=torch.zeros(1, 0, 3), targets=np.zeros((1, 0), int)), ValueError, r"targets had shape \(1, 0\)"),
        (dict(lengths=[0]), ValueError, "lengths held 0"),
        (dict(mask=[[1, 0]]), ValueError, "mask had dtype torch.int64"),
        (dict(mask=[[True]]), ValueError, r"mask had dtype torch.bool and shape \(1, 1\)"),
        (dict(mask=[[False, False]]), ValueError, "targets leave no position to score"),
        (dict(lengths=[3]), ValueError, "lengths held 3"),
        (dict(logits=torch.zeros(1, 2, 3, 1)), ValueError, r"targets had shape .* beside logits of \(1, 2, 3, 1\)"),
        *((dict(targets=no), ValueError, "targets was (str|list|object); it must hold integers") for no in ("a", [[0], [1, 2]], object())),
        *((dict(mask=no), ValueError, "mask was (str|list|object); it must be booleans") for no in ("a", [[True], [True, False]], object())),
    ],
)
def test_bad_input_is_named(change, error, message):
    with pytest.raises(error, match=message):
        cross_entropy(**(dict(logits=torch.zeros(1, 2, 3), targets=[[0, 1]]) | change))
