"""Each invariant holds, and each is broken once on purpose and named."""

import dataclasses

import numpy as np
import pytest

from byhand import check, toy
from byhand.check.shapes import decoder_activation_shapes, norm_places
from byhand.numpy import decoder, loss, transformer
from byhand.parameters import decoder_shapes

CASES = [toy.document, toy.exact, toy.lively, toy.generic]


def _report(case, **own):
    return check.invariants(case.params, case.config, case, **own)


def _failed(case, **own):
    return {row.name for row in _report(case, **own).failures}


@pytest.mark.parametrize("make", CASES)
def test_they_hold(make):
    report = _report(make()).require()
    assert len(report.rows) == 13 and all(row.holds for row in report.rows)


def test_every_row_is_there_in_its_order():
    case = toy.generic()
    named = dataclasses.replace(case.config, norm_kind="".join("layer"))  # a string of its own: what it says counts
    report = _report(dataclasses.replace(case, config=named))
    assert [row.name for row in report.rows] == [
        "activations have their shapes", "gradients have their parameters' shapes", "attention rows sum to 1", "rows with every key masked are 0",
        "masked weights are exactly 0", "masked score gradients are exactly 0", "score gradients sum to 0 in each row",
        "layer norm: (y − β)/γ has mean 0", "layer norm: (y − β)/γ has variance σ²/(σ² + ε)", "layer norm, backward: dx has mean 0",
        "layer norm, backward: dx along x̂ is ε's share", "∂L/∂z sums to 0 in each row", "where paths meet, gradients add",
    ]  # fmt: skip
    assert report["rows with every key masked are 0"].verdict == "no such place here" and report.title == "Invariants: 13 hold"
    assert report["masked weights are exactly 0"].verdict == "holds exactly" and report["attention rows sum to 1"].verdict == "holds within 1e-9"


def test_what_a_norm_is_asked_needs_what_it_reads_and_what_arrives():
    """A stage that is missing, or an entry of γ that is 0, leaves that norm out, and no other."""
    names, case = ("decoder.0.residual_2", "decoder.0.norm_2.out"), toy.generic()
    for name in names:
        _report(case, gradients=_gradients(lambda stages, _, name=name: stages.pop(name))).require()
    flat = case.params | {"decoder.0.norm_2.gamma": case.params["decoder.0.norm_2.gamma"] * (np.arange(6) > 0)}
    _report(dataclasses.replace(case, params=flat)).require()
    broken = _gradients(lambda stages, _: stages.pop("decoder.0.residual_2") is None or _set("decoder.1.residual_3", (0, 0, 3), 1e-3)(stages))
    assert "layer norm, backward: dx along x̂ is ε's share" in _failed(case, gradients=broken)


