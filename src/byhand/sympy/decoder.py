"""Document 2's decoder stack on exact numbers, or on numbers to any number of digits."""

from collections.abc import Sequence

from ..config import Config
from ..parameters import decoder_shapes
from .layers import BLOCKS, Wiring
from .passes import Forward, carried, check_digits, check_tokens, fitting, gathered, lengths_of


def forward(
    params: dict,
    config: Config,
    tokens: Sequence[Sequence[int]],
    lengths: Sequence[int] | None = None,
    digits: int | None = None,
) -> Forward:
    """logits = norm(blocks(√d E[tokens])) W + b, exactly; a post-norm stack has no last norm

    Parameters are matrices, arrays or nested lists of exact numbers or floats (a float counts as the fraction that it is). With
    `digits` every stage is evaluated to that many digits instead of exactly. Raises ValueError for an unknown, missing or
    misshapen parameter and a length that does not fit; IndexError for a token outside the vocabulary.
    Sources: Radford et al. 2019 for the pre-norm stack, Xiong et al. 2020 for where the norm stands.
    """
    check_digits(digits)
    shapes = decoder_shapes(config)
    check_tokens("tokens", tokens, config.target_vocab)

    def run_with(carry, params):
        return run(carry, params, config, tokens, lengths)

    return carried(run_with, fitting(params, shapes), digits)


def run(carry, params, config, tokens, lengths=None) -> Forward:
    """The wiring, the same for every way of carrying a value: each sequence on its own, its stages gathered by name."""
    lengths = lengths_of("lengths", lengths, tokens)
    passes = [_sequence(carry, params, config, tuple(map(int, row)), int(n)) for row, n in zip(tokens, lengths, strict=True)]
    return gathered(passes)


def _sequence(carry, params, config, tokens, length):
    wired = Wiring(carry, params, config)
    past = tuple(tuple(j <= t and j < length for j in range(len(tokens))) for t in range(len(tokens)))
    positions = tuple(range(len(tokens))) if config.positions == "rope" else None
    x = wired.embed("", "embedding", tokens, "positions")
    for i in range(config.n_layers):
        x = BLOCKS[config.norm](wired, f"block.{i}", x, past, positions)
    if config.norm_position.last:
        x = wired.norm("norm", x)
    wired.logits(wired.record("out", x), "embedding")
    return wired.record.kept
