"""The decoder-only stack: every parameter's gradient against PyTorch and central differences, and what causality forbids."""

import dataclasses

import numpy as np
import pytest

from byhand import Config, toy
from byhand.check import agreement, gradient_check
from byhand.numpy import decoder, layers
from byhand.numpy.loss import cross_entropy
from byhand.parameters import decoder_shapes

PYTORCH, DIFFERENCES = 1e-10, 1e-6


def _pytorch_logits(config, params, tokens, lengths):
    """The stack in PyTorch's own functions, written for this test alone: nothing of byhand's is called."""
    import torch
    from torch.nn import functional as F

    batch, time = tokens.shape
    tokens = torch.tensor(tokens)
    allowed = torch.ones(time, time, dtype=torch.bool).tril().expand(batch, 1, time, time)
    if lengths is not None:
        allowed = allowed & (torch.arange(time) < torch.tensor(lengths)[:, None])[:, None, None]

    def norm(name, x):
        gamma = params[f"{name}.gamma"]
        if config.norm_kind == "rms":
            return F.rms_norm(x, gamma.shape, gamma, config.eps)
        return F.layer_norm(x, gamma.shape, gamma, params[f"{name}.beta"], config.eps)

    def turned(x):
        if config.positions != "rope":
            return x
        angles = torch.arange(time, dtype=x.dtype)[:, None] / 10000.0 ** (torch.arange(0, config.d_k, 2, dtype=x.dtype) / config.d_k)
        half = config.pairing == "half"
        pairs = x.unflatten(-1, (2, -1)).mT if half else x.unflatten(-1, (-1, 2))
        z = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles))
        return (z.mT if half else z).flatten(-2)

    def product(name, x, w, room):
        """x w + b, where that room has biases."""
        y = x @ params[f"{name}w{w}"]
        return y + params[f"{name}b{w}"] if room in config.biases else y

    def attention(name, x):
        q, k, v = (
            product(f"{name}.", x, w, "attention").unflatten(-1, (heads, -1)).transpose(1, 2)
            for w, heads in (("_q", config.n_heads), ("_k", config.n_kv_heads), ("_v", config.n_kv_heads))
        )
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, attn_mask=allowed, enable_gqa=True)
        return product(f"{name}.", y.transpose(1, 2).flatten(2), "_o", "attention")

    def feed_forward(name, x):
        hidden = product(f"{name}.", x, "_1", "feed_forward")
        if config.activation == "swiglu":
            active = F.silu(hidden) * (x @ params[f"{name}.w_3"])
        else:
            active = F.relu(hidden) if config.activation == "relu" else F.gelu(hidden, approximate="tanh" if "tanh" in config.activation else "none")
        return product(f"{name}.", active, "_2", "feed_forward")

    x = params["embedding"][tokens] * (config.d_model**0.5 if config.scaled else 1.0)
    if config.positions == "learned":
        x = x + params["positions"][:time]
    if config.positions == "sinusoidal":
        angles = torch.arange(time, dtype=x.dtype)[:, None] / 10000.0 ** (torch.arange(0, config.d_model, 2, dtype=x.dtype) / config.d_model)
        waves = angles.sin(), angles.cos()
        x = x + (torch.cat(waves, -1) if config.pairing == "half" else torch.stack(waves, -1).flatten(1))
    for i in range(config.n_layers):
        for room, part in (("attention", attention), ("feed_forward", feed_forward)):
            norm_name = f"block.{i}.norm_{1 if room == 'attention' else 2}"
            if config.norm == "pre":
                x = x + part(f"block.{i}.{room}", norm(norm_name, x))
            else:
                x = norm(norm_name, x + part(f"block.{i}.{room}", x))
    if config.norm == "pre":
        x = norm("norm", x)
    logits = x @ (params["embedding"].T if config.tied else params["output.w"])
    return logits + params["output.b"] if "output" in config.biases else logits


def _loss(model, params):
    logits = decoder.forward(params, model.config, model.tokens, lengths=model.lengths).logits
    return cross_entropy(logits, model.targets, lengths=model.lengths)[0]


def _backward(model):
    out = decoder.forward(model.params, model.config, model.tokens, lengths=model.lengths)
    _, dlogits = cross_entropy(out.logits, model.targets, lengths=model.lengths)
    return out, dlogits


