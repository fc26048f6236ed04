"""Attention in tiles: exact, forward and backward, and in memory that grows with n and not with n²."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy import tiled
from byhand.numpy.attention import attention, attention_backward, tiled_attention, tiled_attention_backward

FORWARD, BACKWARD = 1e-10, 1e-9
lengths = st.integers(1, 12)
blocks = st.sampled_from(((1, 1), (2, 3), (3, 2), (4, 4), (5, 1), (256, 512)))
seeds = st.integers(0, 2**32 - 1)


def _qkv(rng, t_q, t_k, batch=2, heads=3, d_k=4, d_v=5, dtype=float):
    return tuple(rng.normal(size=(batch, heads, time, d)).astype(dtype) for time, d in ((t_q, d_k), (t_k, d_k), (t_k, d_v)))


@given(t_q=lengths, t_k=lengths, causal=st.booleans(), block=blocks, scale=st.sampled_from((0.1, 1.0, 30.0)), seed=seeds)
def test_it_equals_plain_attention(t_q, t_k, causal, block, scale, seed):
    rng = np.random.default_rng(seed)
    q, k, v = _qkv(rng, t_q, t_k)
    q = scale * q
    y, cache = tiled_attention(q, k, v, causal, block)
    right, right_cache = attention(q, k, v, causal=causal)
    assert agreement(y, right) < FORWARD
    dy = rng.normal(size=y.shape)
    for mine, plain in zip(tiled_attention_backward(dy, cache), attention_backward(dy, right_cache), strict=True):
        assert agreement(mine, plain) < BACKWARD


@given(t_q=st.integers(1, 5), more=st.integers(0, 3), causal=st.booleans(), block=blocks, seed=seeds)
def test_against_pytorch_and_central_differences(prove, t_q, more, causal, block, seed):
    """Every query has a key here: PyTorch and we agree on rows without one, but its gradient there is another test."""
    import torch

    t_k = t_q + more
    q, k, v = _qkv(np.random.default_rng(seed), t_q, t_k, batch=1, heads=2)
    mask = torch.ones(t_q, t_k, dtype=torch.bool).tril(more if causal else t_k)
    prove(
        lambda q, k, v: tiled_attention(q, k, v, causal, block),
        lambda dy, cache: dict(zip("qkv", tiled_attention_backward(dy, cache), strict=True)),
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        {"q": q, "k": k, "v": v},
        seed,
    )


def test_causal_aligns_the_last_query_with_the_last_key():
    rng = np.random.default_rng(0)
    q, k, v = _qkv(rng, 3, 7)
    y, _ = tiled_attention(q, k, v, causal=True, block=(2, 2))
    later_k, later_v = k.copy(), v.copy()
    later_k[:, :, 6], later_v[:, :, 6] = 9.0, 9.0  # only the last query sees the last key
    other, _ = tiled_attention(q, later_k, later_v, causal=True, block=(2, 2))
    assert (other[:, :, :2] == y[:, :, :2]).all() and abs(other[:, :, 2] - y[:, :, 2]).min() > 1e-3


@pytest.mark.parametrize("block", [(1, 1), (2, 3), (256, 512)])
def test_queries_before_the_first_key_get_zeros_forward_and_backward(block):
    rng = np.random.default_rng(1)
    q, k, v = _qkv(rng, 9, 5)
    with np.errstate(all="raise", under="ignore"):
        y, cache = tiled_attention(q, k, v, causal=True, block=block)
        dq, dk, dv = tiled_attention_backward(rng.normal(size=y.shape), cache)
    assert not y[:, :, :4].any() and not dq[:, :, :4].any()
    assert abs(y[:, :, 4:]).min() > 0 and np.isfinite(dk).all() and np.isfinite(dv).all()


def test_scores_in_the_hundreds_neither_overflow_nor_lose_the_small_ones():
    q = np.array([[[[400.0]], [[-400.0]]]])
    k = np.array([[[[1.0], [2.0], [2.001]]] * 2]).reshape(1, 2, 3, 1)
    v = np.arange(6.0).reshape(1, 2, 3, 1)
    y, _ = tiled_attention(q, k, v, block=(1, 1))
    assert agreement(y, attention(q, k, v)[0]) < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_tiles_wholly_in_the_future_are_skipped_and_no_others(causal, monkeypatch):
    met = []
    def met_online(running, scores, v, real=tiled.online_softmax.rule):
        met.append(scores.shape)
        return real(running, scores, v)

    monkeypatch.setattr(tiled.online_softmax, "rule", met_online)
    q, k, v = _qkv(np.random.default_rng(2), 8, 8)
    tiled_attention(q, k, v, causal, (2, 2))
    assert len(met) == (1 + 2 + 3 + 4 if causal else 16)


def test_the_running_sums_of_a_small_row():
    """peak, total and mixed after each block, worked by hand: scores ln 1, ln 4, ln 2 with values 6, 3, 9."""
    scores, v = np.log([[[[1.0, 4.0, 2.0]]]]), np.array([[[[6.0], [3.0], [9.0]]]])
    running = tiled.start((1, 1, 1), 1, float)
    states = []
    for j in range(3):
        running = tiled.online_softmax(running, scores[..., j : j + 1], v[:, :, j : j + 1])
        states.append([float(np.exp(running.peak.item())), running.total.item(), running.mixed.item()])
    np.testing.assert_allclose(states, [[1, 1, 6], [4, 1.25, 4.5], [4, 1.75, 9]], rtol=1e-14)
    assert running.mixed.item() / running.total.item() == pytest.approx((6 + 4 * 3 + 2 * 9) / 7)


def test_float32_stays_float32():
    q, k, v = _qkv(np.random.default_rng(3), 40, 40, dtype=np.float32)
    y, cache = tiled_attention(q, k, v, True, (16, 8))
    grads = tiled_attention_backward(np.ones_like(y), cache)
    assert {array.dtype for array in (y, cache.log_total, *grads)} == {np.dtype(np.float32)}
    assert agreement(y, attention(q.astype(float), k.astype(float), v.astype(float), causal=True)[0]) < 1e-5


def _peak(run):
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _peaks(sizes, run):
    peaks = {}
    for n in sizes:
        q, k, v = _qkv(np.random.default_rng(4), n, n, batch=1, heads=1, d_k=16, d_v=16, dtype=np.float32)
        peaks[n] = _peak(lambda q=q, k=k, v=v: run(q, k, v))
    return peaks


def test_its_extra_memory_grows_as_n_and_that_of_plain_attention_as_n_squared():
    sizes = (1024, 2048, 4096, 8192)

    def forward_and_backward(q, k, v):
        y, cache = tiled_attention(q, k, v, causal=True)
        tiled_attention_backward(y, cache)

    tiles = _peaks(sizes, forward_and_backward)
    # one tile, the same for all n, and so many bytes a row: each doubling adds twice what the one before added
    added = [tiles[after] - tiles[before] for before, after in zip(sizes, sizes[1:], strict=False)]
    assert 1.8 < added[1] / added[0] < 2.2 and 1.8 < added[2] / added[1] < 2.2
    a_row = added[2] / 4096
    assert a_row < 4 * 16 * 12  # float32, width 16: a dozen rows of that width
    plain = _peaks(sizes[:3], lambda q, k, v: attention(q, k, v, causal=True))
    assert 3.8 < plain[4096] / plain[2048] < 4.2 and 3.8 < plain[2048] / plain[1024] < 4.2
    assert plain[4096] > 50 * tiles[4096]


@pytest.mark.parametrize(("change", "words"), [
    ({"k": (2, 3, 6, 5)}, r"k had shape \(2, 3, 6, 5\); batch, heads and width must be q's"),
    ({"v": (2, 3, 5, 5)}, r"v had shape \(2, 3, 5, 5\); batch, heads and time must be k's"),
    ({"q": (3, 4, 4)}, r"q had shape \(3, 4, 4\)"),
])  # fmt: skip
def test_shapes_that_do_not_fit(change, words):
    shapes = {"q": (2, 3, 4, 4), "k": (2, 3, 6, 4), "v": (2, 3, 6, 5)} | change
    with pytest.raises(ValueError, match=words):
        tiled_attention(**{name: np.ones(shape) for name, shape in shapes.items()})


@pytest.mark.parametrize("block", [(0, 2), (2, -1), (2,), (2.0, 2), 5, (True, 2)])
def test_a_block_that_cannot_be_meant(block):
    q, k, v = _qkv(np.random.default_rng(5), 3, 3)
    with pytest.raises(ValueError, match="block was"):
        tiled_attention(q, k, v, block=block)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_not_finite(bad):
    q, k, v = _qkv(np.random.default_rng(6), 3, 3)
    for name, value in {"q": q, "k": k, "v": v}.items():
        spoiled = value.copy()
        spoiled[0, 0, 1, 0] = bad
        with pytest.raises(ValueError, match=rf"{name} held {bad} at \(0, 0, 1, 0\)"):
            tiled_attention(**({"q": q, "k": k, "v": v} | {name: spoiled}), block=(2, 2))


@pytest.mark.parametrize(("sign", "words"), [(1, "NaN or .inf"), (-1, "a score of -inf")])
def test_a_score_that_overflows(sign, words):
    q = np.ones((1, 1, 3, 2))
    with pytest.raises(ValueError, match=words), np.errstate(all="ignore"):
        tiled_attention(q * 1e200, sign * q * 1e200, q, causal=True, block=(2, 2))


def test_a_block_of_numpy_integers():
    q = np.ones((1, 1, 3, 2))
    np.testing.assert_array_equal(tiled_attention(q, q, q, block=[np.int64(2), 2])[0], tiled_attention(q, q, q, block=(2, 2))[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_block_of_scores_that_is_not_finite_is_named_with_its_place(bad):
    scores, v = np.zeros((1, 1, 2, 3)), np.ones((1, 1, 3, 2))
    scores[0, 0, 0, 0], scores[0, 0, 1, 2] = -np.inf, bad
    running = tiled.start((1, 1, 2), 2, np.float64)
    with pytest.raises(ValueError, match=rf"scores held {bad} at \(0, 0, 1, 2\)"):
        tiled.online_softmax(running, scores, v)
    with pytest.raises(ValueError, match=rf"running.peak held {bad} at \(0, 0, 1, 0\)"):
        tiled.online_softmax(running._replace(peak=np.array([[[[-np.inf], [bad]]]])), np.zeros((1, 1, 2, 3)), v)
