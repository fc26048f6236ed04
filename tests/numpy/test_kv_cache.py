"""Prefill and decode with a KV cache give what the full pass gives, at every position."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand import Config, toy
from byhand.check import agreement
from byhand.numpy import decoder, generation
from byhand.numpy.passes import Output
from byhand.numpy.sampling import greedy, sample
from byhand.record import Record, nothing

BOUND = 1e-10
RATIOS = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (6, 1), (6, 2), (6, 3), (8, 1), (8, 2))


def _model(seed=0, **choices):
    standard = dict(
        d_model=6, n_heads=4, n_kv_heads=2, d_k=4, d_v=3, d_ff=7, n_layers=2, source_vocab=1, target_vocab=9,
        norm="pre", norm_kind="rms", positions="rope", activation="swiglu",
    )  # fmt: skip
    config = Config(**(standard | choices | ({"max_length": 9} if choices.get("positions") == "learned" else {})))
    rng = np.random.default_rng(seed)
    params = {name: value + rng.normal(0, 0.3, value.shape) for name, value in decoder.init(config, seed).items()}
    return params, config, rng


def _piecewise(params, config, tokens, cuts, lengths=None):
    """The logits of every position, read in pieces that end at the cuts."""
    kv_cache, pieces, start = None, [], 0
    for stop in [*cuts, tokens.shape[1]]:
        out = decoder.forward(params, config, tokens[:, start:stop], kv_cache, lengths if start == 0 else None)
        kv_cache, start = out.kv_cache, stop
        pieces.append(out.logits)
    return np.concatenate(pieces, axis=1), kv_cache


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), RATIOS)
@pytest.mark.parametrize("positions", ["rope", "sinusoidal", "none", "learned"])
def test_token_by_token_equals_the_full_pass_for_every_ratio_of_heads(n_heads, n_kv_heads, positions):
    params, config, rng = _model(n_heads=n_heads, n_kv_heads=n_kv_heads, positions=positions)
    tokens = rng.integers(0, 9, (3, 8))
    full = decoder.forward(params, config, tokens)
    for prompt in range(1, 8):
        logits, kv_cache = _piecewise(params, config, tokens, range(prompt, 8))
        for t in range(8):
            assert agreement(logits[:, t], full.logits[:, t]) < BOUND
    for mine, right in zip(kv_cache.keys + kv_cache.values, full.kv_cache.keys + full.kv_cache.values, strict=True):
        assert agreement(mine, right) < BOUND


def test_every_kind_of_stack_in_random_pieces(stack):
    rng = np.random.default_rng(1)
    time = stack.tokens.shape[1]
    full = decoder.forward(stack.params, stack.config, stack.tokens)
    cuts = sorted(rng.choice(np.arange(1, time), rng.integers(1, time), replace=False))
    logits, kv_cache = _piecewise(stack.params, stack.config, stack.tokens, cuts)
    assert agreement(logits, full.logits) < BOUND
    assert kv_cache.time == time


@pytest.mark.parametrize("positions", ["rope", "sinusoidal", "none", "learned"])
def test_prompts_of_unequal_length_go_on_as_if_each_were_alone(positions):
    params, config, rng = _model(positions=positions)
    prompt, more, lengths = rng.integers(0, 9, (3, 5)), rng.integers(0, 9, (3, 4)), np.array([5, 2, 4])
    out = decoder.forward(params, config, prompt, lengths=lengths)
    steps = []
    for t in range(4):
        out = decoder.forward(params, config, more[:, t : t + 1], out.kv_cache)
        steps.append(out.logits[:, 0])
    at_once = decoder.forward(params, config, more, decoder.forward(params, config, prompt, lengths=lengths).kv_cache)
    for row, length in enumerate(lengths):
        alone = decoder.forward(params, config, np.concatenate((prompt[row, :length], more[row]))[None]).logits[0]
        for t in range(4):
            assert agreement(steps[t][row], alone[length + t]) < BOUND
            assert agreement(at_once.logits[row, t], alone[length + t]) < BOUND


def test_padding_in_a_later_piece_is_skipped_too():
    params, config, rng = _model()
    first, second, last = rng.integers(0, 9, (2, 3)), rng.integers(0, 9, (2, 3)), rng.integers(0, 9, (2, 1))
    lengths = np.array([1, 3])
    kv_cache = decoder.forward(params, config, first).kv_cache
    kv_cache = decoder.forward(params, config, second, kv_cache, lengths).kv_cache
    logits = decoder.forward(params, config, last, kv_cache).logits
    for row, length in enumerate(lengths):
        alone = np.concatenate((first[row], second[row, :length], last[row]))[None]
        assert agreement(logits[row, 0], decoder.forward(params, config, alone).logits[0, -1]) < BOUND


def test_a_cache_is_never_changed_and_may_be_continued_twice(unchanged):
    params, config, rng = _model()
    tokens = rng.integers(0, 9, (2, 4))
    kv_cache = decoder.forward(params, config, tokens).kv_cache
    new, other = np.array([[1], [2]]), np.array([[3], [4]])
    with unchanged(kv_cache, params, tokens):
        one = decoder.forward(params, config, new, kv_cache).logits
        two = decoder.forward(params, config, other, kv_cache).logits
        again = decoder.forward(params, config, new, kv_cache).logits
    assert (one == again).all() and agreement(one, two) > 1e-3
    assert kv_cache.time == 4


def test_its_bytes_are_the_formulas_and_shrink_with_the_key_value_heads():
    for dtype, number in ((np.float64, 8), (np.float32, 4)):
        for n_kv_heads in (4, 2, 1):
            params, config, rng = _model(n_kv_heads=n_kv_heads, n_layers=3)
            params = {name: value.astype(dtype) for name, value in params.items()}
            kv_cache = decoder.forward(params, config, rng.integers(0, 9, (2, 5))).kv_cache
            # batch · layers · time · heads · (d_k + d_v) · bytes; document 2 writes 2 d_h for d_k + d_v
            assert kv_cache.nbytes == 2 * 3 * 5 * n_kv_heads * (4 + 3) * number
            assert kv_cache.keys[0].dtype == dtype
    assert repr(kv_cache) == "KVCache(3 layers, batch 2, 1 heads, time 5, 840 bytes)"


def test_keeping_nothing_gives_the_same_logits_and_no_cache_for_a_backward():
    params, config, rng = _model()
    tokens = rng.integers(0, 9, (2, 4))
    kept, lean = decoder.forward(params, config, tokens), decoder.forward(params, config, tokens, keep=False)
    assert (kept.logits == lean.logits).all() and lean.activations == {} and lean.cache is None
    with pytest.raises(ValueError, match="cache was None; a backward needs the cache of a forward pass with keep=True and no kv_cache"):
        decoder.backward(lean.logits, lean.cache)
    continued = decoder.forward(params, config, tokens, kept.kv_cache)
    assert continued.cache is None and "block.1.attention.scores" in continued.activations
    assert continued.activations["block.1.attention.scores"].shape == (2, 4, 4, 8)


@pytest.mark.parametrize("cached", [True, False])
def test_generation_keeps_nothing_for_a_backward(monkeypatch, cached):
    params, config, rng = _model()
    run, caches = decoder._run, []

    def watched(*arguments):
        found = run(*arguments)
        caches.append(found[1])
        return found

    monkeypatch.setattr(decoder, "_run", watched)
    assert len(list(decoder.generate(params, config, rng.integers(0, 9, (2, 3)), 3, cached=cached))) == len(caches) == 3
    assert caches == [None] * 3


def test_keeping_nothing_holds_one_block_at_a_time():
    """Peak memory beyond the KV cache: with ten layers, as with one, one block's arrays."""
    import tracemalloc

    peaks = {}
    for n_layers in (1, 10):
        for keep in (True, False):
            params, config, rng = _model(n_layers=n_layers, d_model=32, d_ff=64)
            tokens = rng.integers(0, 9, (1, 128))
            decoder.forward(params, config, tokens, keep=keep)
            tracemalloc.start()
            out = decoder.forward(params, config, tokens, keep=keep)
            peaks[n_layers, keep] = tracemalloc.get_traced_memory()[1] - out.kv_cache.nbytes
            tracemalloc.stop()
            del out
    assert peaks[10, True] > 5 * peaks[1, True]
    assert peaks[10, False] < 1.2 * peaks[1, False]


# ---- generate -----------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), n_new=st.integers(1, 6), ragged=st.booleans())
def test_with_and_without_the_cache_the_same_tokens_are_generated(seed, n_new, ragged):
    params, config, rng = _model(seed % 5)
    prompt = rng.integers(0, 9, (3, 4))
    lengths = np.array([4, 1, 2]) if ragged else None
    cached = np.stack(list(decoder.generate(params, config, prompt, n_new, lengths=lengths)), axis=1)
    again = np.stack(list(decoder.generate(params, config, prompt, n_new, lengths=lengths, cached=False)), axis=1)
    assert cached.shape == (3, n_new) and (cached == again).all()


def test_generated_greedily_each_token_is_the_likeliest_after_those_before(unchanged):
    params, config, rng = _model()
    prompt = rng.integers(0, 9, (2, 3))
    with unchanged(prompt, params):
        new = np.stack(list(decoder.generate(params, config, prompt, 5)), axis=1)
    logits = decoder.forward(params, config, np.concatenate((prompt, new), axis=1)).logits
    assert (greedy(logits[:, 2:-1]) == new).all()


def test_sampling_through_a_generator_of_random_numbers_repeats_itself():
    params, config, rng = _model()
    prompt = rng.integers(0, 9, (2, 3))

    def run(seed):
        draw = np.random.default_rng(seed)
        return np.stack(list(decoder.generate(params, config, prompt, 20, lambda logits: sample(logits, draw, temperature=2.0))), axis=1)

    assert (run(0) == run(0)).all() and (run(0) != run(1)).any()


def test_the_first_token_comes_before_the_second_is_worked_out():
    params, config, _ = _model()
    seen = []

    def watched(logits):
        seen.append(len(seen))
        return greedy(logits)

    tokens = decoder.generate(params, config, np.array([[1, 2]]), 3, watched)
    assert seen == []
    next(tokens)
    assert seen == [0]
    assert len(list(tokens)) == 2


def test_every_token_is_read_once_and_the_last_one_never():
    read, tokens = [], np.array([[1, 2, 3]])

    def counting(tokens, kv_cache, lengths):
        read.append(tokens.shape[1])
        return np.zeros((*tokens.shape, 9)), kv_cache

    assert len(list(generation.with_cache(counting, tokens, 4, greedy, np.array([3])))) == 4
    assert read == [3, 1, 1, 1]
    read.clear()
    assert len(list(generation.without_cache(counting, tokens, 4, greedy, np.array([3])))) == 4
    assert read == [3, 4, 5, 6]


@pytest.mark.parametrize("cached", [True, False])
def test_generating_holds_one_block_at_a_time(cached):
    """Ten layers need no more working memory than one: their caches for a backward are never made."""
    import tracemalloc

    peaks = {}
    for n_layers in (1, 10):
        params, config, rng = _model(n_layers=n_layers, d_model=32, d_ff=64)
        tokens = rng.integers(0, 9, (1, 128))
        for _ in range(2):  # the first call fills what is kept for good
            tracemalloc.start()
            assert len(list(decoder.generate(params, config, tokens, 1, cached=cached))) == 1
            peaks[n_layers] = tracemalloc.get_traced_memory()[1] - n_layers * 2 * 128 * config.n_kv_heads * config.d_k * 8
            tracemalloc.stop()
    assert peaks[10] < 1.5 * peaks[1]


# ---- what cannot be meant -----------------------------------------------------------------------


def _continued(change):
    """A forward pass that goes on from a cache, after something has been changed."""
    params, config, rng = _model(max_length=6)
    state = dict(params=params, config=config, tokens=np.array([[1], [2]]), kv_cache=decoder.forward(params, config, rng.integers(0, 9, (2, 4))).kv_cache)
    return decoder.forward(**(state | change(state)))


def test_without_a_change_it_goes_on():
    assert _continued(lambda s: {}).kv_cache.time == 5
    copies = {name: value.copy() for name, value in _model()[0].items()}  # equal parameters are the same model
    assert _continued(lambda s: {"params": copies}).kv_cache.time == 5


def test_a_cache_of_another_model():
    with pytest.raises(ValueError, match="kv_cache was made under another config"):
        _continued(lambda s: {"config": dataclasses.replace(s["config"], max_length=7)})
    with pytest.raises(ValueError, match="kv_cache was made by another model: parameter 'block.1.attention.w_k' differs"):
        _continued(lambda s: {"params": s["params"] | {"block.1.attention.w_k": s["params"]["block.1.attention.w_k"] * 1.01}})


def test_a_cache_of_another_batch():
    with pytest.raises(ValueError, match=r"kv_cache held keys of shape \(2, 2, 4, 4\); it must be \(3, 2, 4, 4\), for this batch and model"):
        _continued(lambda s: {"tokens": np.array([[1], [2], [3]])})


def test_a_cache_of_another_dtype():
    with pytest.raises(ValueError, match="kv_cache held keys in float64; it must be the parameters' dtype, float32"):
        _continued(lambda s: {"params": {name: value.astype(np.float32) for name, value in s["params"].items()}})


def test_a_cache_that_was_cut():
    with pytest.raises(ValueError, match="kv_cache had values of 1 layers; it must have 2"):
        _continued(lambda s: {"kv_cache": s["kv_cache"]._replace(values=s["kv_cache"].values[:1])})
    with pytest.raises(ValueError, match=r"kv_cache held values of shape \(2, 2, 3, 3\)"):
        _continued(lambda s: {"kv_cache": s["kv_cache"]._replace(values=tuple(v[:, :, 1:] for v in s["kv_cache"].values))})


def test_decoding_past_the_end():
    assert _continued(lambda s: {"tokens": np.array([[1, 2], [2, 3]])}).kv_cache.time == 6
    with pytest.raises(ValueError, match="tokens had time 3 after the 4 in kv_cache; together they must be at most max_length, 6"):
        _continued(lambda s: {"tokens": np.array([[1, 2, 3], [2, 3, 4]])})


def test_generating_past_the_end_is_refused_at_the_call():
    params, config, _ = _model(max_length=6)
    assert len(list(decoder.generate(params, config, np.array([[1, 2]]), 4))) == 4
    with pytest.raises(ValueError, match="tokens had time 7; together they must be at most max_length, 6"):
        decoder.generate(params, config, np.array([[1, 2]]), 5)


@pytest.mark.parametrize("n_new", [0, -1, 1.0, True])
def test_a_number_of_tokens_that_cannot_be_meant(n_new):
    params, config, _ = _model()
    with pytest.raises(ValueError, match="n_new was"):
        decoder.generate(params, config, np.array([[1, 2]]), n_new)


def test_generating_from_tokens_that_cannot_be_meant():
    params, config, _ = _model()
    with pytest.raises(IndexError, match="tokens held the token 9"):
        decoder.generate(params, config, np.array([[1, 9]]), 1)
    with pytest.raises(ValueError, match="lengths held 3"):
        decoder.generate(params, config, np.array([[1, 2]]), 1, lengths=np.array([3]))
    with pytest.raises(ValueError, match="parameter 'embedding' is missing"):
        decoder.generate({}, config, np.array([[1, 2]]), 1)


def test_an_activation_that_is_not_finite_is_named_though_nothing_was_kept():
    params, config, _ = _model()
    params["block.0.feed_forward.w_2"] = params["block.0.feed_forward.w_2"] * 1e308
    params["block.0.feed_forward.w_1"] = params["block.0.feed_forward.w_1"] * 1e10
    with pytest.raises(ValueError, match="activation 'block.0.feed_forward.out' is the first"), np.errstate(all="ignore"):
        decoder.forward(params, config, np.array([[1, 2]]), keep=False)


def test_the_worked_decoder_goes_on_from_its_padded_prompt():
    case = toy.decoder()
    out = decoder.forward(case.params, case.config, case.decoder_input, lengths=case.target_lengths)
    assert out.kv_cache.valid.sum(axis=1).tolist() == case.target_lengths.tolist()
    assert decoder.forward(case.params, case.config, case.decoder_input[:, :1], out.kv_cache).kv_cache.time == 8


def test_what_is_no_cache():
    params, config, _ = _model()
    with pytest.raises(ValueError, match="kv_cache was dict; it must be None or a KVCache"):
        decoder.forward(params, config, np.array([[1]]), {})


@pytest.mark.parametrize("change", [1e-9, 1.0])
def test_activations_of_a_pass_whose_parameters_have_changed(change):
    params, config, rng = _model()
    out, kept = (decoder.forward(params, config, rng.integers(0, 9, (2, 3)), record=record) for record in (nothing, Record()))
    before = kept.activations["out"].copy()
    params["block.1.feed_forward.w_2"] *= 1 + change
    with pytest.raises(ValueError, match="params have changed since this pass"):
        out.activations
    assert (kept.activations["out"] == before).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_thousand_roundings_are_no_change_of_the_parameters(dtype):
    """Of the largest logit: another kernel may take the second pass."""
    logits, eps = np.array([[[1.0, -0.5]]], dtype), np.finfo(dtype).eps
    for roundings in (-1000, 0, 1000, 1001, np.nan):
        again = logits + dtype(roundings * eps) * np.array([0, 1], dtype)
        out = Output(logits, None, lambda record, again=again: (again, record("out", again)))
        if abs(roundings) <= 1000:
            assert out.activations["out"] is again and out.activations["logits"] is logits
        else:
            with pytest.raises(ValueError, match="params have changed since this pass"):
                out.activations
    assert Output(logits, None, None).activations == {} and Output(logits, None, None, {"a": logits}).activations == {"a": logits}


def test_a_gradient_that_is_not_finite_is_named():
    """The first stage on the way back, which is no parameter's."""
    params, config, rng = _model()
    out = decoder.forward(params, config, rng.integers(0, 9, (2, 3)))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="the gradient of 'out' is the first that is not finite"):
        decoder.backward(np.full(out.logits.shape, 1e308), out.cache)
