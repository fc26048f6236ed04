"""One record, asked for and handed down; a plain step keeps nothing, and looks at nothing but its results."""

import dataclasses

import numpy as np
import pytest

from byhand import Record, toy
from byhand.numpy import attention, decoder, linear, loss, passes, step, transformer

CASES = {"encoder-decoder": toy.generic, "decoder": toy.decoder, "pre": lambda: toy.block("pre"), "post": lambda: toy.block("post")}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]()


def _forward(case, **choices):
    if case.source is None:
        return decoder.forward(case.params, case.config, case.decoder_input, lengths=case.target_lengths, **choices)
    lengths = case.source_lengths, case.target_lengths
    return transformer.forward(case.params, case.config, case.source, case.decoder_input, *lengths, **choices)


def _model(case):
    return decoder if case.source is None else transformer


def _dlogits(case, out):
    return loss.cross_entropy(out.logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=case.reduction)[1]


def _bytes(arrays):
    return {name: value.tobytes() for name, value in arrays.items()}


def test_a_plain_step_records_nothing(case, monkeypatch):
    def refuse(*_):
        raise AssertionError("a plain step made a record, or put something into one")

    monkeypatch.setattr(Record, "__init__", refuse)
    monkeypatch.setattr(Record, "__call__", refuse)
    monkeypatch.setattr(Record, "via", refuse)
    out = _forward(case)
    assert out.recorded is None
    _model(case).backward(_dlogits(case, out), out.cache)


def test_a_plain_step_computes_what_a_recorded_one_does(case):
    out, run = _forward(case), step.run(case)
    assert out.logits.tobytes() == run.output.logits.tobytes()
    assert _bytes(_model(case).backward(run.dlogits, out.cache)) == _bytes(run.gradients.params)
    assert list(out.activations) == list(run.output.activations)
    assert _bytes(out.activations) == _bytes(run.output.activations)
    assert out.activations is out.activations and out.activations["logits"] is out.logits


def test_a_record_is_filled_in_the_order_of_computing(case):
    forth, back = Record(), Record()
    out = _forward(case, record=forth)
    assert out.activations is forth.kept and list(forth.kept)[-1] == "logits"
    _model(case).backward(_dlogits(case, out), out.cache, back)
    assert next(iter(back.kept)) == "logits"
    assert _bytes(back.kept) == _bytes(step.run(case).gradients.stages)


def test_activations_of_parameters_that_are_no_more():
    case = toy.lively()
    params = {name: value.copy() for name, value in case.params.items()}
    out = _forward(dataclasses.replace(case, params=params))
    params["output.b"] -= 0.01
    with pytest.raises(ValueError, match="params have changed since this pass"):
        out.activations  # noqa: B018


def test_a_gradient_that_overflows_is_named():
    """Finite logits, and a gradient from above that float32 cannot carry any further."""
    case = toy.lively()
    params = {name: value.astype(np.float32) for name, value in case.params.items()}
    out = _forward(dataclasses.replace(case, params=params))
    dlogits = np.full(out.logits.shape, 3e38, np.float32) * np.array([1, -1, 1, -1], np.float32)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="the gradient of 'decoder.out' is the first that is not finite"):
        transformer.backward(dlogits, out.cache)


def test_what_would_vanish_is_looked_at_and_nothing_else(monkeypatch):
    """Scores, hidden rows and what a norm divides by, and the logits: an infinity in any other stage reaches these."""
    seen = []
    monkeypatch.setattr(passes, "is_finite", lambda *values: seen.append(values) or True)
    _forward(toy.lively())
    assert len(seen) == 3 + 2 + 5 + 1


def test_a_public_operation_checks_and_its_rule_does_not():
    x, w = np.array([[np.nan, 1.0]]), np.eye(2)
    with pytest.raises(ValueError, match="x held nan at"):
        linear.linear(x, w)
    assert np.isnan(linear.linear.rule(x, w)[0]).any()
    assert linear.linear.__doc__ == linear.linear.rule.__doc__ and linear.linear.__name__ == "linear"


def test_a_door_names_the_stage_and_leaves_the_callers_record_filled():
    q = np.ones((1, 1, 2, 3))
    with pytest.raises(ValueError, match="scores held inf at"), np.errstate(all="ignore"):
        attention.attention(q * 1e200, q * 1e200, q)
    record = Record()
    attention.attention(q, q, q, record=record.inside("head"))
    assert list(record.kept) == ["head.scores", "head.weights", "head.mixed"]


def test_a_records_own_rules():
    record = Record()
    inside = record.inside("room")
    assert inside("out", 1) == 1 and record["room.out"] == 1 == inside["out"]
    inside.via("x", once=2)  # what was used once has no ways to tell apart
    inside.via("x", first=3, second=4)
    assert list(record.kept) == ["room.out", "room.x.via_first", "room.x.via_second"]
