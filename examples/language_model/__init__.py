"""Language models of the book's own text: tables of n-grams, and the decoder of page 08a trained for longer."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 512
WINDOW = 64
CORPUS = Path(__file__).resolve().parents[2] / "book" / "stack" / "corpus.txt"
RESULT = Path(__file__).parent / "result.json"


class Text(NamedTuple):
    """The text as numbers: what is trained on, and the windows that are scored, each row with the token before its first."""

    tokenizer: Tokenizer
    training: Int[np.ndarray, "tokens"]
    windows: Int[np.ndarray, "rows WINDOW+1"]
    bytes: int  # of the scored tokens


def text(path: Path = CORPUS) -> Text:
    """The corpus cut as page 08a cuts it: of every ten stretches of forty lines one is kept aside."""
    lines = path.read_text("utf-8").splitlines(True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, initial_alphabet=alphabet))
    aside = [number // 40 % 10 == 9 for number in range(len(lines))]
    training, validation = (
        np.concatenate([encoded.ids for encoded in tokenizer.encode_batch([line for line, kept in zip(lines, aside, strict=True) if kept == part])])
        for part in (False, True)
    )
    count = (len(validation) - 1) // WINDOW
    windows = validation[np.arange(count)[:, None] * WINDOW + np.arange(WINDOW + 1)]
    return Text(tokenizer, training, windows, byte_count(tokenizer, windows[:, 1:]))


def byte_count(tokenizer: Tokenizer, tokens: Int[np.ndarray, "..."]) -> int:
    """How many bytes these tokens stand for: a piece of a byte-level vocabulary has a character for each byte."""
    sizes = np.array([len(tokenizer.id_to_token(number)) for number in range(tokenizer.get_vocab_size())])
    return int(sizes[tokens].sum())


class KneserNey:
    """Interpolated Kneser-Ney smoothing of an n-gram table.     (Kneser and Ney 1995; Chen and Goodman 1999, section 2.7)

    P(w | h) = max(c(hw) − D, 0)/c(h) + D·N(h)/c(h) · P(w | h without its first token)

    c counts occurrences for the longest h, and for shorter ones how many different tokens were seen before hw; N(h) is how many different
    tokens follow h, c(h) the sum of c(hw) over w. D = n₁/(n₁ + 2n₂), n₁ and n₂ the number of hw with c = 1 and 2; one half where n₁ = 0.
    Below the single tokens stands 1/V. A context that was never seen leaves its probability to the shorter one.
    """

    def __init__(self, tokens: Int[np.ndarray, "tokens"], order: int, vocabulary: int = VOCABULARY):
        if order < 1:
            raise ValueError(f"order was {order}; it must be at least 1")
        if len(tokens) < order:
            raise ValueError(f"tokens were {len(tokens)}; there must be at least order = {order}")
        tokens = np.asarray(tokens).tolist()
        self.order, self.vocabulary = order, vocabulary
        counts = Counter(zip(*(tokens[i:] for i in range(order)), strict=False))
        self.levels = []
        for _ in range(order):
            ones, twos = (sum(value == n for value in counts.values()) for n in (1, 2))
            discount = ones / (ones + 2 * twos) if ones else 0.5
            totals, followers = defaultdict(int), defaultdict(int)
            for gram, value in counts.items():
                totals[gram[:-1]] += value
                followers[gram[:-1]] += 1
            self.levels.append((counts, totals, followers, discount))
            counts = Counter(gram[1:] for gram in counts)  # each different token before counts once
        self.levels.reverse()  # by the length of the context: 0, 1, …

    def probability(self, context: tuple[int, ...], token: int) -> float:
        """P(token | the last order − 1 tokens of the context)"""
        context = tuple(context)[max(len(context) - self.order + 1, 0) :]
        p = 1 / self.vocabulary
        for length in range(len(context) + 1):
            counts, totals, followers, discount = self.levels[length]
            h = context[len(context) - length :]
            total = totals.get(h, 0)
            if total:
                p = max(counts.get((*h, token), 0) - discount, 0) / total + discount * followers[h] / total * p
        return p

    def losses(self, windows: Int[np.ndarray, "rows time"]) -> Float[np.ndarray, "rows time-1"]:
        """−log P of every token but the first of each row, with what stands before it in the row."""
        rows = np.asarray(windows).tolist()
        found = [[self.probability(tuple(row[max(t - self.order + 1, 0) : t]), row[t]) for t in range(1, len(row))] for row in rows]
        return -np.log(found)


def measures(loss: float, tokens: int, n_bytes: int) -> dict[str, float]:
    """Mean loss a token; perplexity e^loss; bits a byte, loss · tokens / (ln 2 · bytes)."""
    return {"loss": loss, "perplexity": float(np.exp(loss)), "bits per byte": loss * tokens / n_bytes / float(np.log(2))}
