"""How good a model is: the loss and the share of right tokens when the decoder is told the truth so far, and exact translations when it is not."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from byhand.torch.inputs import key_mask
from byhand.torch.loss import cross_entropy
from byhand.torch.transformer import Transformer

from .data import Example, batch
from .search import Hypothesis, beam_search
from .vocabulary import END, START


def log_probabilities(module: Transformer, sources: list[list[int]]):
    """beam_search's `step` for these sources: they are encoded once."""
    device = module.source_embedding.device
    padded = batch([Example(source, []) for source in sources])
    with torch.no_grad():
        numbers = torch.as_tensor(padded.source, device=device)
        mask = key_mask(torch.as_tensor(padded.source_lengths, device=device), numbers.shape[1])[:, None, None, :]
        memory = module.encode(numbers, mask)

    def step(prefixes: np.ndarray, sentence: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            which = torch.as_tensor(sentence, device=device)
            y = module.decode(torch.as_tensor(prefixes, device=device), memory[which], mask[which], None)[:, -1:]
            return module.output(y, module.target_embedding.T if module.config.tied else None)[:, 0].log_softmax(-1).float().cpu().numpy()

    return step


def translations(module: Transformer, sources: list[list[int]], width: int = 1, alpha: float = 0.6, at_once: int = 250) -> list[Hypothesis]:
    """The best hypothesis for each source; sentences of like length go together, and the answers come in the order of the sources."""
    longest = module.config.max_length or 100
    found: list = [None] * len(sources)
    places = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    for first in range(0, len(places), at_once):
        some = places[first : first + at_once]
        step = log_probabilities(module, [sources[place] for place in some])
        for place, hypotheses in zip(some, beam_search(step, len(some), START, END, longest, width, alpha), strict=True):
            found[place] = hypotheses[0]
    return found


class Score(NamedTuple):
    """Sums over examples, so that shares of several processes add up."""

    loss: float
    right: int
    tokens: int
    exact: int
    sentences: int

    def means(self) -> dict[str, float]:
        return {"loss": self.loss / self.tokens, "token accuracy": self.right / self.tokens, "exact": self.exact / self.sentences}


def score(module: Transformer, examples: list[Example], at_once: int = 250, search: bool = True) -> Score:
    """The loss (unsmoothed) and right tokens over all target tokens and <eos>, and how many are exact by greedy search; 0 of 0 for no examples."""
    device, loss, right, tokens = module.source_embedding.device, 0.0, 0, 0
    places = sorted(range(len(examples)), key=lambda place: len(examples[place].source))
    with torch.no_grad():
        for first in range(0, len(places), at_once):
            some = tensors(batch([examples[place] for place in places[first : first + at_once]]), device)
            logits = module(some["source"], some["decoder_input"], some["source_lengths"], some["target_lengths"])
            loss += cross_entropy(logits, some["targets"], lengths=some["target_lengths"], reduction="sum").item()
            scored = key_mask(some["target_lengths"], logits.shape[1])
            right += int(((logits.argmax(-1) == some["targets"]) & scored).sum())
            tokens += int(scored.sum())
    exact = 0
    if search:
        said = translations(module, [one.source for one in examples], at_once=at_once)
        exact = sum(one.tokens == [*example.target, END] for one, example in zip(said, examples, strict=True))
    return Score(loss, right, tokens, exact, len(examples))


def tensors(one, device) -> dict[str, torch.Tensor]:
    """A batch's arrays as tensors, under their names."""
    return {name: torch.as_tensor(value, device=device) for name, value in one._asdict().items()}


def average(all_weights: Iterable[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The mean of each weight, in float64 on the way.     (Vaswani et al. 2017, section 6.1: the last 5 checkpoints)

    Raises ValueError for none, and where the names differ.
    """
    all_weights = list(all_weights)
    if not all_weights:
        raise ValueError("all_weights was empty; there is nothing to average")
    if any(one.keys() != all_weights[0].keys() for one in all_weights):
        raise ValueError("all_weights had different names; only checkpoints of one model can be averaged")
    return {name: torch.stack([one[name].double() for one in all_weights]).mean(0).to(first.dtype) for name, first in all_weights[0].items()}
