import dataclasses

import pytest

from byhand import Config
from byhand.config import ACTIVATIONS, NORMS

SIZES = dict(d_model=4, n_heads=2, d_ff=8, n_layers=1, source_vocab=3, target_vocab=5)


def test_what_is_not_given():
    config = Config(**SIZES)
    assert (config.d_k, config.d_v, config.n_kv_heads) == (2, 2, 2)
    assert (config.norm, config.norm_kind, config.eps, config.positions, config.activation) == ("post", "layer", 1e-5, "sinusoidal", "relu")
    assert config.tied is False and config.max_length is None
    assert (config.biases, config.scaled, config.pairing, config.shared) == (("feed_forward", "output"), True, "interleaved", False)


def test_a_config_does_not_change_and_equal_ones_are_equal():
    config = Config(**SIZES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 8
    assert config == Config(**SIZES) and hash(config) == hash(Config(**SIZES))
    assert dataclasses.replace(config, d_k=3).d_k == 3


def test_widths_of_the_heads_may_be_given():
    config = Config(**SIZES | dict(d_model=6, n_heads=4, d_k=3, d_v=1))
    assert (config.d_k, config.d_v) == (3, 1)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (dict(d_model=5, positions="none"), "d_model was 5, which n_heads = 2 does not divide; it must be a multiple of n_heads, or d_k must be given"),
        (dict(d_model=5, d_k=2, positions="none"), "or d_v must be given"),
        (dict(d_model=5, d_k=2, d_v=2), "d_model was 5; with sinusoidal positions it must be even"),
        (dict(d_k=3, positions="rope"), "d_k was 3; with rope it must be even"),
        (dict(eps=-1e-9), "eps was -1e-09; it must be a finite number of at least 0"),
        (dict(eps=float("nan")), "eps was nan"),
        (dict(eps="1e-5"), "eps was '1e-5'; it must be a finite number"),
        (dict(eps=None), "eps was None"),
        (dict(tied="no"), "tied was 'no'; it must be True or False"),
        (dict(eps=float("inf")), "eps was inf"),
        (dict(d_model=0), "d_model was 0; it must be a whole number of at least 1"),
        (dict(n_heads=-1), "n_heads was -1"),
        (dict(d_ff=0), "d_ff was 0"),
        (dict(n_layers=0), "n_layers was 0"),
        (dict(source_vocab=0), "source_vocab was 0"),
        (dict(target_vocab=2.0), "target_vocab was 2.0"),
        (dict(d_k=0), "d_k was 0"),
        (dict(d_v=True), "d_v was True"),
        (dict(n_kv_heads=0), "n_kv_heads was 0"),
        (dict(n_heads=4, n_kv_heads=3), "n_kv_heads was 3; it must divide n_heads = 4"),
        (dict(max_length=0), "max_length was 0"),
        (dict(norm="middle"), "norm was 'middle'; it must be one of 'post', 'pre'"),
        (dict(norm_kind="batch"), "norm_kind was 'batch'"),
        (dict(positions="relative"), "positions was 'relative'; it must be one of 'sinusoidal', 'learned', 'rope', 'none'"),
        (dict(positions="learned"), "max_length was None; with learned positions it must be given"),
        (dict(biases="attention"), "biases was 'attention'; it must be a tuple or a list of some of 'attention', 'feed_forward', 'output'"),
        (dict(biases=("attention", "norm")), "biases was ('attention', 'norm')"),
        (dict(biases=(0,)), "biases was (0,)"),
        (dict(scaled=1), "scaled was 1; it must be True or False"),
        (dict(shared=None), "shared was None"),
        (dict(shared=True), "source_vocab was 3; with a shared table it must be target_vocab, 5"),
        (dict(pairing="halves"), "pairing was 'halves'; it must be one of 'interleaved', 'half'"),
        (dict(activation="tanh"), "activation was 'tanh'"),
    ],
)
def test_what_cannot_be_meant(choices, words):
    with pytest.raises(ValueError) as error:
        Config(**SIZES | choices)
    assert words in str(error.value)


def test_eps_may_be_0():
    assert Config(**SIZES, eps=0).eps == 0


def test_the_order_of_biases_makes_no_other_model():
    assert Config(**SIZES, biases=("output", "attention")) == Config(**SIZES, biases=["attention", "output", "output"])


@pytest.mark.parametrize(("stack", "changes", "words"), [
    (True, dict(biases=()), {"block.0.feed_forward.b_1", "block.0.feed_forward.b_2", "output.b"}),
    (True, dict(biases=("attention", "feed_forward", "output")), {f"block.0.attention.b_{x}" for x in "qkvo"}),
    (True, dict(positions="learned", max_length=9), {"positions"}),
    (False, dict(positions="learned", max_length=9), {"source_positions", "target_positions"}),
    (False, dict(source_vocab=5, shared=True), {"embedding", "source_embedding", "target_embedding"}),
    (True, dict(scaled=False, pairing="half"), set()),
])  # fmt: skip
def test_what_a_choice_adds_to_the_parameters_or_takes(stack, changes, words):
    from byhand.parameters import decoder_shapes, encoder_decoder_shapes

    shapes = decoder_shapes if stack else encoder_decoder_shapes
    before, after = shapes(Config(**SIZES)), shapes(Config(**SIZES | changes))
    assert before.keys() ^ after.keys() == words
    kept = [name for name in before if name in after]
    assert kept == [name for name in after if name in before]  # in the same order


def test_every_choice_stands_on_every_floor():
    import byhand.numpy as bn
    import byhand.sympy as bs
    import byhand.torch as bt

    assert set(ACTIVATIONS) == bn.feed_forward.ACTIVATIONS.keys() == bt.feed_forward.ACTIVATIONS.keys()
    assert all(callable(getattr(bs.feed_forward, name)) for name in ACTIVATIONS)
    assert NORMS.keys() == bn.layers.BLOCKS.keys() == bs.layers.BLOCKS.keys() == bt.decoder.BLOCKS.keys()


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_position_says_where_its_norms_stand(norm):
    """What checks and shapes take from it is what a pass records."""
    from byhand import toy
    from byhand.numpy import step

    case, position = toy.block(norm), NORMS[norm]
    run = step.run(case)
    stages, gradients = run.output.activations, run.gradients.stages
    assert {name for name in position.reads} == {name.split(".")[2] for name in stages if name.startswith("block.0.norm_")}
    assert all(f"block.0.{way}" in gradients for way in position.reads.values())
    assert f"block.0.{position.feeds}" in stages and ("norm.out" in stages) == position.last