@pytest.mark.parametrize("norm_kind", ["rms", "layer"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_activation_of_a_decoder_stack_has_its_shape(norm, norm_kind):
    case = toy.decoder()
    config = dataclasses.replace(case.config, norm=norm, norm_kind=norm_kind)
    recorded = decoder.forward(decoder.init(config), config, case.decoder_input).activations
    assert decoder_activation_shapes(config, *case.decoder_input.shape) == {name: value.shape for name, value in recorded.items()}


def test_where_the_norms_are():
    config = toy.generic().config
    places = norm_places(config, False)
    assert [place.name for place in places] == [
        f"{side}.{i}.norm_{k}" for side, n in (("encoder", 2), ("decoder", 3)) for i in range(2) for k in range(1, n + 1)
    ]
    assert all(place.x == place.dx == place.name.replace("norm", "residual") for place in places)
    stack = dataclasses.replace(toy.decoder().config, n_layers=2)
    pre, post = (norm_places(dataclasses.replace(stack, norm=norm), True) for norm in ("pre", "post"))
    assert [tuple(place) for place in pre] == [
        ("block.0.norm_1", "input", "block.0.input.via_norm"), ("block.0.norm_2", "block.0.residual_1", "block.0.residual_1.via_norm"),
        ("block.1.norm_1", "block.0.residual_2", "block.1.input.via_norm"), ("block.1.norm_2", "block.1.residual_1", "block.1.residual_1.via_norm"),
        ("norm", "block.1.residual_2", "block.1.residual_2"),
    ]  # fmt: skip
    assert [tuple(place) for place in post] == [(f"block.{i}.norm_{k}", *[f"block.{i}.residual_{k}"] * 2) for i in range(2) for k in (1, 2)]


def test_they_hold_in_float32_and_with_tied_weights():
    case = toy.generic()
    single = dataclasses.replace(case, params={name: value.astype(np.float32) for name, value in case.params.items()})
    _report(single).require()
    tied = dataclasses.replace(case.config, tied=True)
    params = {name: value for name, value in case.params.items() if name != "output.w"}
    _report(dataclasses.replace(case, config=tied, params=params)).require()


def _forward(change):
    """Our forward, whose activations are then changed."""

    def forward(*arguments):
        out = transformer.forward(*arguments)
        activations = {name: value.copy() for name, value in out.activations.items()}
        change(activations)
        return dataclasses.replace(out, recorded=activations)

    return forward


def _gradients(change):
    def gradients(dlogits, cache):
        found = transformer.gradients(dlogits, cache)
        stages = {name: value.copy() for name, value in found.stages.items()}
        change(stages, found.params)
        return found._replace(stages=stages)

    return gradients


def _set(name, place, value):
    def change(arrays, *_):
        arrays[name][place] += value

    return change


@pytest.mark.parametrize(
    ("change", "row", "where"),
    [
        (_set("encoder.1.self_attention.weights", (1, 0, 2, 3), 1e-6), "attention rows sum to 1", "encoder.1.self_attention.weights[1, 0, 2]"),
        (_set("decoder.0.self_attention.weights", (0, 1, 2, 3), 1e-300), "masked weights are exactly 0", "decoder.0.self_attention.weights[0, 1, 2, 3]"),
        (_set("decoder.1.cross_attention.weights", (2, 1, 2, 5), 1e-300), "masked weights are exactly 0", "decoder.1.cross_attention.weights[2, 1, 2, 5]"),
        (_set("encoder.0.norm_2.out", (0, 0), 1.0), "layer norm: (y − β)/γ has mean 0", "encoder.0.norm_2.out[0, 0]"),
        (_set("decoder.1.norm_3.out", (0, 0, 1), 1e-4), "layer norm: (y − β)/γ has variance σ²/(σ² + ε)", "decoder.1.norm_3.out[0, 0]"),
    ],
)
def test_a_broken_forward_is_named(change, row, where):
    report = _report(toy.generic(), forward=_forward(change))
    assert not report and row in {failure.name for failure in report.failures}
    assert report[row].where == where and report[row].verdict.startswith("fails")


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (_set("decoder.0.self_attention.scores", (0, 0, 1, 4), 1e-300), "masked score gradients are exactly 0"),
        (_set("encoder.0.self_attention.scores", (0, 0, 1, 4), 1e-3), "score gradients sum to 0 in each row"),
        (_set("decoder.0.residual_2", (0, 0), 1e-3), "layer norm, backward: dx has mean 0"),
        (_set("decoder.0.residual_2", (0, 0, 3), 1e-3), "layer norm, backward: dx along x̂ is ε's share"),
        (_set("encoder.memory", (0, 0, 3), 1e-3), "where paths meet, gradients add"),
        (_set("decoder.1.input.via_query", (0, 0, 3), 1e-3), "where paths meet, gradients add"),
    ],
)
def test_a_broken_backward_is_named(change, row):
    assert row in _failed(toy.generic(), gradients=_gradients(change))


def test_a_gradient_of_another_shape_is_named():
    def change(stages, params):
        params["decoder.1.norm_2.gamma"] = params["decoder.1.norm_2.gamma"][None]

    report = _report(toy.generic(), gradients=_gradients(change))
    row = report["gradients have their parameters' shapes"]
    assert not row.holds and row.where == "decoder.1.norm_2.gamma" and "(1, 6) for (6,)" in row.verdict


def test_an_activation_that_was_broadcast_or_left_out_is_named():
    def broadcast(activations):
        activations["encoder.0.residual_1"] = activations["encoder.0.residual_1"][:1]

    left_out = ("decoder.0.feed_forward.active", "encoder.0.residual_1", "encoder.0.norm_1.out")  # a norm's x and its y among them
    missing = [(lambda activations, stage=stage: activations.pop(stage), stage) for stage in left_out]
    for change, stage in ((broadcast, "encoder.0.residual_1"), *missing):
        row = _report(toy.generic(), forward=_forward(change))["activations have their shapes"]
        assert not row.holds and row.where == stage