def test_the_random_stacks_cover_what_can_be_chosen(make_stack):
    configs = [make_stack(seed).config for seed in range(32)]
    mixtures = {(config.norm, config.norm_kind, config.activation) for config in configs}
    assert len(mixtures) == 2 * 2 * 4
    assert {config.positions for config in configs} == {"rope", "sinusoidal", "none", "learned"} and len({config.biases for config in configs}) == 5
    assert all({config.pairing for config in configs if config.positions == kind} == {"interleaved", "half"} for kind in ("rope", "sinusoidal"))
    assert {config.scaled for config in configs} == {True, False}
    assert {(config.tied, config.norm) for config in configs} == {(True, "pre"), (True, "post"), (False, "pre"), (False, "post")}
    assert {config.n_heads // config.n_kv_heads for config in configs} == {1, 2, 3, 4}


def test_logits_and_every_gradient_against_pytorch(stack, unchanged):
    import torch

    with unchanged(stack.params, stack.tokens):
        out, dlogits = _backward(stack)
    with unchanged(stack.params, out.cache, dlogits):
        grads = decoder.backward(dlogits, out.cache)
    assert list(grads) == list(stack.params) == list(decoder_shapes(stack.config))
    again = decoder.backward(dlogits, out.cache)
    assert all(grads[name].tobytes() == again[name].tobytes() for name in grads)

    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in stack.params.items()}
    logits = _pytorch_logits(stack.config, leaves, stack.tokens, stack.lengths)
    assert agreement(out.logits, logits) < PYTORCH
    upstream = np.random.default_rng(0).normal(size=logits.shape)
    logits.backward(torch.tensor(upstream))
    assert agreement(decoder.backward(upstream, out.cache), {name: leaf.grad for name, leaf in leaves.items()}) < PYTORCH


def test_every_gradient_against_central_differences(stack):
    out, dlogits = _backward(stack)
    grads = decoder.backward(dlogits, out.cache)
    gradient_check(lambda params: _loss(stack, params), stack.params, grads, along="directions", h=2e-6, bound=DIFFERENCES).require()


def test_every_entry_of_the_worked_decoder_against_central_differences():
    case = toy.decoder()
    out = decoder.forward(case.params, case.config, case.decoder_input, lengths=case.target_lengths)
    _, dlogits = cross_entropy(out.logits, case.targets, lengths=case.target_lengths)

    def loss(params):
        logits = decoder.forward(params, case.config, case.decoder_input, lengths=case.target_lengths).logits
        return cross_entropy(logits, case.targets, lengths=case.target_lengths)[0]

    gradient_check(loss, case.params, decoder.backward(dlogits, out.cache), count=12, bound=DIFFERENCES).require()


def test_every_stage_has_its_gradient_and_the_ways_add_up(stack):
    out, dlogits = _backward(stack)
    grads, stages = decoder.gradients(dlogits, out.cache)
    sums = {}
    for name, value in stages.items():
        if ".via_" in name:
            sums.setdefault(name.split(".via_")[0], []).append(value)
        elif name in out.activations:
            assert value.shape == out.activations[name].shape, name
    assert len(sums) >= (3 if stack.config.norm == 'pre' else 2) * stack.config.n_layers  # the forks of a block
    for name, parts in sums.items():
        assert agreement(sum(parts), stages[name] if name in stages else grads[name]) < 1e-14, name
    inner = ("mean", "var", "mean_square", "normalised")  # what the norms' own formula does in one go
    missing = {name for name in out.activations if name not in stages and name.rsplit(".", 1)[-1] not in inner}
    assert missing <= {"embedded", "positions"}


def test_a_stages_gradient_is_what_pytorch_finds_there():
    """The stages of the worked decoder: each is nudged by a random direction that autograd and the stage's gradient both price."""
    case = toy.decoder()
    out = decoder.forward(case.params, case.config, case.decoder_input)
    _, dlogits = cross_entropy(out.logits, case.targets)
    stages = decoder.gradients(dlogits, out.cache).stages
    # out = norm(residual_2 of the last block): the loss as a function of that stage alone
    from byhand.numpy.norm import rms_norm

    def loss(residual):
        x, _ = rms_norm(residual, case.params["norm.gamma"], case.config.eps)
        return cross_entropy(x @ case.params["output.w"] + case.params["output.b"], case.targets)[0]

    name = "block.1.residual_2"
    gradient_check(loss, out.activations[name], stages[name], along="directions").require()

    # the loss as a function of the last block's input
    def through_the_block(x):
        y, _ = layers.pre_norm_block(x, layers.Rooms(case.params, case.config, "block.1"), positions=np.arange(x.shape[1]))
        return loss(y)

    gradient_check(through_the_block, out.activations["block.0.residual_2"], stages["block.1.input"], along="directions").require()


