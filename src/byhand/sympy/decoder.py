"""Document 2's decoder stack on exact numbers, or on numbers to any number of digits."""

from collections.abc import Sequence

import sympy as sp

from ..config import Config
from ..parameters import decoder_shapes
from . import linear
from .carry import Digits, Exact
from .transformer import Forward, fitting, lengths_of, mapped
from .wiring import Wiring


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
    params = checked_parameters(params, config)
    if digits is None:
        return run(Exact(), params, config, tokens, lengths)
    carry = Digits(digits)
    with carry.precision():
        out = run(carry, {name: carry.start(value) for name, value in params.items()}, config, tokens, lengths)
        return Forward(*(mapped(carry.finish, part) for part in out))


def checked_parameters(params: dict, config: Config) -> dict[str, sp.ImmutableMatrix]:
    """The parameters as exact matrices, after a check of names and shapes."""
    return fitting(params, decoder_shapes(config))


def run(carry, params, config, tokens, lengths=None) -> Forward:
    """The wiring, the same for every way of carrying a value: each sequence on its own, its stages gathered by name."""
    lengths = lengths_of("lengths", lengths, tokens)
    passes = [_sequence(carry, params, config, tuple(map(int, row)), int(n)) for row, n in zip(tokens, lengths, strict=True)]
    activations = {name: tuple(one[name] for one in passes) for name in passes[0]}
    if "positions" in activations:
        activations["positions"] = activations["positions"][0]  # the same for every sequence
    return Forward(activations["logits"], activations)


def _sequence(carry, params, config, tokens, length):
    wired = Wiring(carry, params, config)
    past = tuple(tuple(j <= t and j < length for j in range(len(tokens))) for t in range(len(tokens)))
    positions = tuple(range(len(tokens))) if config.positions == "rope" else None
    x = wired.embed("", "embedding", tokens)
    for i in range(config.n_layers):
        x = BLOCKS[config.norm](wired, f"block.{i}", x, past, positions)
    if config.last_norm:
        x = wired.norm("norm", x)
    wired.logits(wired.record("out", x), "embedding")
    return wired.record.kept


def pre_norm_block(wired: Wiring, block: str, x, mask, positions=None):
    """u = x + attention(norm₁(x)),  y = u + FFN(norm₂(u))"""
    normed = wired.norm(f"{block}.norm_1", x)
    u = wired(f"{block}.residual_1", linear.add, x, wired.attend(f"{block}.attention", normed, normed, mask, positions))
    return wired(f"{block}.residual_2", linear.add, u, wired.feed(f"{block}.feed_forward", wired.norm(f"{block}.norm_2", u)))


def post_norm_block(wired: Wiring, block: str, x, mask, positions=None):
    """u = norm₁(x + attention(x)),  y = norm₂(u + FFN(u))"""
    u = wired(f"{block}.residual_1", linear.add, x, wired.attend(f"{block}.attention", x, x, mask, positions))
    u = wired.norm(f"{block}.norm_1", u)
    return wired.norm(f"{block}.norm_2", wired(f"{block}.residual_2", linear.add, u, wired.feed(f"{block}.feed_forward", u)))


BLOCKS = {"pre": pre_norm_block, "post": post_norm_block}