def test_a_loss_gradient_that_is_not_p_minus_q_is_named():
    def cross_entropy(*arguments, **options):
        value, dlogits = loss.cross_entropy(*arguments, **options)
        return value, np.maximum(dlogits, 0)

    assert "∂L/∂z sums to 0 in each row" in _failed(toy.lively(), cross_entropy=cross_entropy)


def test_a_query_with_no_key_has_weights_of_0():
    """No sequence of ours is that empty, so the mask is: a case that says so, and a forward that gives zeros, or does not."""
    case = dataclasses.replace(toy.generic(), source_lengths=np.array([8, 5, 0]))

    def forward(params, config, source, decoder_input, source_lengths, target_lengths):
        out = transformer.forward(params, config, source, decoder_input, np.maximum(source_lengths, 1), target_lengths)
        activations = dict(out.activations)
        for name, value in out.activations.items():
            if name.endswith("weights") and value.shape[-1] == source.shape[1]:
                activations[name] = value.copy()
                activations[name][2] = 0
        return dataclasses.replace(out, recorded=activations)

    assert _report(case, forward=forward)["rows with every key masked are 0"].holds
    row = _report(case, forward=lambda p, c, s, d, s_lengths, t_lengths: transformer.forward(p, c, s, d, np.maximum(s_lengths, 1), t_lengths))[
        "rows with every key masked are 0"
    ]
    assert not row.holds and row.where.startswith("encoder.0.self_attention.weights[2, 0, 0, 0]")


def test_nan_fails():
    assert "attention rows sum to 1" in _failed(toy.lively(), forward=_forward(_set("encoder.0.self_attention.weights", (0, 0, 0, 0), np.nan)))


def test_a_backward_without_stages_leaves_some_open():
    report = _report(toy.lively(), gradients=transformer.backward)
    assert report  # nothing fails
    open_ = {row.name for row in report.rows if row.holds is None}
    assert open_ == {
        "score gradients sum to 0 in each row", "layer norm, backward: dx has mean 0", "layer norm, backward: dx along x̂ is ε's share",
        "where paths meet, gradients add",
    }  # fmt: skip


def test_the_report_can_be_read():
    report = _report(toy.lively(), forward=_forward(_set("encoder.0.self_attention.weights", (0, 0, 0, 0), 0.5)))
    assert "1 of 13 fail" in repr(report) and "encoder.0.self_attention.weights[0, 0, 0]" in repr(report)
    html = report._repr_mimebundle_()["text/html"]
    assert "<table" in html and "fails, off by 0.5" in html
    assert "holds within 1e-9" in repr(report) and "holds exactly" in repr(report)
    with pytest.raises(KeyError, match="the rows are"):
        report["attention"]


# ---- the decoder stack --------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["rope", "sinusoidal", "none", "learned"])
@pytest.mark.parametrize(("norm", "norm_kind"), [("pre", "rms"), ("pre", "layer"), ("post", "layer"), ("post", "rms")])
@pytest.mark.parametrize(("activation", "tied"), [("swiglu", True), ("relu", False)])
def test_they_hold_in_every_decoder_stack(positions, norm, norm_kind, activation, tied):
    base = toy.decoder()
    choices = dict(biases=("attention", "output"), scaled=False, pairing="half") if positions in ("learned", "rope") else {}
    config = dataclasses.replace(base.config, positions=positions, norm=norm, norm_kind=norm_kind, activation=activation, tied=tied, **choices)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(1.0 if name.endswith("gamma") else 0.1, 0.4, shape) for name, shape in decoder_shapes(config).items()}
    report = _report(dataclasses.replace(base, config=config, params=params)).require()
    assert all(row.holds for row in report.rows)
    assert len(report.rows) == (13 if norm_kind == "layer" else 11) + (positions == "rope")