def test_a_changed_future_changes_nothing_before_it(stack):
    time = stack.tokens.shape[1]
    logits = decoder.forward(stack.params, stack.config, stack.tokens).logits
    for t in range(1, time):
        changed = stack.tokens.copy()
        changed[:, t:] = (changed[:, t:] + 1) % stack.config.target_vocab
        other = decoder.forward(stack.params, stack.config, changed).logits
        assert agreement(other[:, :t], logits[:, :t]) < 1e-13
        assert agreement(other[:, t:], logits[:, t:]) > 1e-6


def test_padding_changes_nothing_that_is_scored(stack):
    if stack.lengths is None:
        return
    logits = decoder.forward(stack.params, stack.config, stack.tokens, lengths=stack.lengths).logits
    changed = stack.tokens.copy()
    for row, length in enumerate(stack.lengths):
        alone = decoder.forward(stack.params, stack.config, stack.tokens[row : row + 1, :length]).logits
        assert agreement(logits[row, :length], alone[0]) < 1e-12
        changed[row, length:] = (changed[row, length:] + 1) % stack.config.target_vocab
    other = decoder.forward(stack.params, stack.config, changed, lengths=stack.lengths).logits
    for row, length in enumerate(stack.lengths):
        assert agreement(other[row, :length], logits[row, :length]) < 1e-13


def test_a_tied_table_adds_both_its_gradients(make_stack):
    tied = next(model for model in map(make_stack, range(32)) if model.config.tied)
    out, dlogits = _backward(tied)
    grads, stages = decoder.gradients(dlogits, out.cache)
    untied = dataclasses.replace(tied.config, tied=False)
    params = tied.params | {"output.w": tied.params["embedding"].T}
    twin = decoder.forward(params, untied, tied.tokens, lengths=tied.lengths)
    assert agreement(twin.logits, out.logits) < 1e-13
    twin_grads = decoder.backward(dlogits, twin.cache)
    assert agreement(grads["embedding"], twin_grads["embedding"] + twin_grads["output.w"].T) < 1e-13
    assert agreement(stages["embedding.via_output"], twin_grads["output.w"].T) < 1e-13
    assert "output.w" not in grads


@pytest.mark.parametrize("seed", range(8))
def test_float32_stays_float32_and_agrees(make_stack, seed):
    model = make_stack(seed)
    single = {name: value.astype(np.float32) for name, value in model.params.items()}
    out = decoder.forward(single, model.config, model.tokens, lengths=model.lengths)
    _, dlogits = cross_entropy(out.logits, model.targets, lengths=model.lengths)
    grads, stages = decoder.gradients(dlogits, out.cache)
    assert {array.dtype for array in (*out.activations.values(), *grads.values(), *stages.values(), *out.kv_cache.keys)} == {np.dtype(np.float32)}
    right, right_dlogits = _backward(model)
    assert agreement(out.logits, right.logits) < 1e-4
    assert agreement(grads, decoder.backward(right_dlogits, right.cache)) < 5e-3


def test_the_loss_falls_when_it_is_trained():
    from byhand.numpy.loss import next_token
    from byhand.numpy.optimizer import adam

    config = Config(
        d_model=12, n_heads=4, n_kv_heads=2, d_k=4, d_v=4, d_ff=16, n_layers=2, source_vocab=1, target_vocab=5,
        norm="pre", norm_kind="rms", positions="rope", activation="swiglu", tied=True,
    )  # fmt: skip
    params, state = decoder.init(config), None
    batch = next_token(np.array([[0, 1, 2, 3, 4, 0, 1, 2], [0, 4, 3, 2, 1, 0, 4, 3]]))
    losses = []
    for _ in range(60):
        out = decoder.forward(params, config, batch.inputs)
        value, dlogits = cross_entropy(out.logits, batch.targets)
        losses.append(value)
        params, state = adam(params, decoder.backward(dlogits, out.cache), state, lr=1e-2)
    assert losses[0] > 1.4 and losses[-1] < 0.2


def test_init_draws_what_the_shapes_say_and_repeats_itself():
    config = toy.decoder().config
    params = decoder.init(config, seed=3)
    assert {name: value.shape for name, value in params.items()} == decoder_shapes(config)
    assert all((params[name] == value).all() for name, value in decoder.init(config, seed=3).items())
    assert decoder.init(config, dtype=np.float32)["embedding"].dtype == np.float32


def _decoder(**changes):
    case = toy.decoder()
    return case.params, dataclasses.replace(case.config, **changes), case.decoder_input


