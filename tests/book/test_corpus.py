import hashlib

FROZEN = "c25b99d491209191423869d0c5842260da5a981a07935823da420837c079061c"


def test_the_corpus_is_the_frozen_one(root):
    text = (root / "book/stack/corpus.txt").read_bytes()
    assert hashlib.sha256(text).hexdigest() == FROZEN, "training runs and tokenizers depend on it: do not edit it"
    assert text.isascii() and text.endswith(b".\n") and len(text) > 150_000
