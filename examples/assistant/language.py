"""From a customer's words to the documents' words: spelling, phrases, stems, synonyms."""

import re
import threading
from collections.abc import Iterable
from functools import cache, lru_cache

import snowballstemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS
from rapidfuzz.distance import OSA
from rapidfuzz.process import extract
from spellchecker import SpellChecker

from .shop import HERE

NEUTRAL = HERE / "data" / "neutral.txt"  # beside the library's list: small talk, general verbs, comparisons
STOPWORDS = frozenset(STOPWORDS_EN_PLUS) - {"down"} | {
    word for line in NEUTRAL.read_text("utf-8").splitlines() if not line.startswith("#") for word in line.split()}  # fmt: skip
SMALL_WORDS = frozenset(w for w in STOPWORDS if len(w) >= 3)  # 'teh' is one of these, misspelt
SYNONYMS = HERE / "data" / "synonyms.txt"
DECIMAL = re.compile(r"\b\d+[.,]\d+")  # a measure: its parts are no words
TOKEN = re.compile(r"\w+(?:['’-]\w+)*")
RARE = 100  # a dictionary word counted less often than this may be a slip of the pen ('hern'): it is corrected like an unknown one
_local = threading.local()


def stem(word: str) -> str:
    """The English Snowball stem. A stemmer keeps its word in itself, so each thread has one of its own."""
    if not hasattr(_local, "stemmer"):
        _local.stemmer = snowballstemmer.stemmer("english")
    return _local.stemmer.stemWord(word)


@cache
def synonyms() -> tuple[dict[str, str], re.Pattern, dict[str, str], list[tuple[re.Pattern, str]], frozenset[str]]:
    """Stem → stem of its group; a pattern of all phrases; phrase → its group's words; phrases with a gap ('send … back'); all members of a group."""
    single, phrases, gaps, members = {}, {}, [], set()
    for line in SYNONYMS.read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        group = line.split()
        members.update(group)
        first = group[0] if re.search(r"[_+]", group[0]) else stem(group[0])
        for member in group:
            if "_*_" in member:
                head, tail = member.split("_*_")
                gaps.append((re.compile(rf"\b{head} ((?:[\w-]+ ){{1,3}}){tail}\b"), first.replace("+", " ")))
                continue
            if "+" in member:
                continue
            key, into = (member.replace("_", " "), phrases) if "_" in member else (stem(member), single)
            if into.get(key, first) != first:
                raise ValueError(f"synonyms.txt: {member} stands in two groups, {into[key]} and {first}; it must stand in one")
            into[key] = first
    longest = sorted(phrases, key=len, reverse=True)
    return single, re.compile(r"\b(" + "|".join(map(re.escape, longest)) + r")s?(?!\w)"), phrases, gaps, frozenset(members)


@lru_cache(maxsize=8192)  # titles and sentences come back with every question
def words(text: str) -> tuple[str, ...]:
    """Stems without stop words, one for each group of synonyms; single characters stay ('Larch 2')."""
    single, pattern, phrases, gaps, members = synonyms()
    text = DECIMAL.sub(" ", text.lower().replace("’", "'"))
    text = " ".join(pattern.sub(lambda found: f" {phrases[found[1]].replace('+', ' ')} ", text).split())
    for gap, first in gaps:
        text = gap.sub(rf"{first} \1", text)
    found = []
    for token in TOKEN.findall(text):
        if "_" in token:
            found.append(token)
        else:
            parts = [token] if stem(token) in single else re.split(r"['-]", token)
            kept = [part for part in parts if part and (part in members or not {part, part.removesuffix("s")} & STOPWORDS)]
            found += [word for s in map(stem, kept) for word in single.get(s, s).split("+")]
    return tuple(found)


@cache
def _english() -> dict[str, int]:
    return SpellChecker(language="en").word_frequency.dictionary


class Speller:
    """Corrects what is neither English nor the shop's to the nearest word in the shop's texts, or in `more`; other words stay as they are."""

    def __init__(self, texts: Iterable[str], more: Iterable[str] = ()):
        self.written = {w for text in texts for w in re.findall(r"[a-z]{3,}", text.lower())}
        self.vocabulary = self.written | {w for text in more for w in re.findall(r"[a-z]{3,}", text.lower())}
        self.known = self.vocabulary | STOPWORDS | {stem(w) for w in self.vocabulary}

    def is_word(self, word: str) -> bool:
        return word in self.known or stem(word) in self.known or _english().get(word, 0) >= RARE

    def correct(self, text: str) -> str:
        """The text with the unknown words of three letters and more replaced, where one word of the shop is close enough."""
        return re.sub(r"(?<![\w@.#/-])[A-Za-z]{3,}(?![\w@/]|\.\w|-\w)", lambda found: self._nearest(found[0]), text)

    @lru_cache(maxsize=4096)  # noqa: B019 (a speller lives as long as its index)
    def _nearest(self, word: str) -> str:
        low = word.lower()
        if self.is_word(low):
            return word
        allowed = 1 if len(low) <= 5 else 2
        usual = self.written | SMALL_WORDS
        near = extract(low, sorted(self.vocabulary | SMALL_WORDS), scorer=OSA.distance, score_cutoff=allowed, limit=5)
        near = [(distance, sorted(w) != sorted(low), len(w) < len(low), w not in usual, w[0] != low[0], -len(w), w) for w, distance, _ in near if len(w) >= 3]
        return min(near)[-1] if near else word
