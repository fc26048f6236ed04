"""Greedy and beam search over any model that gives log-probabilities of the next token."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Step = Callable[[Int[np.ndarray, "rows time"], Int[np.ndarray, "rows"]], Float[np.ndarray, "rows vocab"]]


class Hypothesis(NamedTuple):
    """What was said, without the start; score = log_probability / length_penalty."""

    tokens: list[int]
    log_probability: float
    score: float
    ended: bool


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α     (Wu et al. 2016, equation 14)"""
    return ((5 + length) / 6) ** alpha


def beam_search(step: Step, count: int, start: int, end: int, max_length: int, width: int = 1, alpha: float = 0.6) -> list[list[Hypothesis]]:
    """For each of `count` sentences its hypotheses, best first: score = Σ log p(token | those before) / ((5 + length)/6)^α

    step(prefixes, sentence) gives the log-probabilities of the token after each prefix, whose sentence has that number. In each round the
    `width` likeliest continuations of a sentence stay; those that end are set aside, and the search goes on until no open one can still win:
    log-probabilities only fall, so an open one's bound is its own divided by the penalty at max_length. width = 1 is greedy search.
    A hypothesis of max_length tokens that has not ended counts as it is (`ended` is False).

    Raises ValueError for a width, count or max_length below 1, and for α below 0.
    """
    for name, value in (("count", count), ("max_length", max_length), ("width", width)):
        if value < 1:
            raise ValueError(f"{name} was {value}; it must be at least 1")
    if not alpha >= 0:
        raise ValueError(f"alpha was {alpha}; it must be at least 0")
    least = length_penalty(max_length, alpha)
    open_ones: list[list[tuple[float, list[int]]]] = [[(0.0, [])] for _ in range(count)]
    done: list[list[Hypothesis]] = [[] for _ in range(count)]
    for length in range(1, max_length + 1):
        rows = [(sentence, sum_, tokens) for sentence, some in enumerate(open_ones) for sum_, tokens in some]
        if not rows:
            break
        ahead = np.asarray(step(np.array([[start, *tokens] for _, _, tokens in rows]), np.array([sentence for sentence, _, _ in rows])), dtype=np.float64)
        if ahead.shape[0] != len(rows) or np.isnan(ahead).any():
            raise ValueError(f"step gave log-probabilities of shape {ahead.shape} for {len(rows)} prefixes; each needs a row, without NaN")
        first = 0
        for sentence, some in enumerate(open_ones):
            if not some:
                continue
            sums = np.array([sum_ for sum_, _ in some])[:, None] + ahead[first : first + len(some)]
            first += len(some)
            best = np.argsort(-sums, axis=None, kind="stable")[:width]
            open_ones[sentence] = []
            for row, token in zip(*np.unravel_index(best, sums.shape), strict=True):
                total = float(sums[row, token])
                if total == -np.inf:
                    continue
                tokens = [*some[row][1], int(token)]
                if token == end or length == max_length:
                    done[sentence].append(Hypothesis(tokens, total, total / length_penalty(length, alpha), bool(token == end)))
                else:
                    open_ones[sentence].append((total, tokens))
            if done[sentence] and open_ones[sentence]:
                if max(one.score for one in done[sentence]) >= max(total for total, _ in open_ones[sentence]) / least:
                    open_ones[sentence] = []
    return [sorted(some, key=lambda one: -one.score) for some in done]
