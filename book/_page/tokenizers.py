"""Stands in for `tokenizers`, which is not pure Python: reading a byte-pair vocabulary that it wrote, and encoding by it."""

import json
import re
from types import SimpleNamespace

from byhand_page import Missing

Regex = decoders = models = pre_tokenizers = trainers = Missing("tokenizers")


class Tokenizer:
    """Of a stored vocabulary: each piece of the text is its characters, joined by the merges in their order."""

    def __init__(self, model=None):
        if not isinstance(model, dict):
            Regex()  # making one is what is missing here
        self.vocabulary = dict(model["model"]["vocab"])
        self.names = {number: piece for piece, number in self.vocabulary.items()}
        merges = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["model"]["merges"])
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self.pieces = re.compile(model["pre_tokenizer"]["pattern"]["Regex"].replace(r"\p{L}", r"[^\W\d_]"), re.DOTALL)

    @classmethod
    def from_str(cls, text):
        return cls(json.loads(text))

    def token_to_id(self, piece):
        return self.vocabulary.get(piece)

    def id_to_token(self, number):
        return self.names.get(number)

    def get_vocab(self):
        return dict(self.vocabulary)

    def get_vocab_size(self):
        return len(self.vocabulary)

    def encode(self, text, add_special_tokens=True):
        pieces = [part for found in self.pieces.findall(text) for part in self._merged(list(found))]
        return SimpleNamespace(ids=[self.vocabulary[piece] for piece in pieces], tokens=pieces)

    def _merged(self, parts):
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts
