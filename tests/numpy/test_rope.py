"""Both pairings of rope against definitions of their own: complex numbers, and rotation matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.position import rope, rope_backward, sinusoidal, sinusoids

seeds = st.integers(0, 2**32 - 1)
pairings = pytest.mark.parametrize("pairing", ["interleaved", "half"])


def _angles(positions, d, base=10000.0):
    return np.array([[pos / base ** (2 * i / d) for i in range(d // 2)] for pos in positions])


def _by_complex_numbers(x, positions, base):
    """Neighbours as real and imaginary part, times e^(iθ)."""
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * _angles(positions, x.shape[-1], base))
    return np.stack((z.real, z.imag), -1).reshape(x.shape)


def _by_half_turn(x, positions, base):
    """x cos + turned sin, where turned swaps the halves and negates the first: how the models with this pairing write it."""
    half = x.shape[-1] // 2
    angles = np.tile(_angles(positions, x.shape[-1], base), 2)
    turned = np.concatenate((-x[..., half:], x[..., :half]), -1)
    return x * np.cos(angles) + turned * np.sin(angles)


DEFINITIONS = {"interleaved": _by_complex_numbers, "half": _by_half_turn}


@pairings
@given(pairs=st.integers(1, 4), time=st.integers(1, 5), base=st.sampled_from((10000.0, 500000.0, 2.0)), seed=seeds)
def test_against_a_definition_of_its_own(pairing, pairs, time, base, seed):
    rng = np.random.default_rng(seed)
    x, positions = rng.normal(size=(2, 3, time, 2 * pairs)), rng.integers(0, 9000, time)
    y, _ = rope(x, positions, base, pairing)
    assert agreement(y, DEFINITIONS[pairing](x, positions, base)) < 1e-11  # 9000 radians have lost four digits


@pairings
@given(pairs=st.integers(1, 3), time=st.integers(1, 4), seed=seeds)
def test_against_pytorch_and_central_differences(prove, pairing, pairs, time, seed):
    import torch

    rng = np.random.default_rng(seed)
    x, positions = rng.normal(size=(2, time, 2 * pairs)), rng.integers(0, 50, time)
    turn = torch.polar(torch.ones(time, pairs, dtype=torch.float64), torch.tensor(_angles(positions, 2 * pairs).reshape(time, pairs)))

    def by_pytorch(x):
        if pairing == "interleaved":
            return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2)
        z = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat((z.real, z.imag), -1)

    prove(lambda x: rope(x, positions, pairing=pairing), lambda dy, cache: {"x": rope_backward(dy, cache)[0]}, by_pytorch, {"x": x}, seed)


@pairings
def test_a_product_depends_on_the_difference_of_positions_alone(pairing):
    q, k = np.random.default_rng(0).normal(size=(2, 1, 8))

    def product(i, j):
        return (rope(q, [i], pairing=pairing)[0] @ rope(k, [j], pairing=pairing)[0].T).item()

    assert product(3, 1) == pytest.approx(product(103, 101), abs=1e-12)
    assert product(5, 5) == pytest.approx((q @ k.T).item(), abs=1e-12)
    assert abs(product(3, 1) - product(1, 3)) > 1e-2


@pairings
def test_backward_turns_back_and_lengths_stay(pairing):
    x = np.random.default_rng(1).normal(size=(2, 5, 6))
    y, cache = rope(x, pairing=pairing)
    assert agreement(rope_backward(y, cache)[0], x) < 1e-14
    np.testing.assert_allclose((y**2).sum(-1), (x**2).sum(-1), rtol=1e-13)
    assert (y[:, 0] == x[:, 0]).all()  # position 0 is not turned
    assert rope_backward(y, cache)[1] == {}


def test_one_pairing_is_the_other_with_the_coordinates_in_another_order():
    x = np.random.default_rng(2).normal(size=(4, 6))
    order = [0, 2, 4, 1, 3, 5]  # first coordinates of the pairs, then second ones
    assert agreement(rope(x[:, order], pairing="half")[0], rope(x)[0][:, order]) < 1e-15
    assert agreement(rope(x, pairing="half")[0], rope(x)[0]) > 0.1


def test_positions_may_differ_from_sequence_to_sequence():
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 6))
    positions = np.array([[0, 1, 2, 3], [7, 8, 9, 10]])
    y, cache = rope(x, positions)
    for row in range(2):
        assert (y[row] == rope(x[row], positions[row])[0]).all()
    assert agreement(rope_backward(y, cache)[0], x) < 1e-14


def test_a_large_position_in_float32_keeps_the_digits_of_its_angle():
    x = np.ones((1, 2), np.float32)
    y, _ = rope(x, [2**24 + 1])  # float32 cannot tell this position from the one before
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, rope(x.astype(float), [2**24 + 1])[0], atol=1e-6)


def test_sinusoids_at_chosen_positions_are_rows_of_the_table():
    positions = np.array([[4, 0], [9, 9]])
    assert (sinusoids(positions, 6) == sinusoidal(10, 6)[positions]).all()


@pytest.mark.parametrize(
    ("shape", "choices", "words"),
    [
        ((3, 5), {}, r"x had shape \(3, 5\).*even"),
        ((4,), {}, r"x had shape \(4,\)"),
        ((3, 4), {"positions": [0, -1, 2]}, "positions held -1; each must be at least 0"),
        ((3, 4), {"positions": [0, 1]}, r"positions had shape \(2,\); it must be \(3,\)"),
        ((2, 3, 4), {"positions": [[0, 1, 2]]}, r"positions had shape \(1, 3\)"),
        ((3, 4), {"positions": [0.0, 1.0, 2.0]}, "positions had dtype float64"),
        ((3, 4), {"pairing": "quarter"}, "pairing was 'quarter'; it must be one of 'interleaved', 'half'"),
        ((3, 4), {"base": 0.0}, "base was 0.0"),
    ],
)
def test_what_cannot_be_meant(shape, choices, words):
    with pytest.raises(ValueError, match=words):
        rope(np.ones(shape), **choices)


def test_what_is_not_finite():
    with pytest.raises(ValueError, match=r"x held inf at \(0, 1\)"):
        rope(np.array([[1.0, np.inf]]))
