"""The whole encoder-decoder: every gradient against central differences, and what must not depend on what. (tests/torch compares it with PyTorch.)"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from byhand import Config, toy
from byhand.check import agreement, gradient_check
from byhand.check.shapes import activation_shapes
from byhand.numpy import decoder, loss, step, transformer
from byhand.parameters import encoder_decoder_shapes

DIFFERENCES = 1e-6
H = 3e-5  # of the difference that cancels the h² term: these models are strongly curved


def _forward(case, params=None, **changes):
    tokens = dict(source=case.source, decoder_input=case.decoder_input, source_lengths=case.source_lengths, target_lengths=case.target_lengths)
    return transformer.forward(case.params if params is None else params, case.config, **tokens | changes)


def _loss(case):
    """The loss as a function of the parameters."""

    def f(params):
        logits = _forward(case, params).logits
        return loss.cross_entropy(logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)[0]

    return f


# ---- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy.document, toy.exact, toy.lively])
def test_every_entry_against_central_differences(make):
    case = make()
    gradient_check(_loss(case), case.params, step.run(case).gradients.params, bound=DIFFERENCES).require()


def test_generic_against_central_differences(kink):
    case = toy.generic()
    run = step.run(case)
    assert kink(run.output.activations) > 1e-4
    for along, count in (("directions", 2), ("entries", 2)):
        gradient_check(_loss(case), case.params, run.gradients.params, along, count, h=H, bound=DIFFERENCES, order=4).require()


def test_random_configurations_against_central_differences(model):
    run = step.run(model)
    assert {name: g.shape for name, g in run.gradients.params.items()} == encoder_decoder_shapes(model.config)
    gradient_check(_loss(model), model.params, run.gradients.params, "directions", 1, h=H, bound=DIFFERENCES, order=4).require()


def test_the_random_configurations_are_a_mixture(models):
    configs = [m.config for m in models]
    assert len(models) >= 20 and {c.n_layers for c in configs} == {1, 2, 3} and {c.tied for c in configs} == {True, False}
    assert any(c.d_k * c.n_heads != c.d_model for c in configs) and any(c.d_k != c.d_v for c in configs)
    assert sum(m.source.shape[1] != m.decoder_input.shape[1] for m in models) > 10 and any(m.source.shape[1] == m.decoder_input.shape[1] for m in models)
    assert sum(m.source_lengths is not None and (m.source_lengths < m.source.shape[1]).any() for m in models) > 5
    assert {m.reduction for m in models} == {"mean", "sum", "last"}
    assert {c.positions for c in configs} == {"sinusoidal", "none", "learned"} and len({c.biases for c in configs}) == 5
    assert {(c.pairing, c.scaled) for c in configs if c.positions == "sinusoidal"} == {(p, s) for p in ("interleaved", "half") for s in (True, False)}
    assert {(c.shared, c.tied) for c in configs} == {(s, t) for s in (True, False) for t in (True, False)}


def test_tied_weights_add_the_gradients_of_their_two_uses():
    case = toy.lively()
    tied = dataclasses.replace(case.config, tied=True)
    params = {name: value for name, value in case.params.items() if name != "output.w"}
    untied = params | {"output.w": params["target_embedding"].T.copy()}
    one = step.run(dataclasses.replace(case, config=tied, params=params)).gradients.params
    two = step.run(dataclasses.replace(case, params=untied)).gradients.params
    assert agreement(one.pop("target_embedding"), two.pop("target_embedding") + two.pop("output.w").T) < 1e-12
    assert agreement(one, two) < 1e-12


def test_each_stage_is_the_sum_of_its_paths():
    run = step.run(toy.generic())
    stages = run.gradients.stages
    heads = {name.partition(".via_")[0] for name in stages if ".via_" in name}
    assert len(heads) >= 10
    for head in heads:
        paths = [value for name, value in stages.items() if name.startswith(f"{head}.via_")]
        if head in stages:  # the memory's paths meet over all layers
            assert agreement(stages[head], sum(paths)) < 1e-12
    memory = sum(value for name, value in stages.items() if ".memory.via_" in name)
    assert agreement(stages["encoder.memory"], memory) < 1e-12


def test_a_stages_gradient_has_the_stages_shape():
    run = step.run(toy.generic())
    shapes = {name: value.shape for name, value in run.output.activations.items()}
    for name, value in run.gradients.stages.items():
        stage = name.partition(".via_")[0]
        assert value.shape == shapes.get(stage, value.shape)
    scored = {name for name in shapes if not name.endswith((".mean", ".var", ".normalised", ".embedded", ".positions"))}
    assert scored - {"encoder.memory"} <= run.gradients.stages.keys()


# ---- what does not change -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy.document, toy.lively, toy.generic])
def test_backward_twice_gives_the_same_and_nothing_that_was_passed_in_changes(make, unchanged):
    case = make()
    with unchanged(case.params, case.source, case.decoder_input, case.targets):
        out = _forward(case)
        with unchanged(out.logits):
            _, dlogits = loss.cross_entropy(out.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)
        with unchanged(out.activations, out.cache, dlogits):
            one = transformer.backward(dlogits, out.cache)
        two = transformer.backward(dlogits, out.cache)
    assert list(one) == list(case.params) and all(one[name].tobytes() == two[name].tobytes() for name in one)
    again = _forward(case)
    assert all(out.activations[name].tobytes() == again.activations[name].tobytes() for name in out.activations)


def test_the_gradients_are_nobodys_views():
    """An optimizer that works in place on a gradient must not change a parameter, the cache or another gradient."""
    case = toy.lively()
    run = step.run(case)
    grads = list(run.gradients.params.values())
    others = [*case.params.values(), *run.output.activations.values()]
    for i, g in enumerate(grads):
        assert not any(np.shares_memory(g, other) for other in others + grads[:i])


def test_float32_stays_float32_and_is_near_float64():
    case = toy.generic()
    single = dataclasses.replace(case, params={name: value.astype(np.float32) for name, value in case.params.items()})
    one, two = step.run(single), step.run(case)
    values = one.output.activations | one.gradients.params | one.gradients.stages
    assert {str(value.dtype) for value in values.values()} == {"float32"}
    assert agreement(one.output.logits, two.output.logits) < 1e-4
    assert agreement(one.gradients.params, two.gradients.params) < 1e-3


def test_changing_the_future_changes_nothing_before_it(model):
    """With unequal lengths too: a cross-attention wired the wrong way round would pass every gradient check and fail here."""
    case = _unpadded(model)
    before = _forward(case).logits
    for position in range(1, case.decoder_input.shape[1]):
        changed = case.decoder_input.copy()
        changed[:, position:] = (changed[:, position:] + 1) % case.config.target_vocab
        after = _forward(case, decoder_input=changed).logits
        assert (before[:, :position] == after[:, :position]).all()
        assert (before[:, position] != after[:, position]).any(axis=-1).all()


def test_no_gradient_flows_to_the_future(model):
    case = _unpadded(model)
    out = _forward(case)
    for position in range(case.decoder_input.shape[1]):
        dlogits = np.zeros_like(out.logits)
        dlogits[:, position] = np.random.default_rng(position).normal(size=dlogits[:, position].shape)
        stages = transformer.gradients(dlogits, out.cache).stages
        assert not stages["decoder.input"][:, position + 1 :].any()
        assert stages["decoder.input"][:, position].any(axis=-1).all()


def _unpadded(model):
    return SimpleNamespace(**vars(model) | dict(source_lengths=None, target_lengths=None))


def test_changing_the_padding_changes_nothing_outside_it_and_no_gradient():
    for seed in range(3):
        case = toy.generic(seed)
        source, decoder_input, targets = case.source.copy(), case.decoder_input.copy(), case.targets.copy()
        for b in range(len(source)):
            source[b, case.source_lengths[b] :] += 1
            decoder_input[b, case.target_lengths[b] :] += 1
            targets[b, case.target_lengths[b] :] += 1
        source %= case.config.source_vocab
        decoder_input, targets = decoder_input % case.config.target_vocab, targets % case.config.target_vocab
        one, two = step.run(case), step.run(dataclasses.replace(case, source=source, decoder_input=decoder_input, targets=targets))
        assert (source != case.source).any() and (decoder_input != case.decoder_input).any()
        for b in range(len(source)):
            inside = slice(case.target_lengths[b])
            assert (one.output.logits[b, inside] == two.output.logits[b, inside]).all()
        assert one.loss == two.loss
        assert agreement(one.gradients.params, two.gradients.params) < 1e-12


def test_padding_is_as_if_it_were_not_there():
    """Each sequence alone, cut to its length, gives the logits that it gives in the padded batch; and the gradients add up."""
    case = dataclasses.replace(toy.generic(), reduction="sum")
    together, apart = step.run(case), {name: 0.0 for name in case.params}
    for b in range(len(case.source)):
        t_s, t_t = case.source_lengths[b], case.target_lengths[b]
        one = step.run(dataclasses.replace(
            case, source=case.source[b : b + 1, :t_s], decoder_input=case.decoder_input[b : b + 1, :t_t],
            targets=case.targets[b : b + 1, :t_t], source_lengths=None, target_lengths=None,
        ))  # fmt: skip
        assert agreement(one.output.logits[0], together.output.logits[b, :t_t]) < 1e-12
        apart = {name: apart[name] + one.gradients.params[name] for name in apart}
    assert agreement(apart, together.gradients.params) < 1e-12


# ---- what comes out -----------------------------------------------------------------------------


def test_activations_have_their_names_and_shapes(model):
    out = _forward(model)
    expected = activation_shapes(model.config, len(model.source), model.source.shape[1], model.decoder_input.shape[1])
    assert {name: np.shape(value) for name, value in out.activations.items()} == expected
    assert out.activations["logits"] is out.logits


def test_starting_values():
    config = dataclasses.replace(toy.generic().config, tied=True)
    params = transformer.init(config, seed=3)
    assert {name: value.shape for name, value in params.items()} == encoder_decoder_shapes(config) and "output.w" not in params
    assert all((params[name] == transformer.init(config, seed=3)[name]).all() for name in params)
    assert any((params[name] != transformer.init(config, seed=4)[name]).any() for name in params)
    assert {value.dtype for value in transformer.init(config, dtype=np.float32).values()} == {np.dtype(np.float32)}
    for name, value in params.items():
        if name.endswith("gamma"):
            assert (value == 1).all()
        elif value.ndim == 1:
            assert not value.any()
        elif not name.endswith("embedding"):
            assert np.abs(value).max() <= (6 / sum(value.shape)) ** 0.5


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(source=np.array([[0, 2, 0]])), IndexError, r"source held the token 2; it must lie in \[0, 2\)"),
        (dict(source=np.array([[0, -1, 0]])), IndexError, "source held the token -1"),
        (dict(decoder_input=np.array([[4, 1]])), IndexError, "decoder_input held the token 4"),
        (dict(source=np.array([[0.0, 1.0, 0.0]])), ValueError, "source was float64; it must be a NumPy array of integers"),
        (dict(decoder_input=[[0, 1]]), ValueError, "decoder_input was list"),
        (dict(source=np.zeros((1, 0), int)), ValueError, r"source had shape \(1, 0\); it must be \(batch, time\), neither of them 0"),
        (dict(decoder_input=np.zeros((1, 0), int)), ValueError, r"decoder_input had shape \(1, 0\)"),
        (dict(source=np.zeros((0, 3), int)), ValueError, r"source had shape \(0, 3\)"),
        (dict(source=np.array([0, 1])), ValueError, r"source had shape \(2,\)"),
        (dict(source=np.array([[0, 1, 0]] * 2)), ValueError, "source had 2 sequences and decoder_input 1; the batches must be equal"),
        (dict(source_lengths=np.array([4])), ValueError, "source_lengths held 4; each must lie between 1 and the array's time, 3"),
        (dict(target_lengths=np.array([3])), ValueError, "target_lengths held 3"),
        (dict(source_lengths=np.array([0])), ValueError, "source_lengths held 0"),
        (dict(target_lengths=np.array([-1])), ValueError, "target_lengths held -1"),
        (dict(source_lengths=np.array([1, 2])), ValueError, r"source_lengths had dtype int64 and shape \(2,\); it must hold 1 integers"),
        (dict(source_lengths=np.array([1.5])), ValueError, "source_lengths had dtype float64"),
    ],
)
def test_a_batch_that_cannot_be(change, error, words):
    with pytest.raises(error, match=words):
        _forward(toy.lively(), **change)


def _with(name, value):
    return lambda params: params | {name: value}


def _without(name):
    return lambda params: {other: value for other, value in params.items() if other != name}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_with("encoder.0.norm_1.b", np.zeros(4)), "parameter 'encoder.0.norm_1.b' is unknown; this model has source_embedding, .* and 30 more"),
        (_without("decoder.0.norm_3.gamma"), r"parameter 'decoder.0.norm_3.gamma' is missing; it must have shape \(4,\)"),
        (_with("output.w", np.zeros((4, 5))), r"parameter 'output.w' had shape \(4, 5\); it must be \(4, 4\)"),
        (_with("output.b", np.zeros((1, 4))), r"parameter 'output.b' had shape \(1, 4\); it must be \(4,\)"),
        (_with("output.b", np.zeros(4, int)), "parameter 'output.b' had dtype int64; it must be a floating-point array"),
        (_with("output.b", [0.0] * 4), "parameter 'output.b' was list; it must be a NumPy array"),
        (_with("output.b", np.array([0, np.nan, 0, 0])), "parameter 'output.b' holds a value that is not finite"),
        (_with("output.b", np.array([0, np.inf, 0, 0])), "parameter 'output.b' holds a value that is not finite"),
    ],
)
def test_parameters_that_cannot_be(change, words):
    case = toy.lively()
    with pytest.raises(ValueError, match=words):
        _forward(case, change(case.params))


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("output.w", "logits"),
        ("encoder.0.feed_forward.w_1", "encoder.0.feed_forward.out"),
        ("encoder.0.self_attention.w_q", "encoder.0.self_attention.scores"),
        ("decoder.0.cross_attention.w_k", "decoder.0.cross_attention.scores"),
        ("source_embedding", "encoder.0.self_attention.scores"),
    ],
)
def test_an_overflow_names_the_first_activation_that_is_not_finite(name, first):
    case = toy.lively()
    size = 1e308 if name == "output.w" else 1e200
    large = {name: np.where(case.params[name] == 0, 1, np.sign(case.params[name])) * size}
    if name == "encoder.0.feed_forward.w_1":
        large["encoder.0.feed_forward.w_2"] = case.params["encoder.0.feed_forward.w_2"] * 1e150
    if first.endswith("scores"):
        other = name[:-1] + ("k" if name.endswith("q") else "q")
        large |= {other: case.params[other] * 1e150} if other in case.params else {}
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=f"activation '{first}' is the first that is not finite"):
        _forward(case, case.params | large)


def test_a_constant_row_under_eps_0():
    case = toy.document()
    params = dict(case.params, source_embedding=np.full((2, 4), 0.5))
    with pytest.raises(ValueError, match="x has a constant row and eps was 0"):
        _forward(case, params)


def test_a_gradient_of_another_shape():
    out = _forward(toy.lively())
    with pytest.raises(ValueError, match=r"dlogits had shape \(1, 3, 4\); it must be the output's"):
        transformer.backward(np.zeros((1, 3, 4)), out.cache)


@pytest.mark.parametrize(
    "choice",
    [dict(norm="pre"), dict(norm_kind="rms"), dict(activation="gelu"), dict(positions="rope"), dict(n_kv_heads=1)],
)
def test_a_config_that_is_not_the_2017_models(choice):
    with pytest.raises(ValueError, match=f"config.{next(iter(choice))} was .*; the encoder-decoder of 2017 takes"):
        transformer.init(dataclasses.replace(toy.lively().config, **choice))


def test_a_sequence_longer_than_max_length():
    case = toy.lively()
    with pytest.raises(ValueError, match="source had time 3; it must be at most max_length, 2"):
        _forward(dataclasses.replace(case, config=dataclasses.replace(case.config, max_length=2)))


def test_a_single_position_a_single_head_and_a_single_class():
    config = Config(d_model=2, n_heads=1, d_ff=1, n_layers=1, source_vocab=1, target_vocab=1)
    params = transformer.init(config)
    out = transformer.forward(params, config, np.array([[0]]), np.array([[0]]))
    value, dlogits = loss.cross_entropy(out.logits, np.array([[0]]))
    assert value == 0 and not any(g.any() for g in transformer.backward(dlogits, out.cache).values())


def test_an_infinity_that_relu_would_swallow_is_named():
    """ReLU makes 0 of −∞, and the logits are finite."""
    case = toy.lively()
    layer = "decoder.0.feed_forward"
    large = {f"{layer}.w_1": -1e308 * np.ones_like(case.params[f"{layer}.w_1"]), "decoder.0.norm_2.beta": np.full(case.config.d_model, 1e3)}
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=f"activation '{layer}.hidden' is the first that is not finite"):
        _forward(case, case.params | large)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite(bad):
    case = toy.lively()
    out = _forward(case, case.params)
    dlogits = np.zeros_like(out.logits)
    dlogits[0, 0, 1] = bad
    with pytest.raises(ValueError, match=rf"dlogits held {bad} at \(0, 0, 1\)"):
        transformer.backward(dlogits, out.cache)


def test_what_is_no_config_or_no_dict():
    case = toy.lively()
    with pytest.raises(ValueError, match="config was dict; it must be a Config"):
        transformer.forward(case.params, {}, case.source, case.decoder_input)
    with pytest.raises(ValueError, match="params was NoneType; it must be a dict of arrays"):
        transformer.forward(None, case.config, case.source, case.decoder_input)


def test_parameters_of_half_precision_or_of_two_kinds_are_refused():
    case = toy.generic()
    halves = {name: value.astype(np.float16) for name, value in case.params.items()}
    with pytest.raises(ValueError, match="parameter 'source_embedding' had dtype float16; it must be float32 or float64"):
        transformer.forward(halves, case.config, case.source, case.decoder_input)
    mixed = case.params | {"output.b": case.params["output.b"].astype(np.float32)}
    with pytest.raises(ValueError, match="parameter 'output.b' had dtype float32 and parameter '.*' float64; all arrays of one call must share one"):
        transformer.forward(mixed, case.config, case.source, case.decoder_input)
    stack = toy.decoder()
    halves = {name: value.astype(np.float16) for name, value in stack.params.items()}
    with pytest.raises(ValueError, match="had dtype float16"):
        decoder.forward(halves, stack.config, stack.decoder_input)
