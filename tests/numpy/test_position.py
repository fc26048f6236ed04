import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.numpy.position import sinusoidal


@given(length=st.integers(1, 40), pairs=st.integers(1, 8), pairing=st.sampled_from(("interleaved", "half")))
def test_every_entry_is_the_papers_formula(length, pairs, pairing):
    d_model = 2 * pairs
    table = sinusoidal(length, d_model, pairing)
    assert table.shape == (length, d_model) and table.dtype == np.float64
    for position in range(length):
        for i in range(pairs):
            angle = position / 10000 ** (2 * i / d_model)
            sine, cosine = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + pairs)
            assert table[position, sine] == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, cosine] == pytest.approx(math.cos(angle), abs=1e-12)


def test_position_0_is_0_and_1_in_turn_and_position_1_is_what_document_1_prints():
    table = sinusoidal(2, 4)
    assert table[0].tolist() == [0, 1, 0, 1]
    assert table[1].round(2).tolist() == [0.84, 0.54, 0.01, 1.00]


def test_a_longer_table_begins_with_the_shorter_one():
    assert (sinusoidal(9, 6)[:4] == sinusoidal(4, 6)).all()


def test_a_shift_is_a_rotation():
    """PE[pos + k] is a fixed linear map of PE[pos]: why relative positions are easy to find."""
    table, k = sinusoidal(50, 8), 7
    theta = k / 10000 ** (np.arange(0, 8, 2) / 8)
    sine, cosine = table[:-k, 0::2], table[:-k, 1::2]
    np.testing.assert_allclose(table[k:, 0::2], sine * np.cos(theta) + cosine * np.sin(theta), atol=1e-12)


@pytest.mark.parametrize(
    ("length", "d_model", "words"),
    [(0, 4, "length was 0"), (-1, 4, "length was -1"), (3, 5, "d_model was 5; it must be even"), (3, 0, "d_model was 0")],
)
def test_what_cannot_be_meant(length, d_model, words):
    with pytest.raises(ValueError, match=words):
        sinusoidal(length, d_model)


@pytest.mark.parametrize("size", [{"length": 2.5}, {"length": True}, {"d_model": 4.0}])
def test_a_size_that_is_no_whole_number(size):
    with pytest.raises(ValueError, match=f"{next(iter(size))} was .*; it must be a whole number"):
        sinusoidal(**({"length": 3, "d_model": 4} | size))
