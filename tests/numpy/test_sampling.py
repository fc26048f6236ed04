"""Greedy choice, temperature, top-k and top-p against counting and against PyTorch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.sampling import greedy, probabilities, sample, top_k_mask, top_p_mask

seeds = st.integers(0, 2**32 - 1)


def _logits(seed, shape=(3, 11)):
    return 2 * np.random.default_rng(seed).normal(size=shape)


def _by_pytorch(logits, temperature=1.0, top_k=None, top_p=None):
    """The filters as PyTorch programs write them: below the k-th largest, and past the mass in the sorted cumulative sum."""
    import torch

    z = torch.tensor(logits) / temperature
    if top_k is not None:
        z = z.masked_fill(z < z.topk(min(top_k, z.shape[-1]))[0][..., -1:], -torch.inf)
    if top_p is not None:
        ordered, index = z.sort(descending=True)
        p = ordered.softmax(-1)
        dropped = p.cumsum(-1) - p >= top_p
        z = z.masked_fill(dropped.scatter(-1, index, dropped), -torch.inf)
    return z.softmax(-1)


@given(
    seed=seeds, temperature=st.sampled_from((0.3, 1.0, 2.5)), top_k=st.sampled_from((None, 1, 3, 11, 50)), top_p=st.sampled_from((None, 0.05, 0.5, 0.9, 1.0))
)  # fmt: skip
def test_against_pytorch(seed, temperature, top_k, top_p):
    logits = _logits(seed)
    p = probabilities(logits, temperature, top_k, top_p)
    assert agreement(p, _by_pytorch(logits, temperature, top_k, top_p)) < 1e-12
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-13)


def test_top_k_keeps_the_k_largest_and_of_equal_ones_the_first():
    p = np.array([0.1, 0.3, 0.1, 0.3, 0.2])
    assert top_k_mask(p, 3).tolist() == [False, True, False, True, True]
    assert top_k_mask(p, 4).tolist() == [True, True, False, True, True]
    assert top_k_mask(p, 9).all()


def test_top_p_keeps_as_few_as_reach_the_mass():
    p = np.array([0.125, 0.5, 0.25, 0.125])
    for mass, kept in ((0.01, [1]), (0.5, [1]), (0.5001, [1, 2]), (0.75, [1, 2]), (0.76, [0, 1, 2]), (1.0, [0, 1, 2, 3])):
        assert np.flatnonzero(top_p_mask(p, mass)).tolist() == kept


@given(seed=seeds, top_p=st.floats(0.01, 1.0))
def test_what_top_p_keeps_reaches_the_mass_and_would_not_without_its_last(seed, top_p):
    p = probabilities(_logits(seed, (11,)))
    kept = np.sort(p[top_p_mask(p, top_p)])
    assert kept.sum() > top_p - 1e-12 and kept[1:].sum() < top_p
    assert kept[0] >= p[~top_p_mask(p, top_p)].max(initial=0.0)


def test_temperature_sharpens_and_flattens():
    logits = _logits(0, (5, 9))
    entropies = [-(p * np.log(p)).sum(-1) for p in (probabilities(logits, t) for t in (0.5, 1.0, 2.0))]
    assert (entropies[0] < entropies[1]).all() and (entropies[1] < entropies[2]).all()
    assert agreement(probabilities(logits, 1e6), np.full_like(logits, 1 / 9)) < 1e-4


def test_as_temperature_falls_sampling_becomes_greedy_without_overflow():
    logits = _logits(1, (4, 9))
    with np.errstate(all="raise", under="ignore"):
        for temperature in (1e-3, 1e-300, 5e-324):
            assert (probabilities(logits, temperature).argmax(-1) == greedy(logits)).all()
            assert probabilities(logits, temperature).max(-1).tolist() == [1.0] * 4
    assert probabilities(np.array([1.0, 1.0, 0.0]), 1e-9).tolist() == [0.5, 0.5, 0]


def test_greedy_takes_the_first_of_equals():
    assert greedy(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])).tolist() == [1, 0]
    assert greedy(np.array([0.0, -np.inf, 5.0])) == 2


def test_tokens_come_as_often_as_they_should():
    rng, n = np.random.default_rng(2), 40_000
    logits = _logits(3, (6,))
    for choices in ({}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.8}, {"temperature": 1.7, "top_k": 4, "top_p": 0.7}):
        p = probabilities(logits, **choices)
        counts = np.bincount(sample(np.tile(logits, (n, 1)), rng, **choices), minlength=6)
        assert not counts[p == 0].any()
        kept = p > 0
        chi_squared = ((counts - n * p)[kept] ** 2 / (n * p)[kept]).sum()
        assert chi_squared < 25  # at most 5 degrees of freedom: less than 2 in 10 000 by chance, and the seed is fixed


def test_the_same_generator_state_gives_the_same_tokens_and_nothing_else_is_touched():
    logits = _logits(4, (5, 7))
    before, state = logits.copy(), np.random.get_state()[1].copy()
    assert (sample(logits, np.random.default_rng(0)) == sample(logits, np.random.default_rng(0))).all()
    assert (logits == before).all() and (np.random.get_state()[1] == state).all()
    assert sample(logits, np.random.default_rng(0)).shape == (5,)


def test_any_leading_axes_and_float32():
    logits = _logits(5, (2, 3, 7)).astype(np.float32)
    assert greedy(logits).shape == (2, 3) and sample(logits, np.random.default_rng(0), top_p=0.9).shape == (2, 3)
    assert probabilities(logits, 0.7, 3, 0.9).dtype == np.float32


def test_a_token_that_is_ruled_out_beforehand_never_comes():
    logits = np.array([-np.inf, 0.0, 0.0])
    assert probabilities(logits, 3.0).tolist() == [0, 0.5, 0.5]
    assert set(sample(np.tile(logits, (200, 1)), np.random.default_rng(0)).tolist()) == {1, 2}


@pytest.mark.parametrize(("choice", "words"), [
    ({"temperature": 0.0}, "temperature was 0.0; it must be a finite number above 0"),
    ({"temperature": -1.0}, "temperature was -1.0"),
    ({"temperature": np.nan}, "temperature was nan"),
    ({"temperature": np.inf}, "temperature was inf"),
    ({"top_k": 0}, "top_k was 0; it must be a whole number of at least 1"),
    ({"top_k": -2}, "top_k was -2"),
    ({"top_k": 2.0}, "top_k was 2.0"),
    ({"top_k": True}, "top_k was True"),
    ({"top_p": 0.0}, r"top_p was 0.0; it must lie in \(0, 1\]"),
    ({"top_p": 1.01}, "top_p was 1.01"),
    ({"top_p": -0.1}, "top_p was -0.1"),
    ({"top_p": np.nan}, "top_p was nan"),
])  # fmt: skip
def test_choices_that_cannot_be_meant(choice, words):
    for call in (lambda z: probabilities(z, **choice), lambda z: sample(z, np.random.default_rng(0), **choice)):
        with pytest.raises(ValueError, match=words):
            call(_logits(0))


@pytest.mark.parametrize("logits", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_logits_that_cannot_be_meant(logits):
    for call in (greedy, probabilities):
        with pytest.raises(ValueError, match="logits held NaN, .inf or a row of nothing but -inf"):
            call(np.array([[0.0, 1.0], logits]))


def test_a_generator_must_be_given():
    for rng in (None, 0, np.random):
        with pytest.raises(ValueError, match="it must be a Generator"):
            sample(_logits(0), rng)


def test_equal_parts_reach_the_mass_that_they_are():
    for dtype in (np.float32, np.float64):
        for vocab in (2, 3, 5, 6, 7, 10, 41, 49, 100, 1000):
            p = probabilities(np.zeros(vocab, dtype))
            for kept in {1, vocab // 3, vocab // 2, 7 * vocab // 10, vocab - 1} - {0}:
                assert np.flatnonzero(top_p_mask(p, kept / vocab)).tolist() == list(range(kept)), (dtype, vocab, kept)
                assert (probabilities(np.zeros(vocab, dtype), top_p=kept / vocab) > 0).sum() == kept
    assert top_p_mask(np.full(4, 0.25), 0.5 + 1e-12).sum() == 3  # what is more than rounding counts


def test_a_large_vocabulary_in_float32_is_summed_in_float64():
    logits = np.zeros(200_000, np.float32)
    assert (probabilities(logits, top_p=0.75) > 0).sum() == 150_000
    drawn = sample(np.zeros((30, 200_000), np.float32), np.random.default_rng(0))
    assert 0.3 < (drawn >= 100_000).mean() < 0.7 and drawn.max() > 180_000


def test_the_likeliest_are_those_of_the_largest_logits():
    close = np.array([-0.1, np.nextafter(-0.1, 0.0), -3.0, -0.1])  # whose first two probabilities are one number
    assert probabilities(close).tolist()[:2] == [probabilities(close)[3]] * 2
    assert np.flatnonzero(probabilities(close, top_k=1)).tolist() == [1] == np.flatnonzero(probabilities(close, top_p=0.1)).tolist()
    assert np.flatnonzero(probabilities(close, top_k=2)).tolist() == [0, 1]  # of equal ones the first
    assert np.flatnonzero(probabilities(close, top_p=0.5)).tolist() == [0, 1]
    far = np.array([-900.0, -800.0, 0.0])
    assert np.flatnonzero(probabilities(far, temperature=2.0, top_k=2)).tolist() == [1, 2]


def test_a_number_at_the_very_end_draws_a_token_that_has_a_probability():
    class Last(np.random.Generator):
        def random(self, size=None):
            return np.full(size, np.nextafter(1.0, 0.0))

    logits = np.array([[-np.inf, 0.3, 0.1, -np.inf], [-np.inf, 1.0, -np.inf, -np.inf]])
    for scale in (0.1, 1.0, 3.0):
        assert sample(scale * logits, Last(np.random.PCG64(0))).tolist() == [2, 1]


@pytest.mark.parametrize("logits", [[1.0, 2.0], np.ones(2, np.float16), np.ones(2, int), np.ones(2, np.longdouble)])
def test_logits_of_another_kind_are_refused(logits):
    for call in (greedy, probabilities, lambda z: sample(z, np.random.default_rng(0))):
        with pytest.raises(ValueError, match="logits (was|had dtype)"):
            call(logits)


def test_a_mass_of_1_leaves_out_nothing():
    logits = np.array([0.0, -40.0, -80.0])
    assert (probabilities(logits, top_p=1.0) == probabilities(logits)).all() and probabilities(logits, top_p=1.0).all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_what_counts_as_reaching_the_mass(shape):
    """Up to four roundings of the number itself, and one for each that was added before it."""
    eps = np.finfo(float).eps
    for n in (2, 4):
        p = np.full((*shape, n), 1 / n)
        for place in range(1, n):
            for steps in range(12):
                kept = top_p_mask(p, place / n * (1 + steps * eps))[..., place]
                assert kept.shape == shape and (kept == (steps > 4 + place)).all(), (n, place, steps)


def test_a_mass_of_1_keeps_what_rounding_would_lose():
    logits = np.array([[0.0, -50.0, -60.0], [-60.0, 1.0, 1.0]])
    assert (probabilities(logits, top_p=1.0) == probabilities(logits)).all() and (probabilities(logits, top_p=1.0) > 0).all()
    assert (probabilities(logits, top_p=0.999)[0] == [1, 0, 0]).all()
