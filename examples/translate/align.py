"""Which words of a numeral or a date say the same: a rule of our own, against which cross-attention is held.

Each word says one or more places of the value: in 'soixante-douze' soixante says the tens and douze the tens and the ones, in 'seventy-two'
seventy says the tens and two the ones. Two words are aligned where they share a place. 'et', 'and', commas and spaces say nothing.
"""

import re
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

UNITS = {
    "fr": "un deux trois quatre cinq six sept huit neuf zéro".split(),
    "en": "one two three four five six seven eight nine zero".split(),
}
TEENS = {
    "fr": "onze douze treize quatorze quinze seize".split(),
    "en": "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),
}
TENS = {
    "fr": "dix vingt vingts trente quarante cinquante soixante".split(),
    "en": "twenty thirty forty fifty sixty seventy eighty ninety".split(),
}
HUNDRED = {"fr": ("cent", "cents"), "en": ("hundred",)}
THOUSAND = {"fr": "mille", "en": "thousand"}
SILENT = {"fr": ("et", "er"), "en": ("and",)}
DAYS = {
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
    "en": "monday tuesday wednesday thursday friday saturday sunday".split(),
}
MONTHS = {
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    "en": "january february march april may june july august september october november december".split(),
}
WORDS = re.compile(r"[ -]?[^\W\d_]+|\d|.")


def words(sentence: str) -> list[str]:
    """The sentence cut as the word pieces are cut before any merge; joined they give the sentence."""
    return WORDS.findall(sentence)


def places(sentence: str, language: str) -> list[set]:
    """For each word of a numeral or date the places that it says; an empty set where it says none.

    Raises ValueError naming a word that belongs to neither.
    """
    plain = [word.strip(" -").lower() for word in words(sentence)]
    return _date(plain, language) if any(word.isdigit() for word in plain) else _numeral(plain, language)


def _date(plain, language):
    """Digits are counted from the front in day and year, since both languages write them so."""
    said = []
    text = "".join(word if word.isdigit() else " " for word in plain)  # one character for each word
    numbers = {place: (match, place - match.start()) for match in re.finditer(r"\d+", text) for place in range(*match.span())}
    for place, word in enumerate(plain):
        if place in numbers:
            match, at = numbers[place]
            said.append({("year" if len(match.group()) == 4 else "day", at)})
            continue
        if word in DAYS[language]:
            said.append({("weekday",)})
        elif word in MONTHS[language]:
            said.append({("month",)})
        elif word in ("", ",", *SILENT[language]):
            said.append(set())
        else:
            raise ValueError(f"the date has the word {word!r}, which the rule does not know")
    return said


def _numeral(plain, language):
    thousands = plain.index(THOUSAND[language]) if THOUSAND[language] in plain else -1
    said = []
    for place, word in enumerate(plain):
        group = 1 if place <= thousands else 0
        after = plain[place + 1] if place + 1 < len(plain) else ""
        before = plain[place - 1] if place else ""
        if word in UNITS[language]:
            if after in HUNDRED[language]:
                what = {"hundreds"}
            elif language == "fr" and word == "quatre" and after in ("vingt", "vingts"):
                what = {"tens"}
            else:
                what = {"ones"}
        elif word in TEENS[language]:
            what = {"tens", "ones"}
        elif word in TENS[language]:
            what = {"tens"}
        elif word in HUNDRED[language]:
            what = {"hundred"} if before in UNITS[language] else {"hundred", "hundreds"}
        elif word == THOUSAND[language]:
            what = {"thousand"} if place else {"thousand", "ones"}
        elif word in ("", ",", *SILENT[language]):
            what = set()
        else:
            raise ValueError(f"the numeral has the word {word!r}, which the rule does not know")
        said.append({(group, one) for one in what})
    return said


def alignment(source: str, target: str) -> list[set[int]]:
    """For each English word the French words that say one of its places; empty for a word that has none."""
    french, english = places(source, "fr"), places(target, "en")
    return [{j for j, theirs in enumerate(french) if mine & theirs} for mine in english]


def by_words(weights: Float[np.ndarray, "heads t_t t_s"], target_pieces: list[str], source_pieces: list[str]) -> Float[np.ndarray, "heads words words"]:
    """Attention of words to words: the row of a word's first piece, summed over the pieces of each French word; <eos> is left out on both sides."""
    rows, columns = _owners(target_pieces), _owners(source_pieces)
    first = [rows.index(word) for word in range(max(rows) + 1)]
    return np.stack([weights[:, first][:, :, [c for c, owner in enumerate(columns) if owner == word]].sum(-1) for word in range(max(columns) + 1)], -1)


def _owners(pieces: Iterable[str]) -> list[int]:
    """The number of the word that each piece belongs to; −1 for <eos>."""
    text = "".join(piece for piece in pieces if not piece.startswith("<"))
    ends = np.cumsum([len(word) for word in words(text)])
    owners, at = [], 0
    for piece in pieces:
        if piece.startswith("<"):
            owners.append(-1)
        else:
            owners.append(int(np.searchsorted(ends, at, side="right")))
            at += len(piece)
    return owners


def agreement(weights: Float[np.ndarray, "heads words words"], wanted: list[set[int]]) -> tuple[np.ndarray, int]:
    """For each head, in how many of the aligned words the French word looked at most is one of the rule's; and how many aligned words there are."""
    aligned = [place for place, some in enumerate(wanted) if some]
    looked = weights.argmax(-1)
    return np.array([sum(int(head[place]) in wanted[place] for place in aligned) for head in looked]), len(aligned)
