"""Passages with a standing, and BM25 over all of them: retrieval finds text, it does not decide what the text is worth."""

import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import bm25s
import numpy as np

from .language import SYNONYMS, Speller, words


@dataclass(frozen=True)
class Passage:
    """One version of one document, and what it is worth on the day: its standing."""

    id: str
    kind: str  # catalogue | policy | leaflet
    topic: str
    title: str
    text: str
    standing: str  # in force | superseded | not yet in force | lapsed | conflicting | unreviewed

    @property
    def sentences(self) -> list[str]:
        return split_sentences(self.text)


@dataclass(frozen=True)
class Hit:
    passage: Passage
    score: float  # BM25
    coverage: float  # share of the question's weight that the passage's words cover, 0 to 1


def split_sentences(text: str) -> list[str]:
    """Split after '.', '!' or '?' followed by white space ('1.4 kg' stays whole)."""
    return [s for s in re.split(r"(?<=[.!?])\s+", text.strip()) if s]


def load_passages(connection: sqlite3.Connection, today: date) -> list[Passage]:
    """All documents with their standing on that day; a document without text is not a passage."""
    rows = connection.execute("SELECT * FROM documents WHERE text <> '' ORDER BY id").fetchall()
    by_topic = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    return [Passage(r["id"], r["kind"], r["topic"], r["title"], r["text"], _standing(r, by_topic[r["topic"]], str(today))) for r in rows]


def _standing(row: sqlite3.Row, same_topic: list[sqlite3.Row], today: str) -> str:
    """Which version of a topic holds: the latest that has begun and not lapsed. No date, or one date twice: nobody can say."""
    if row["kind"] != "policy":
        return "in force" if row["kind"] == "catalogue" else "unreviewed"
    if row["valid_from"] and row["valid_from"] > today:
        return "not yet in force"
    if row["valid_until"] and row["valid_until"] < today:
        return "lapsed"
    rivals = [r for r in same_topic if (r["valid_from"] or "") <= today and (r["valid_until"] or today) >= today]
    dates = [r["valid_from"] for r in rivals]
    if len(rivals) > 1 and (None in dates or dates.count(max(dates)) > 1):
        return "conflicting"
    return "in force" if row["valid_from"] is None or row["valid_from"] == max(dates) else "superseded"


class Index:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over title and text of every passage, stale and unreviewed ones included.

    `embeddings`, where given, adds the passages whose sentences mean most nearly what the question means.
    """

    def __init__(self, passages: Sequence[Passage], embeddings: "Embeddings | None" = None):
        if not passages:
            raise ValueError("passages: there are none; it must hold at least one passage to search")
        self.passages, self.embeddings = list(passages), embeddings
        self._bags = [words(f"{p.title} {p.text}") for p in self.passages]
        self._bm25 = bm25s.BM25(backend="numpy")
        self._bm25.index(list(map(list, self._bags)), show_progress=False)
        self._frequency = defaultdict(int)
        for bag in self._bags:
            for word in set(bag):
                self._frequency[word] += 1
        self.sentences = [(p, text) for p in self.passages for text in p.sentences]
        self._row = {(p.id, text): i for i, (p, text) in enumerate(self.sentences)}

    @cached_property
    def speller(self) -> Speller:
        """Corrects towards the words of the documents and their synonyms."""
        return Speller([f"{p.title} {p.text}" for p in self.passages], [SYNONYMS.read_text("utf-8").replace("_", " ")])

    @cached_property
    def vectors(self) -> np.ndarray:
        """One unit vector for each sentence, read with its title."""
        return self.embeddings.encode([f"{p.title}: {text}" for p, text in self.sentences])

    def meaning(self, question: str) -> dict[tuple[str, str], float]:
        """Cosine of the question with every sentence, by (passage id, sentence); empty without a model."""
        if self.embeddings is None or not question.strip():
            return {}
        cosines = self.vectors @ self.embeddings.encode([question])[0]
        return {key: float(cosines[i]) for key, i in self._row.items()}

    def weight(self, word: str) -> float:
        """ln(1 + (N - n + 1/2)/(n + 1/2)): a word of n passages among N; a word of no passage weighs most."""
        n = self._frequency.get(word, 0)
        return math.log(1 + (len(self.passages) - n + 0.5) / (n + 0.5))

    def coverage(self, wanted: Sequence[str], available: Sequence[str]) -> float:
        """The weight of the wanted words that are available, as a share of the weight of all wanted words."""
        wanted = set(wanted)
        total = sum(map(self.weight, sorted(wanted)))
        return sum(map(self.weight, sorted(wanted & set(available)))) / total if total else 0.0

    def search(self, question: str, k: int = 8) -> list[Hit]:
        """The k best passages with a positive score, best first; equal scores in the order of their ids."""
        query = words(question)
        if all(word.isdigit() for word in query):  # figures alone are about everything and nothing
            return []
        scores = self._bm25.get_scores(list(query))
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], self.passages[i].id))[:k]
        return [Hit(self.passages[i], float(scores[i]), self.coverage(query, self._bags[i])) for i in order if scores[i] > 0]
