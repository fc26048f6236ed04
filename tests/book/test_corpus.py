import hashlib

import corpus
import pytest

FROZEN = "c25b99d491209191423869d0c5842260da5a981a07935823da420837c079061c"


def test_the_corpus_is_the_frozen_one(root):
    text = (root / "book/stack/corpus.txt").read_bytes()
    assert hashlib.sha256(text).hexdigest() == FROZEN, "training runs and tokenizers depend on it: do not edit it"
    assert text.isascii() and text.endswith(b".\n") and len(text) > 150_000


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# A heading\n\nEvery query meets\nevery key. So it goes.", ["Every query meets every key."]),  # four words at least
        ("The weight is 0.944<!-- claim: x --> for `je` alone.", ["The weight is 0.944 for je alone."]),
        ("Read {doc}`the page <06-attention>` and [this one](x.md) too.", ["Read the page and this one too."]),
        ("It takes $T$ tokens of width 4. Here is $x^2$ in full now.", ["It takes T tokens of width 4."]),
        ("| a table | of words here. |\n\n```\nCode stands in here.\n```", []),
        ("A *strong* and **bold** word is kept. See https://example.org for more of it.", ["A strong and bold word is kept."]),
    ],
)
def test_sentences(text, expected):
    assert [sentence for paragraph in corpus.sentences(text) for sentence in paragraph] == expected
