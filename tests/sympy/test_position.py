from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs


def test_sinusoids_are_exact(assert_agrees):
    waves = bs.position.sinusoidal(3, 4)
    assert list(waves[0, :]) == [0, 1, 0, 1]
    assert waves[2, 2] == sp.sin(sp.Rational(1, 50)) and waves[1, 1] == sp.cos(1)
    for pairing in ("interleaved", "half"):
        assert_agrees(np.array(bs.position.sinusoidal(5, 6, pairing).evalf(20).tolist(), dtype=float), bn.position.sinusoidal(5, 6, pairing))


@pytest.mark.parametrize(("length", "d_model", "name"), [(0, 4, "length"), (2, 3, "d_model")])
def test_bad_sizes(length, d_model, name):
    with pytest.raises(ValueError, match=f"{name} was"):
        bs.position.sinusoidal(length, d_model)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("d", [2, 4, 6])
def test_rope(d, pairing, rng, assert_proved, assert_agrees):
    derived = bs.position.rope_derivation(d, pairing)
    assert_proved(derived)
    x, dy, position = rng.normal(size=(1, d)), rng.normal(size=(1, d)), np.array([5])
    y, cache = bn.position.rope(x, position, pairing=pairing)
    theta = 5 * 10000.0 ** (-np.arange(0, d, 2) / d)
    assert_agrees(derived["dx"].numeric(x=x, dy=dy, theta=theta), bn.position.rope_backward(dy, cache)[0])
    ours = bs.position.rope(sp.Matrix(x), (5,), pairing=pairing)
    assert_agrees(np.array(ours.evalf(20).tolist(), dtype=float), y)


def test_rope_counts_positions_from_zero():
    x = sp.Matrix([[1, 2], [1, 2]])
    assert list(bs.position.rope(x)) == [1, 2, sp.cos(1) - 2 * sp.sin(1), sp.sin(1) + 2 * sp.cos(1)]


def test_a_rotation_to_the_wrong_side_is_not_the_gradient():
    d = bs.position.rope_derivation(2)["dx"]
    forwards = d.inputs["dy"] * bs.position.rotation(d.inputs["theta"][0], 2)
    assert not replace(d, textbook=forwards).difference_is_zero


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_only_the_offset_is_left_of_two_positions(pairing):
    i, j = sp.symbols("i j", real=True)
    turned = bs.position.rotation(i, 4, pairing=pairing) * bs.position.rotation(j, 4, pairing=pairing).T
    assert (turned - bs.position.rotation(i - j, 4, pairing=pairing)).applyfunc(lambda entry: sp.expand_trig(entry).expand()).is_zero_matrix


def test_bad_rotations():
    with pytest.raises(ValueError, match="d was 3"):
        bs.position.rope(sp.ones(1, 3))
    with pytest.raises(ValueError, match="pairing was 'pairs'"):
        bs.position.rope(sp.ones(1, 4), pairing="pairs")
