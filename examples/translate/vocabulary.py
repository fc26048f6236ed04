"""Word pieces by `tokenizers`: byte-pair encoding that gives back every sentence exactly, and names a character it has never met."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ("<pad>", "<bos>", "<eos>")
PAD, START, END = range(3)  # their numbers
PIECES = r"[ -]?\p{L}+|\d|."  # a word with the space or hyphen before it, a single digit, or any other single character


class Vocabulary:
    """Numbers for word pieces: `encode` a sentence, `decode` numbers; <pad>, <bos> and <eos> are 0, 1 and 2."""

    def __init__(self, tokenizer: Tokenizer):
        for number, name in enumerate(SPECIAL):
            if tokenizer.token_to_id(name) != number:
                raise ValueError(f"the vocabulary had {name} at {tokenizer.token_to_id(name)}; it must be number {number}")
        self.tokenizer = tokenizer
        self.characters = {token for token in tokenizer.get_vocab() if len(token) == 1}

    @classmethod
    def train(cls, sentences: Iterable[str], size: int) -> "Vocabulary":
        """At most `size` pieces. The order of the sentences does not matter.

        Raises ValueError where there is no sentence, or where the characters alone are more than `size`.
        """
        sentences = sorted(sentences)
        if not any(sentences):
            raise ValueError("sentences held no text; a vocabulary needs at least one sentence")
        alphabet = sorted(set("".join(sentences)))
        if size < len(alphabet) + len(SPECIAL):
            raise ValueError(f"size was {size}; the {len(alphabet)} characters and {', '.join(SPECIAL)} alone need {len(alphabet) + len(SPECIAL)}")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
        tokenizer.decoder = decoders.Fuse()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(sentences, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Raises ValueError, naming the file, for one that is no vocabulary."""
        try:
            return cls(Tokenizer.from_str(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise
        except Exception as error:  # tokenizers raises Exception itself
            raise ValueError(f"{path} holds no vocabulary: {error}") from error

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, sentence: str) -> list[int]:
        """The numbers of a sentence's pieces, without <bos> and <eos>.

        Raises ValueError for an empty sentence, and for one with a character that the vocabulary lacks, by name.
        """
        if not sentence:
            raise ValueError("the sentence was empty; it must have at least one character")
        for place, character in enumerate(sentence):
            if character not in self.characters:
                raise ValueError(f"the sentence has {character!r} (U+{ord(character):04X}) at place {place}, which is in no sentence of the training part")
        pieces = list(SPECIAL)
        if any(name in sentence for name in pieces):
            raise ValueError(f"the sentence holds one of {', '.join(SPECIAL)}; these stand for no text")
        return self.tokenizer.encode(sentence, add_special_tokens=False).ids

    def pieces(self, numbers: Iterable[int]) -> list[str]:
        """The text of each piece; <eos> and the others under their names."""
        return [self.tokenizer.id_to_token(int(number)) for number in numbers]

    def decode(self, numbers: Iterable[int]) -> str:
        """The sentence: the pieces one after another, without <pad>, <bos> and <eos>."""
        return "".join(piece for piece in self.pieces(numbers) if piece not in SPECIAL)
