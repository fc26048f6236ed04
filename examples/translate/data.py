"""The sentences: numbers in words and dates, French and English, split by value; and the batches they are read in.

Numbers below a million are written by num2words, dates by Babel. Left out, and why: num2words' French ordinals (it writes 'deux centsième' for
'deux centième'), and Babel's medium dates ('5 mars 2024' is its medium and its long French date, 'Mar 5, 2024' and 'March 5, 2024' are its English
ones, so one French sentence would have two translations). Mended: Babel's '1 mars' is '1er mars' in French.
"""

import datetime
import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from babel.dates import format_date
from num2words import num2words

from .vocabulary import END, PAD, START

KINDS = ("number", "long date", "full date")
PARTS = ("train", "validation", "test")
NUMBERS = 1_000_000
DATES = (datetime.date(1900, 1, 1), datetime.date(2099, 12, 31))
HELD_OUT = 25  # of a thousand values, for the validation part, and as many for the test part


class Pair(NamedTuple):
    """One French sentence and its English translation; value is the number, or the date's day count (date.toordinal)."""

    kind: str
    value: int
    source: str
    target: str


def pair(kind: str, value: int) -> Pair:
    """The French and the English sentence for a value.

    Raises ValueError for an unknown kind and for a value outside its range.
    """
    if kind not in KINDS:
        raise ValueError(f"kind was {kind!r}; it must be one of {', '.join(map(repr, KINDS))}")
    first, last = _range(kind)
    if not first <= value <= last:
        raise ValueError(f"value was {value} for a {kind}; it must be from {first} to {last}")
    if kind == "number":
        return Pair(kind, value, num2words(value, lang="fr"), num2words(value, lang="en"))
    date, form = datetime.date.fromordinal(value), kind.split()[0]
    return Pair(kind, value, _first_of_the_month(date, format_date(date, form, locale="fr")), format_date(date, form, locale="en"))


def _first_of_the_month(date, french):
    """'1er' for '1', which Babel leaves out."""
    if date.day != 1:
        return french
    words = french.split(" ")
    words[words.index("1")] = "1er"
    return " ".join(words)


def part(kind: str, value: int) -> str:
    """Which part a value belongs to: a function of the value alone, so that both formats of a date are in the same one."""
    key = f"{'number' if kind == 'number' else 'date'} {value}".encode()
    bucket = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") % 1000
    return "test" if bucket < HELD_OUT else "validation" if bucket < 2 * HELD_OUT else "train"


def pairs(part_name: str, counts: dict[str, int], seed: int = 0) -> list[Pair]:
    """So many different pairs of each kind, drawn from the values of one part; the first values of a kind are drawn before its later ones are.

    Every fourth number is below 2,000 as long as there are such, since a number drawn evenly below a million hardly ever is.
    Raises ValueError for an unknown part or kind, and for more pairs than the part has.
    """
    if part_name not in PARTS:
        raise ValueError(f"part was {part_name!r}; it must be one of {', '.join(map(repr, PARTS))}")
    for kind in counts:
        if kind not in KINDS:
            raise ValueError(f"kind was {kind!r}; it must be one of {', '.join(map(repr, KINDS))}")
    return [pair(kind, value) for kind, count in counts.items() for value in _values(kind, part_name, count, seed)]


def _values(kind, part_name, count, seed):
    first, last = _range(kind)
    rng = np.random.default_rng([seed, PARTS.index(part_name), KINDS.index(kind)])
    order = first + rng.permutation(last - first + 1)
    if kind == "number":
        small, large = order[order < 2000], order[order >= 2000]
        order = np.concatenate([np.insert(large[: 3 * len(small)], np.arange(3, 3 * len(small) + 3, 3), small), large[3 * len(small) :]])
    chosen = []
    for value in order.tolist():
        if len(chosen) == count:
            break
        if part(kind, value) == part_name:
            chosen.append(value)
    if len(chosen) < count:
        raise ValueError(f"{count} {kind}s were asked for; the {part_name} part has only {len(chosen)}")
    return chosen


def _range(kind):
    return (0, NUMBERS - 1) if kind == "number" else tuple(date.toordinal() for date in DATES)


class Example(NamedTuple):
    """A pair as numbers: the source's pieces and <eos>, and the target's pieces without either end."""

    source: list[int]
    target: list[int]


class Batch(NamedTuple):
    """Sentences padded to one length, (batch, time) each; the decoder reads <bos> a b and is to say a b <eos>."""

    source: np.ndarray
    source_lengths: np.ndarray
    decoder_input: np.ndarray
    targets: np.ndarray
    target_lengths: np.ndarray

    @property
    def tokens(self) -> int:
        """How many places of the target are scored."""
        return int(self.target_lengths.sum())


def examples(all_pairs: Iterable[Pair], source_vocabulary, target_vocabulary, max_length: int | None = None) -> list[Example]:
    """Each pair as numbers.

    Raises ValueError for a pair with an empty side, and for a sentence that with its end is longer than max_length; both name the sentence.
    """
    made = []
    for one in all_pairs:
        for side, sentence in (("source", one.source), ("target", one.target)):
            if not sentence:
                raise ValueError(f"the {side} of {one.kind} {one.value} was empty; each pair needs both sentences")
        made.append(Example(source_vocabulary.encode(one.source) + [END], target_vocabulary.encode(one.target)))
        longest = max(len(made[-1].source), len(made[-1].target) + 1)
        if max_length is not None and longest > max_length:
            raise ValueError(f"{one.source!r} and {one.target!r} need {longest} positions; max_length allows {max_length}")
    return made


def batch(chosen: list[Example]) -> Batch:
    """The examples padded with <pad>, behind their ends."""
    if not chosen:
        raise ValueError("chosen was empty; a batch needs at least one example")
    source, source_lengths = _padded([one.source for one in chosen])
    decoder_input, target_lengths = _padded([[START, *one.target] for one in chosen])
    targets, _ = _padded([[*one.target, END] for one in chosen])
    return Batch(source, source_lengths, decoder_input, targets, target_lengths)


def _padded(rows):
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max()), PAD)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded, lengths


def order(all_examples: list[Example], size: int, seed: int, epoch: int, pool: int = 50) -> list[np.ndarray]:
    """The batches of an epoch, as places in all_examples: each example once, neighbours of like length, the last batch maybe smaller.

    A function of (seed, epoch) and the lengths alone: shuffled, sorted by length within `pool` batches, cut, and the batches shuffled.
    """
    if size < 1:
        raise ValueError(f"size was {size}; a batch needs at least one example")
    rng = np.random.default_rng([seed, epoch])
    shuffled = rng.permutation(len(all_examples))
    lengths = np.array([len(one.source) + len(one.target) for one in all_examples])
    batches = []
    for start in range(0, len(shuffled), pool * size):
        near = shuffled[start : start + pool * size]
        near = near[np.argsort(lengths[near], kind="stable")]
        batches += [near[place : place + size] for place in range(0, len(near), size)]
    return [batches[place] for place in rng.permutation(len(batches))]


def batches(all_examples: list[Example], size: int, seed: int, done: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """(epoch, places) of one batch after another without end, from epoch 1 on; `done` of them are left out, as for a run that goes on."""
    a_pass = -(-len(all_examples) // size)
    if not a_pass:
        raise ValueError("all_examples was empty; training needs at least one")
    epoch, start = divmod(done, a_pass)
    while True:
        for places in order(all_examples, size, seed, epoch + 1)[start:]:
            yield epoch + 1, places
        epoch, start = epoch + 1, 0
