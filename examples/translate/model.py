"""A trained model as files, and the translator that runs it on the package's own NumPy."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import byhand.numpy as bn
from byhand import Config
from byhand.parameters import check_params, encoder_decoder_shapes

from .search import Hypothesis, beam_search
from .vocabulary import END, START, Vocabulary

HERE = Path(__file__).parent
TRAINED = HERE / "trained"


def save(folder: str | Path, weights: dict, config: Config, source: Vocabulary, target: Vocabulary, dtype=np.float32) -> None:
    """weights.safetensors, config.json and the two vocabularies."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: np.ascontiguousarray(value, dtype=dtype) for name, value in weights.items()}, folder / "weights.safetensors")
    (folder / "config.json").write_text(json.dumps(asdict(config), indent=1) + "\n", encoding="utf-8")
    source.save(folder / "source.json")
    target.save(folder / "target.json")


class Translation(NamedTuple):
    """A translation, its pieces, and where each of them looked: weights[layer] is (heads, target pieces, source pieces)."""

    text: str
    pieces: list[str]
    source_pieces: list[str]
    hypotheses: list[Hypothesis]
    weights: list[np.ndarray]


class Translator:
    """A trained model, by byhand.numpy alone."""

    def __init__(self, params: dict[str, np.ndarray], config: Config, source: Vocabulary, target: Vocabulary):
        self.params, self.config, self.source, self.target = params, config, source, target

    @classmethod
    def load(cls, folder: str | Path = TRAINED, dtype=np.float32) -> "Translator":
        """A model that `save` wrote, its weights in this dtype.

        Raises ValueError naming the file that is missing, damaged or of another model.
        """
        folder = Path(folder)
        for name in ("weights.safetensors", "config.json", "source.json", "target.json"):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} lacks {name}; a trained model has it")
        try:
            config = Config(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
            params = {name: value.astype(dtype) for name, value in load_file(folder / "weights.safetensors").items()}
            check_params(params, encoder_decoder_shapes(config))
        except (ValueError, TypeError, SafetensorError) as error:
            raise ValueError(f"{folder} holds no model: {error}") from error
        source, target = (Vocabulary.load(folder / name) for name in ("source.json", "target.json"))
        if (len(source), len(target)) != (config.source_vocab, config.target_vocab):
            raise ValueError(
                f"{folder} has vocabularies of {len(source)} and {len(target)} pieces; config.json says {config.source_vocab} and {config.target_vocab}"
            )
        return cls(params, config, source, target)

    def translate(self, sentence: str, width: int = 4, alpha: float = 0.6) -> Translation:
        """The likeliest translation that beam search finds (width 1: greedy).

        Raises ValueError for an empty sentence, an unknown character (named), and more pieces than the model has positions.
        """
        numbers = self.source.encode(sentence) + [END]
        longest = self.config.max_length or 100
        if len(numbers) > longest:
            raise ValueError(f"the sentence has {len(numbers) - 1} pieces; the model reads at most {longest - 1}")

        def step(prefixes, which):
            # every row reads the same sentence; the whole pass again for each word, as the pages have it
            logits = self._forward(numbers, prefixes).logits[:, -1]
            return _log_softmax(logits)

        hypotheses = beam_search(step, 1, START, END, longest, width, alpha)[0]
        return self.translation(numbers, hypotheses)

    def translation(self, numbers: list[int], hypotheses: list[Hypothesis]) -> Translation:
        """The best of the hypotheses as text, with where each of its pieces looked."""
        said = hypotheses[0].tokens
        out = self._forward(numbers, np.array([[START, *said[:-1]]]))
        weights = [out.activations[f"decoder.{layer}.cross_attention.weights"][0] for layer in range(self.config.n_layers)]
        return Translation(self.target.decode(said), self.target.pieces(said), self.source.pieces(numbers), hypotheses, weights)

    def _forward(self, numbers, prefixes):
        return bn.transformer.forward(self.params, self.config, np.tile(np.array(numbers), (len(prefixes), 1)), prefixes)


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
