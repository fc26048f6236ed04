"""Greedy and beam search on models made of random tables."""

import itertools

import numpy as np
import pytest
from translate.search import beam_search, length_penalty

START, END = 9, 0


def table_model(seed, vocab=3, sentences=1, longest=6):
    """log p(next | sentence, prefix): a table drawn for each prefix."""

    def row(sentence, prefix):
        logits = np.random.default_rng([seed, sentence, *prefix]).normal(0, 2, vocab)
        return logits - np.log(np.exp(logits).sum())

    def step(prefixes, which):
        assert (prefixes[:, 0] == START).all()
        return np.array([row(sentence, prefix[1:]) for prefix, sentence in zip(prefixes.tolist(), which.tolist(), strict=True)])

    return step, row


def everything(row, alpha, longest, vocab=3):
    """Every hypothesis: ended within `longest` tokens, or open at that length; its score."""
    for length in range(1, longest + 1):
        for tokens in itertools.product(range(vocab), repeat=length):
            if END in tokens[:-1] or (tokens[-1] != END and length < longest):
                continue
            total = sum(row(0, tokens[:place])[token] for place, token in enumerate(tokens))
            yield total / length_penalty(length, alpha), list(tokens)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_beam_that_holds_all_finds_what_trying_all_finds(seed, alpha):
    step, row = table_model(seed)
    best, tokens = max(everything(row, alpha, 4))
    found = beam_search(step, 1, START, END, 4, width=81, alpha=alpha)[0][0]
    assert found.tokens == tokens
    assert found.score == pytest.approx(best, abs=1e-12)
    assert found.ended == (tokens[-1] == END)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_of_one_is_greedy(alpha):
    for seed in range(30):
        step, row = table_model(seed)
        tokens = []
        while len(tokens) < 6 and END not in tokens:
            tokens.append(int(row(0, tokens).argmax()))
        assert [one.tokens for one in beam_search(step, 1, START, END, 6, width=1, alpha=alpha)[0]] == [tokens]


def test_a_batch_equals_sentence_by_sentence():
    step, row = table_model(3)
    together = beam_search(step, 5, START, END, 6, width=3)
    for sentence in range(5):
        alone = beam_search(lambda prefixes, which, s=sentence: step(prefixes, which + s), 1, START, END, 6, width=3)
        assert alone[0] == together[sentence]


def test_a_short_one_does_not_stop_a_better_long_one():
    """<eos> at once has p = 0.3; the long one 0.7 · 1 · 1: the search must not stop at the first that ends."""

    def step(prefixes, which):
        length = prefixes.shape[1]
        probabilities = {1: [0.3, 0.7, 0.0], 2: [0.01, 0.99, 0.0], 3: [0.99, 0.01, 0.0]}[min(length, 3)]
        with np.errstate(divide="ignore"):
            return np.tile(np.log(probabilities), (len(prefixes), 1))

    for alpha in (0.0, 1.0):
        assert beam_search(step, 1, START, END, 6, width=2, alpha=alpha)[0][0].tokens == [1, 1, END]


def test_what_never_ends_is_given_as_it_is():
    found = beam_search(lambda prefixes, which: np.log(np.tile([1e-9, 0.9, 0.1], (len(prefixes), 1))), 1, START, END, 3, width=2)[0][0]
    assert found.tokens == [1, 1, 1] and not found.ended


@pytest.mark.parametrize("name, value", [("count", 0), ("max_length", 0), ("width", 0), ("alpha", -0.1), ("alpha", float("nan"))])
def test_what_cannot_be_meant_is_named(name, value):
    arguments = {"count": 1, "max_length": 4, "width": 2, "alpha": 0.6} | {name: value}
    with pytest.raises(ValueError, match=f"{name} was"):
        beam_search(table_model(0)[0], start=START, end=END, **arguments)


def test_nan_does_not_travel():
    with pytest.raises(ValueError, match="NaN"):
        beam_search(lambda prefixes, which: np.full((len(prefixes), 3), np.nan), 1, START, END, 3)
