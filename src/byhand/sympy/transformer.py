"""Document 1's encoder-decoder on exact numbers, or on numbers to any number of digits."""

from collections.abc import Sequence

from ..config import Config
from ..parameters import encoder_decoder_shapes
from .layers import Wiring, decoder_layer, post_norm_block
from .passes import Forward, carried, check_digits, check_tokens, fitting, gathered, lengths_of


def forward(
    params: dict,
    config: Config,
    source: Sequence[Sequence[int]],
    decoder_input: Sequence[Sequence[int]],
    source_lengths: Sequence[int] | None = None,
    target_lengths: Sequence[int] | None = None,
    digits: int | None = None,
) -> Forward:
    """logits = decoder(decoder_input, encoder(source)) W + b, exactly

    Parameters are matrices, arrays or nested lists of exact numbers or floats (a float counts as the fraction that it is).
    With `digits` every stage is evaluated to that many digits instead of exactly: closed forms of general weights grow out of hand.
    Raises ValueError for a model that is not document 1's kind (post-norm layer norm, ReLU, positions added or none), for an unknown,
    missing or misshapen parameter and a length that does not fit; IndexError for a token outside the vocabulary.
    Source: Vaswani et al. 2017, figure 1.
    """
    check_digits(digits)
    shapes = encoder_decoder_shapes(config)
    check_tokens("source", source, config.source_vocab)
    check_tokens("decoder_input", decoder_input, config.target_vocab)
    if len(source) != len(decoder_input):
        raise ValueError(f"source had {len(source)} sequences and decoder_input {len(decoder_input)}; they must have as many")

    def run_with(carry, params):
        return run(carry, params, config, source, decoder_input, source_lengths, target_lengths)

    return carried(run_with, fitting(params, shapes), digits)


def run(carry, params, config, source, decoder_input, source_lengths=None, target_lengths=None) -> Forward:
    """The wiring, the same for every way of carrying a value: each sequence on its own, its stages gathered by name."""
    source_lengths = lengths_of("source_lengths", source_lengths, source)
    target_lengths = lengths_of("target_lengths", target_lengths, decoder_input)
    passes = [
        _sequence(carry, params, config, tuple(map(int, s)), tuple(map(int, t)), int(n), int(m))
        for s, t, n, m in zip(source, decoder_input, source_lengths, target_lengths, strict=True)
    ]
    return gathered(passes)


def _sequence(carry, params, config, source, decoder_input, source_length, target_length):
    """One sequence from its tokens to its logits; returns every stage by name."""
    wired = Wiring(carry, params, config)

    source_table, target_table = config.tables
    x = wired.embed("encoder.", source_table, source, "source_positions")
    of_source = tuple(j < source_length for j in range(len(source)))
    for i in range(config.n_layers):
        x = post_norm_block(wired, f"encoder.{i}", x, (of_source,) * len(source), room="self_attention")
    memory = wired.record("encoder.memory", x)

    y = wired.embed("decoder.", target_table, decoder_input, "target_positions")
    past = tuple(tuple(j <= t and j < target_length for j in range(len(decoder_input))) for t in range(len(decoder_input)))
    for i in range(config.n_layers):
        y = decoder_layer(wired, f"decoder.{i}", y, memory, past, (of_source,) * len(decoder_input))
    wired.logits(wired.record("decoder.out", y), target_table)
    return wired.record.kept
