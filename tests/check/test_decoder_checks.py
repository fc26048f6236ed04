"""The decoder stack's checks hold for ours, and each names its broken twin."""

import dataclasses

import numpy as np
import pytest

from byhand import check, toy
from byhand.check.mistakes import Change, Mistake
from byhand.numpy import attention, decoder, loss, position
from byhand.parameters import decoder_shapes

CASE = toy.decoder()


def _twin(where, right, wrong):
    """Our code with one line changed, while the block runs."""
    return Mistake("twin", "", (Change(where, right, wrong),)).planted()


def _run(tokens):
    return decoder.forward(CASE.params, CASE.config, tokens).logits


def _failed(report):
    return {row.name for row in report.failures}


def _all(choices):
    """Every kind of stack: configuration and parameters."""
    config = dataclasses.replace(CASE.config, **choices)
    rng = np.random.default_rng(0)
    return config, {n: rng.normal(1.0 if n.endswith("gamma") else 0.1, 0.4, s) for n, s in decoder_shapes(config).items()}


KINDS = [
    {},
    {"norm": "post", "norm_kind": "layer", "positions": "sinusoidal", "activation": "relu"},
    {"tied": True, "n_kv_heads": 1, "positions": "none", "activation": "gelu"},
    {"n_kv_heads": 4, "n_layers": 1},
    {"positions": "learned", "biases": ("attention",), "scaled": False},
]


# ---- causal isolation ---------------------------------------------------------------------------


@pytest.mark.parametrize("choices", KINDS)
def test_no_token_moves_what_came_before_it(choices):
    config, params = _all(choices)
    report = check.causal_isolation(lambda tokens: decoder.forward(params, config, tokens).logits, CASE.decoder_input, config.target_vocab).require()
    assert all(row.holds for row in report.rows) and report.title == "Causal isolation: 4 hold"


def test_padding_need_not_be_read():
    def run(tokens):
        return decoder.forward(CASE.params, CASE.config, tokens, lengths=CASE.target_lengths).logits

    check.causal_isolation(run, CASE.decoder_input, 9, CASE.target_lengths).require()


@pytest.mark.parametrize(
    ("where", "right", "wrong"),
    [(decoder._run, "mask, True,", "mask, False,"), (attention.attention_mask, "t_k - t_q", "t_k - t_q + 1")],
)
def test_a_look_ahead_is_named(where, right, wrong):
    with _twin(where, right, wrong):
        report = check.causal_isolation(_run, CASE.decoder_input, 9)
    assert _failed(report) == {"a later token moves no earlier logits"}
    assert report["a later token moves no earlier logits"].where.startswith("token ")


def test_a_look_ahead_by_one_place_is_found_there():
    def run(tokens):
        logits = _run(tokens)
        logits[1, 4] += 1e-9 * tokens[1, 5]
        return logits

    row = check.causal_isolation(run, CASE.decoder_input, 9)["a later token moves no earlier logits"]
    assert not row.holds and row.where == "token 5 changed, sequence 1, logits 4"


def test_dropout_that_was_left_on_is_named_and_leaves_the_rest_open():
    rng = np.random.default_rng(0)
    report = check.causal_isolation(lambda tokens: _run(tokens) * (rng.random(CASE.config.target_vocab) > 0.5), CASE.decoder_input, 9)
    assert _failed(report) == {"the same tokens give the same logits"}
    assert [row.holds for row in report.rows] == [False, None, None, None]


def test_a_model_that_reads_nothing_does_not_pass():
    report = check.causal_isolation(lambda tokens: np.ones((*tokens.shape, 9)), CASE.decoder_input, 9)
    assert _failed(report) == {"every token moves the logits at its own place"}

    def without_the_last(tokens):
        return np.concatenate((_run(tokens)[:, :-1], np.ones((3, 1, 9))), axis=1)

    row = check.causal_isolation(without_the_last, CASE.decoder_input, 9)["every token moves the logits at its own place"]
    assert not row.holds and row.where == "sequence 0, token 6"


def test_sequences_that_mix_are_named():
    report = check.causal_isolation(lambda tokens: _run(tokens) - _run(tokens).mean(axis=0), CASE.decoder_input, 9)
    assert "no sequence moves another's logits" in _failed(report)


def test_nan_is_no_agreement():
    def run(tokens):
        logits = _run(tokens)
        logits[0, 0] = np.nan
        return logits

    assert not check.causal_isolation(run, CASE.decoder_input, 9)


def test_it_holds_in_pytorch_and_dropout_is_seen_there():
    import torch

    from byhand.torch.decoder import Decoder

    module = Decoder(CASE.config).load_params(CASE.params)
    check.causal_isolation(module, CASE.decoder_input, 9).require()
    dropout = torch.nn.Dropout(0.5)
    assert not check.causal_isolation(lambda tokens: dropout(module(tokens)), CASE.decoder_input, 9)
    check.causal_isolation(lambda tokens: dropout.eval()(module(tokens)), CASE.decoder_input, 9).require()


@pytest.mark.parametrize(("tokens", "vocab", "words"), [
    (np.array([1, 2]), 9, r"tokens had shape \(2,\)"),
    (np.array([[1]]), 9, r"tokens had shape \(1, 1\)"),
    (np.array([[1, 2]]), 1, "vocab was 1"),
])  # fmt: skip
def test_tokens_that_cannot_be_changed(tokens, vocab, words):
    with pytest.raises(ValueError, match=words):
        check.causal_isolation(_run, tokens, vocab)


# ---- probabilities ------------------------------------------------------------------------------


def _allowed():
    return np.tri(7, dtype=bool) & (np.arange(7) < CASE.target_lengths[:, None])[:, None, None]


def _activations():
    return decoder.forward(CASE.params, CASE.config, CASE.decoder_input, lengths=CASE.target_lengths).activations


@pytest.mark.parametrize("choices", KINDS)
def test_weights_are_probabilities(choices):
    config, params = _all(choices)
    out = decoder.forward(params, config, CASE.decoder_input, lengths=CASE.target_lengths)
    report = check.probability_invariants(out.activations, _allowed()).require()
    assert all(row.holds for row in report.rows)


def test_they_are_in_pytorch():
    from byhand.torch.decoder import Decoder

    activations = {}
    Decoder(CASE.config).load_params(CASE.params)(CASE.decoder_input, lengths=CASE.target_lengths, activations=activations)
    check.probability_invariants(activations, _allowed()).require()


@pytest.mark.parametrize(
    ("wrong", "rows"),
    [
        ("weights, _ = softmax(scores); weights = weights * (1 if allowed is None else allowed)", {"allowed weights sum to 1"}),
        ("weights, _ = softmax(scores if allowed is None else np.where(allowed, scores, -30.0))", {"masked weights are exactly 0"}),
        ("weights = scores / scores.sum(axis=-1, keepdims=True)", {"no weight is negative", "masked weights are exactly 0"}),
        ("weights, _ = softmax(scores)", {"masked weights are exactly 0", "allowed weights sum to 1"}),
    ],
)
def test_each_broken_softmax_is_named(wrong, rows):
    with _twin(attention.attention, "weights, _ = softmax(scores, allowed)", wrong):
        report = check.probability_invariants(_activations(), _allowed())
    assert rows <= _failed(report)


def test_a_softmax_that_overflows_is_named():
    def plain(scores, mask):
        e = np.exp(scores) if mask is None else np.where(mask, np.exp(scores), 0)
        return e / e.sum(axis=-1, keepdims=True)

    report = check.probability_invariants(_activations(), _allowed(), plain)
    assert _failed(report) == {"a constant added to a row changes no probability"}


def test_a_mask_over_padding_that_was_forgotten_is_named():
    activations = decoder.forward(CASE.params, CASE.config, CASE.decoder_input).activations
    row = check.probability_invariants(activations, _allowed())["masked weights are exactly 0"]
    assert not row.holds and row.where.startswith("block.")


def test_weights_must_have_been_recorded():
    with pytest.raises(ValueError, match="activations held no '….weights'"):
        check.probability_invariants({"logits": np.ones((1, 2, 3))}, _allowed())
    activations = {"block.0.attention.weights": _activations()["block.0.attention.weights"]}
    row = check.probability_invariants(activations, _allowed())["a constant added to a row changes no probability"]
    assert row.holds is None


# ---- derivatives --------------------------------------------------------------------------------


def _loss(params, dtype=np.float64):
    params = {name: value.astype(dtype) for name, value in params.items()}
    out = decoder.forward(params, CASE.config, CASE.decoder_input, lengths=CASE.target_lengths)
    return loss.cross_entropy(out.logits, CASE.targets, lengths=CASE.target_lengths)[0]


def _gradients():
    out = decoder.forward(CASE.params, CASE.config, CASE.decoder_input, lengths=CASE.target_lengths)
    return decoder.backward(loss.cross_entropy(out.logits, CASE.targets, lengths=CASE.target_lengths)[1], out.cache)


def test_every_gradient_is_the_slope():
    report = check.derivative_agreement(_loss, CASE.params, _gradients()).require()
    assert len(report.rows) == 1 + len(CASE.params) and all(row.holds for row in report.rows)


def test_a_rotation_that_is_not_undone_is_named():
    with _twin(position.rope_backward, "cos, -sin", "cos, sin"):
        report = check.derivative_agreement(_loss, CASE.params, _gradients())
    assert {"block.0.attention.w_q", "block.0.attention.w_k"} <= _failed(report)
    assert "block.1.attention.w_o" not in _failed(report) and "by hand" in report["block.0.attention.w_q"].where


def test_single_precision_is_named():
    def loss_32(params):
        return np.float32(_loss(params, np.float32))

    report = check.derivative_agreement(loss_32, CASE.params, _gradients())
    assert "computed in float64" in _failed(report)
    assert report["computed in float64"].verdict == "fails, the loss is in float32"
    assert sum(row.holds is None for row in report.rows) > len(CASE.params) / 2  # the quotients at h and 2h are rounding
    single = {name: value.astype(np.float32) for name, value in CASE.params.items()}
    assert not check.derivative_agreement(_loss, single, _gradients())["computed in float64"].holds


def test_a_kink_and_a_steep_bend_leave_a_row_open():
    x = {"kink": np.array([5e-6]), "bend": np.array([20.0]), "line": np.array([1.0])}

    def total(values):
        return max(0.0, float(values["kink"][0])) + float(np.exp(np.exp(values["bend"][0] / 4))) * 1e-60 + float(values["line"][0])

    report = check.derivative_agreement(total, x, {"kink": np.array([1.0]), "bend": np.array([3.0]), "line": np.array([1.0])})
    assert report["kink"].holds is None and "h and 2h give" in report["kink"].verdict and report["line"].holds


def test_gradients_that_do_not_fit():
    x = {"a": np.ones(2)}
    with pytest.raises(ValueError, match="only one of them has b"):
        check.derivative_agreement(lambda v: 0.0, x, {"a": np.ones(2), "b": np.ones(2)})
    with pytest.raises(ValueError, match=r"the gradient of 'a' had shape \(1, 2\)"):
        check.derivative_agreement(lambda v: 0.0, x, {"a": np.ones((1, 2))})
    with pytest.raises(ValueError, match="loss was nan"):
        check.derivative_agreement(lambda v: np.nan, x, x)


# ---- heads --------------------------------------------------------------------------------------


def _heads(params=CASE.params, config=CASE.config, **own):
    out = decoder.forward(params, config, CASE.decoder_input, lengths=CASE.target_lengths)
    return check.head_shapes(**dict(activations=out.activations, params=params, config=config, kv_cache=out.kv_cache) | own)


@pytest.mark.parametrize("choices", KINDS)
def test_heads_are_where_they_should_be(choices):
    config, params = _all(choices)
    report = _heads(params, config).require()
    assert all(row.holds for row in report.rows)


def test_they_are_in_pytorch_as_well():
    from byhand.torch.decoder import Decoder

    activations = {}
    _, kv_cache = Decoder(CASE.config).load_params(CASE.params).read(CASE.decoder_input, activations=activations)
    check.head_shapes(activations, CASE.params, CASE.config, kv_cache).require()


def test_heads_shared_in_turn_are_named_though_every_shape_is_right():
    with _twin(attention.repeat_heads, "np.repeat(x, shared, axis=1)", "np.tile(x, (1, shared, 1, 1))"):
        report = _heads()
    assert _failed(report) == {"neighbouring query heads share a key head"}
    assert report["neighbouring query heads share a key head"].verdict == "fails, reads another head"


