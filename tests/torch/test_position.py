import numpy as np
import pytest
import torch

from byhand.numpy import position as np_position
from byhand.torch.position import _angles_on, rope, sinusoidal, sinusoids


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_sinusoidal_agrees_with_numpy(pairing):
    ours = np_position.sinusoidal(50, 6, pairing)
    np.testing.assert_allclose(sinusoidal(50, 6, torch.float64, pairing=pairing), ours, rtol=0, atol=1e-14)
    assert sinusoidal(3, 4).dtype == torch.float32


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_rope_turns_each_pair_by_its_angle(draw_tensor, pairing):
    x = draw_tensor(5, 6)
    y = rope(x, positions=torch.tensor([0, 1, 2, 7, 100]), base=1000.0, pairing=pairing)
    torch.testing.assert_close(y[0], x[0])
    for i in range(3):
        a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + 3)
        turned = torch.complex(x[:, a], x[:, b]) * torch.polar(
            torch.ones(5, dtype=torch.float64), torch.tensor([pos * 1000.0 ** (-2 * i / 6) for pos in (0, 1, 2, 7, 100)], dtype=torch.float64)
        )
        torch.testing.assert_close(torch.complex(y[:, a], y[:, b]), turned)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6), (2, 3, 5, 6), (2, 3, 4, 5, 6)], ids=str)
@pytest.mark.parametrize("rows", [None, (5,), (2, 5)], ids=str)
def test_rope_agrees_with_numpy(rng, draw_tensor, differ, shape, rows, pairing):
    if rows == (2, 5) and len(shape) < 3:
        return
    x, positions = draw_tensor(*shape), None if rows is None else rng.integers(0, 50, rows)
    wanted, _ = np_position.rope(x.detach().numpy(), positions, pairing=pairing)
    assert differ(rope(x, None if rows is None else torch.tensor(positions), pairing=pairing), wanted) < 1e-13


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_rope_makes_scores_depend_on_the_distance_alone(draw_tensor, pairing):
    q, k = draw_tensor(1, 8), draw_tensor(1, 8)

    def score(m, n):
        return (rope(q, torch.tensor([m]), pairing=pairing) * rope(k, torch.tensor([n]), pairing=pairing)).sum()

    torch.testing.assert_close(score(9, 4), score(105, 100))
    assert not torch.isclose(score(9, 4), score(9, 5), rtol=1e-3)


def test_rope_refuses_what_cannot_be_paired():
    with pytest.raises(ValueError, match=r"x had shape \(2, 3\); .* even d_k"):
        rope(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="pairing was 'both'"):
        rope(torch.zeros(2, 4), pairing="both")


@pytest.mark.parametrize(("device", "angles"), [("cpu", "cpu"), ("mps", "cpu"), ("cuda", "cuda"), ("xpu", "xpu"), ("meta", "meta"), (None, "cpu")])
def test_angles_are_worked_where_there_is_float64(device, angles):
    assert _angles_on(None if device is None else torch.device(device)).type == angles


def test_positions_that_are_none_or_not_there():
    assert sinusoids(torch.zeros(0, dtype=torch.int64), 4, torch.float64).shape == (0, 4)
    assert sinusoids(torch.tensor(3), 4, torch.float64).tolist() == sinusoidal(4, 4, torch.float64)[3].tolist()
    x, places = torch.zeros(2, 3, 4, device="meta"), torch.zeros(3, dtype=torch.int64, device="meta")
    assert rope(x, places).shape == x.shape and sinusoids(places, 4, torch.float64).device.type == "meta"
    for bad in (torch.tensor([0, -1, 2]), [0.5, 1.0, 2.0]):
        with pytest.raises(ValueError, match="positions (held -1|had dtype torch.float32|was list)"):
            rope(torch.zeros(2, 3, 4), bad)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_a_table_of_whole_numbers_is_none(dtype):
    with pytest.raises(ValueError, match="dtype was torch.* it must be a floating-point dtype"):
        sinusoidal(3, 4, dtype)