def test_too_long_a_sequence():
    params, config, tokens = _decoder(max_length=6)
    with pytest.raises(ValueError, match="tokens had time 7; together they must be at most max_length, 6"):
        decoder.forward(params, config, tokens)


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda t: t + 9, IndexError, "tokens held the token"),
    (lambda t: -1 - t, IndexError, "tokens held the token -"),
    (lambda t: t[0], ValueError, r"tokens had shape \(7,\)"),
    (lambda t: t[:, :0], ValueError, r"tokens had shape \(3, 0\)"),
    (lambda t: t * 1.0, ValueError, "tokens was float64"),
    (lambda t: t.tolist(), ValueError, "tokens was list"),
])  # fmt: skip
def test_tokens_that_cannot_be_meant(change, error, words):
    params, config, tokens = _decoder()
    with pytest.raises(error, match=words):
        decoder.forward(params, config, change(tokens))


@pytest.mark.parametrize("lengths", [[7, 0, 3], [8, 7, 7], [7, 7], [7.0, 7.0, 7.0]])
def test_lengths_that_cannot_be_meant(lengths):
    params, config, tokens = _decoder()
    with pytest.raises(ValueError, match="lengths h"):
        decoder.forward(params, config, tokens, lengths=np.array(lengths))


@pytest.mark.parametrize(("change", "words"), [
    ({"norm.beta": np.zeros(6)}, "parameter 'norm.beta' is unknown"),
    ({"norm.gamma": np.zeros(5)}, r"parameter 'norm.gamma' had shape \(5,\)"),
    ({"norm.gamma": np.full(6, np.nan)}, "parameter 'norm.gamma' holds a value that is not finite"),
    ({"norm.gamma": np.ones(6, int)}, "parameter 'norm.gamma' had dtype int64"),
    ({"block.0.attention.w_k": np.zeros((6, 32))}, r"parameter 'block.0.attention.w_k' had shape \(6, 32\); it must be \(6, 16\)"),
])  # fmt: skip
def test_parameters_that_cannot_be_meant(change, words):
    params, config, tokens = _decoder()
    with pytest.raises(ValueError, match=words):
        decoder.forward(params | change, config, tokens)


def test_a_missing_parameter():
    params, config, tokens = _decoder()
    del params["block.1.feed_forward.w_3"]
    with pytest.raises(ValueError, match="parameter 'block.1.feed_forward.w_3' is missing"):
        decoder.forward(params, config, tokens)


def test_an_activation_that_is_not_finite_is_named():
    params, config, tokens = _decoder()
    params["block.1.feed_forward.w_2"] = params["block.1.feed_forward.w_2"] * 1e308
    params["block.1.feed_forward.w_1"] = params["block.1.feed_forward.w_1"] * 1e10
    with pytest.raises(ValueError, match="activation 'block.1.feed_forward.out' is the first that is not finite"), np.errstate(all="ignore"):
        decoder.forward(params, config, tokens)


def test_a_gradient_of_another_shape():
    params, config, tokens = _decoder()
    out = decoder.forward(params, config, tokens)
    with pytest.raises(ValueError, match=r"dlogits had shape \(3, 7, 8\)"):
        decoder.backward(out.logits[..., :8], out.cache)


@pytest.mark.parametrize(("choice", "words"), [
    ({"d_k": 7}, "d_k was 7; with rope it must be even"),
    ({"n_kv_heads": 3}, "n_kv_heads was 3; it must divide n_heads = 4"),
    ({"activation": "elu"}, "activation was 'elu'"),
    ({"norm": "middle"}, "norm was 'middle'"),
    ({"norm_kind": "batch"}, "norm_kind was 'batch'"),
    ({"positions": "relative"}, "positions was 'relative'"),
    ({"max_length": 0}, "max_length was 0"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_meant(choice, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(toy.decoder().config, **choice)


@pytest.mark.parametrize("keep", [True, False])
def test_a_row_whose_square_overflows_is_named(keep):
    """Divided by its infinite size it would be a row of zeros, and the logits finite."""
    params, config, tokens = _decoder()
    params["block.1.feed_forward.w_2"] = params["block.1.feed_forward.w_2"] * 1e200
    with pytest.raises(ValueError, match=r"activation 'norm\.(var|mean_square)' is the first"), np.errstate(all="ignore"):
        decoder.forward(params, config, tokens, keep=keep)


def test_a_gradient_that_is_not_finite():
    params, config, tokens = _decoder()
    out = decoder.forward(params, config, tokens)
    with pytest.raises(ValueError, match="dlogits held nan at"):
        decoder.backward(out.logits * np.nan, out.cache)
