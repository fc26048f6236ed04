"""N-gram tables with Kneser-Ney smoothing."""

import numpy as np
import pytest
from language_model import KneserNey, byte_count, measures, text

TOKENS = np.random.default_rng(0).integers(0, 6, 300)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_sum_to_one_after_every_context(order):
    model = KneserNey(TOKENS, order, vocabulary=8)  # two tokens never occur
    for context in ((), (0,), (7,), (1, 2), (7, 1), (1, 7), (3, 2, 1), (2, 2, 2, 2)):
        probabilities = [model.probability(context, token) for token in range(8)]
        assert sum(probabilities) == pytest.approx(1, abs=1e-12) and min(probabilities) > 0


def test_a_bigram_by_hand():
    """a b a c a b: D of the pairs is 3 / (3 + 2·1) with ac, ba, ca once and ab twice; b and c each follow one token, a two."""
    model = KneserNey(np.array([0, 1, 0, 2, 0, 1]), 2, vocabulary=4)
    d, d_low = 3 / 5, 2 / 4  # below: b and c have one predecessor, a two
    unigram = [(2 - d_low) / 4, (1 - d_low) / 4, (1 - d_low) / 4, 0]
    unigram = [p + d_low * 3 / 4 / 4 for p in unigram]
    assert model.probability((), 0) == pytest.approx(unigram[0])
    assert model.probability((0,), 1) == pytest.approx((2 - d) / 3 + d * 2 / 3 * unigram[1])
    assert model.probability((0,), 3) == pytest.approx(d * 2 / 3 * unigram[3])
    assert model.probability((3,), 1) == pytest.approx(unigram[1])  # never seen: the shorter context


def test_losses_look_back_within_their_row_only():
    model = KneserNey(TOKENS, 3, vocabulary=8)
    windows = TOKENS[:20].reshape(4, 5)
    losses = model.losses(windows)
    assert losses.shape == (4, 4)
    assert losses[1, 0] == pytest.approx(-np.log(model.probability((windows[1, 0],), windows[1, 1])))
    assert losses[1, 3] == pytest.approx(-np.log(model.probability(tuple(windows[1, 2:4]), windows[1, 4])))


def test_bytes_are_counted_as_the_text_has_them():
    material = text()
    row = material.windows[3]
    assert byte_count(material.tokenizer, row) == len(material.tokenizer.decode(row.tolist()).encode())
    found = measures(np.log(2), 8, 4)
    assert found == {"loss": np.log(2), "perplexity": pytest.approx(2), "bits per byte": pytest.approx(2)}


def test_what_cannot_be_counted_is_named():
    with pytest.raises(ValueError, match="order was 0"):
        KneserNey(TOKENS, 0)
    with pytest.raises(ValueError, match="tokens were 2"):
        KneserNey(TOKENS[:2], 3)