def test_query_heads_counted_for_key_heads_are_named():
    counted = dataclasses.replace(CASE.config, n_kv_heads=CASE.config.n_heads)
    out = decoder.forward(CASE.params, CASE.config, CASE.decoder_input)
    report = check.head_shapes(out.activations, CASE.params, counted, out.kv_cache)
    assert _failed(report) == {"weights have their shapes", "keys and values have n_kv_heads heads", "the KV cache has n_kv_heads heads"}
    assert report["the KV cache has n_kv_heads heads"].verdict == "fails, (2,) for (4,)"


def test_a_square_matrix_that_was_transposed_is_named():
    config, params = _all({"n_heads": 2, "n_kv_heads": 2, "d_k": 4, "d_v": 3})  # w_o is 6 × 6
    with _twin(attention.multi_head_attention, "merge_heads(mixed)), w_o, b_o)", "merge_heads(mixed)), w_o.T, b_o)"):
        report = _heads(params, config)
    assert _failed(report) == {"rows meet matrices as x @ w"}
    assert report["rows meet matrices as x @ w"].verdict == "fails, it is x @ wᵀ"
    assert report["rows meet matrices as x @ w"].where == "block.0.attention.out"


def test_a_matrix_of_columns_is_named():
    turned = CASE.params | {"block.1.feed_forward.w_1": CASE.params["block.1.feed_forward.w_1"].T}
    out = decoder.forward(CASE.params, CASE.config, CASE.decoder_input)
    report = check.head_shapes(out.activations, turned, CASE.config)
    assert report["rows meet matrices as x @ w"].verdict == "fails, its matrix has columns for rows"
    assert report["the KV cache has n_kv_heads heads"].holds is None


def test_another_product_is_named():
    out = decoder.forward(CASE.params, CASE.config, CASE.decoder_input)
    other = CASE.params | {"output.b": CASE.params["output.b"] + 1}
    row = check.head_shapes(out.activations, other, CASE.config)["rows meet matrices as x @ w"]
    assert not row.holds and row.where == "logits" and row.verdict == "fails, off by 1"


def test_activations_that_are_missing():
    with pytest.raises(ValueError, match="activations held no 'block.0.attention.q'"):
        check.head_shapes({}, CASE.params, CASE.config)


def test_isolation_gives_the_model_copies_of_the_tokens():
    tokens, table = np.array([[1, 2, 3], [4, 5, 6]]), np.random.default_rng(0).normal(size=(7, 4))

    def run(tokens):
        hidden = table[tokens].cumsum(axis=1)
        tokens[:] = 0
        return hidden @ table.T

    assert check.causal_isolation(run, tokens, 7).require() and tokens.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("hand", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("point", [0.0, 3e-6, -1.5e-5])
def test_a_kink_is_left_open_on_its_corner_and_beside_it(hand, point):
    x, gradient = np.array([point, 2.0]), np.array([hand, 1.0])
    report = check.derivative_agreement(lambda p: np.maximum(p["x"], 0).sum() * 1.0, {"x": x}, {"x": gradient})
    assert report["x"].holds is None and "left open" in report["x"].verdict
    smooth = check.derivative_agreement(lambda p: (p["x"] ** 3).sum(), {"x": x}, {"x": 3 * x**2})
    assert smooth["x"].holds


def test_a_loss_that_does_not_move_or_gradients_below_the_floor_are_no_pass():
    w, dw = np.ones(3), np.zeros(3)
    still = check.derivative_agreement(lambda p: np.float64(3.0), {"w": w}, {"w": dw})
    assert not still and "nothing was checked" in still.title
    small = check.derivative_agreement(lambda p: 1e-10 * (p["w"] ** 2).sum(), {"w": w}, {"w": dw})
    assert not small.failures and small["w"].holds is None and "too small to tell" in small["w"].verdict
    wrong = check.derivative_agreement(lambda p: np.float64(3.0), {"w": w}, {"w": w})
    assert wrong.failures
    with pytest.raises(ValueError, match="count was 0"):
        check.derivative_agreement(lambda p: np.float64(3.0), {"w": w}, {"w": dw}, count=0)


def test_the_loss_gets_copies():
    params = {"w": np.ones(3), "b": np.ones(2)}

    def loss(p):
        p["b"] *= 2
        p["w"] *= p["w"]
        return p["w"].sum()

    check.derivative_agreement(loss, params, {"w": np.full(3, 2.0), "b": np.zeros(2)}).require()
    assert params["w"].tolist() == [1, 1, 1] and params["b"].tolist() == [1, 1]