@pytest.mark.parametrize(
    ("stage", "place", "row"),
    [
        ("block.1.attention.weights", (0, 3, 2, 1), "attention rows sum to 1"),
        ("block.1.attention.weights", (0, 3, 2, 4), "masked weights are exactly 0"),
        ("block.0.attention.weights", (1, 0, 6, 5), "masked weights are exactly 0"),
        ("block.0.norm_2.out", (0, 1, 2), "RMS norm: y/γ has mean square m/(m + ε)"),
        ("norm.out", (0, 1, 2), "RMS norm: y/γ has mean square m/(m + ε)"),
        ("block.0.attention.k", (0, 1, 2, 3), "rope leaves every length"),
    ],
)
def test_a_broken_decoder_forward_is_named(stage, place, row):
    def forward(*arguments):
        out = decoder.forward(*arguments)
        activations = dict(out.activations, **{stage: out.activations[stage].copy()})
        activations[stage][place] += 1e-3
        return dataclasses.replace(out, recorded=activations)

    report = _report(toy.decoder(), forward=forward)
    assert not report[row].holds and report[row].where.startswith(stage)


@pytest.mark.parametrize(
    ("stage", "row"),
    [
        ("block.0.input.via_norm", "RMS norm, backward: dx along x̂ is ε's share"),
        ("block.1.residual_1.via_residual", "where paths meet, gradients add"),
        ("block.1.attention.scores", "score gradients sum to 0 in each row"),
    ],
)
def test_a_broken_decoder_backward_is_named(stage, row):
    def gradients(dlogits, cache):
        found = decoder.gradients(dlogits, cache)
        return found._replace(stages=dict(found.stages, **{stage: 1.1 * found.stages[stage] + 0.01}))

    assert row in _failed(toy.decoder(), gradients=gradients)


# ---- PyTorch's modules --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [toy.document, toy.lively, toy.generic, toy.decoder])
def test_they_hold_in_pytorch(make):
    from byhand.torch import decoder as torch_decoder
    from byhand.torch import transformer as torch_transformer

    case = make()
    kind = torch_decoder.Decoder if case.source is None else torch_transformer.Transformer
    model = check.TorchModel(kind(case.config).load_params(case.params))
    report = check.invariants(model.params, case.config, case, model.forward, model.gradients).require()
    open_ = {row.name for row in report.rows if row.holds is None}
    assert open_ == {"where paths meet, gradients add"}  # autograd adds them out of sight


def test_a_mask_forgotten_in_pytorch_is_named():
    from byhand.torch import transformer as torch_transformer

    case = toy.generic()
    model = check.TorchModel(torch_transformer.Transformer(case.config).load_params(case.params))

    def forward(params, config, source, decoder_input, source_lengths, target_lengths):
        return model.forward(params, config, source, decoder_input, None, target_lengths)

    report = check.invariants(model.params, case.config, case, forward, model.gradients)
    assert {row.name for row in report.failures} == {"masked weights are exactly 0", "masked score gradients are exactly 0"}


def test_a_stage_of_pytorchs_that_the_loss_does_not_reach_has_no_gradient():
    from byhand.torch import transformer as torch_transformer

    class Recording(torch_transformer.Transformer):
        def forward(self, *inputs, activations=None):
            logits = super().forward(*inputs, activations=activations)
            activations["aside"] = 2 * logits
            return logits

    case = toy.lively()
    model = check.TorchModel(Recording(case.config).load_params(case.params))
    out = model.forward(model.params, case.config, case.source, case.decoder_input)
    assert (out.activations["aside"] == 2 * out.logits).all()
    stages = model.gradients(np.ones_like(out.logits), out.cache).stages
    assert "aside" not in stages and (stages["logits"] == 1).all()


def test_what_is_no_module():
    with pytest.raises(ValueError, match="module was dict; it must be a torch.nn.Module"):
        check.TorchModel({})


def test_code_that_writes_into_its_arguments_touches_nothing_of_the_callers():
    case = toy.lively()
    kept = {name: value.copy() for name, value in case.params.items()}

    def forward(params, config, source, decoder_input, source_lengths=None, target_lengths=None):
        own = {name: value.copy() for name, value in params.items()}
        out = transformer.forward(own, config, source.copy(), decoder_input.copy(), source_lengths, target_lengths)
        source[:], decoder_input[:] = 0, 0
        for value in params.values():
            value *= 2
        return out

    tokens = case.source.copy(), case.decoder_input.copy()
    check.invariants(case.params, case.config, case, forward).require()
    assert all((case.params[name] == value).all() for name, value in kept.items())
    assert (case.source == tokens[0]).all() and (case.decoder_input == tokens[1]).all()
