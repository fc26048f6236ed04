import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.attention import (
    attention,
    attention_backward,
    attention_mask,
    multi_head_attention,
    multi_head_attention_backward,
)
from byhand.numpy.heads import merge_heads, split_heads
from byhand.record import Record

sizes = st.integers(1, 4)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(("open", "causal", "padded", "any", "causal and padded"))


def _mask(kind, rng, batch, heads, t_q, t_k):
    """mask, causal; every query keeps at least one key, since PyTorch's softmax gives NaN for none."""
    if kind == "padded" or kind == "causal and padded":
        lengths = rng.integers(1, t_k + 1, batch)
        return (np.arange(t_k) < lengths[:, None])[:, None, None, :], kind != "padded"
    if kind == "any":
        mask = rng.random((batch, heads, t_q, t_k)) < 0.5
        mask[..., 0] = True
        return mask, False
    return None, kind == "causal"


def _by_pytorch(mask, causal):
    """The formula in PyTorch, with the masks added to the scores as −∞."""
    import torch

    def attend(q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~torch.tensor(mask), -torch.inf)
        if causal:
            t_q, t_k = scores.shape[-2:]
            future = torch.arange(t_k) > torch.arange(t_q)[:, None] + t_k - t_q
            scores = scores.masked_fill(future, -torch.inf)
        return scores.softmax(-1) @ v

    return attend


@given(batch=sizes, heads=sizes, t_q=sizes, t_k=sizes, d_k=sizes, d_v=sizes, kind=kinds, seed=seeds)
def test_one_head_against_pytorch_and_central_differences(prove, batch, heads, t_q, t_k, d_k, d_v, kind, seed):
    t_k = max(t_k, t_q) if "causal" in kind else t_k  # otherwise the first queries have no key, which has a test of its own
    rng = np.random.default_rng(seed)
    mask, causal = _mask(kind, rng, batch, heads, t_q, t_k)
    inputs = {
        "q": rng.normal(size=(batch, heads, t_q, d_k)),
        "k": rng.normal(size=(batch, heads, t_k, d_k)),
        "v": rng.normal(size=(batch, heads, t_k, d_v)),
    }
    prove(
        lambda q, k, v: attention(q, k, v, mask, causal),
        lambda dy, cache: dict(zip("qkv", attention_backward(dy, cache))),
        _by_pytorch(mask, causal), inputs, seed,
    )  # fmt: skip


def _weights(rng, d_model, heads, d_k, d_v):
    return {
        "w_q": rng.normal(size=(d_model, heads * d_k)),
        "w_k": rng.normal(size=(d_model, heads * d_k)),
        "w_v": rng.normal(size=(d_model, heads * d_v)),
        "w_o": rng.normal(size=(heads * d_v, d_model)),
    }


def _heads_by_pytorch(heads, mask, causal):
    def attend(x, memory, w_q, w_k, w_v, w_o):
        import torch

        q, k, v = ((rows @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for rows, w in ((x, w_q), (memory, w_k), (memory, w_v)))
        mixed = _by_pytorch(mask, causal)(q, k, v)
        return torch.cat([mixed[:, head] for head in range(heads)], -1) @ w_o

    return attend


@given(batch=sizes, heads=sizes, t_q=sizes, t_k=sizes, d_model=sizes, d_k=sizes, d_v=sizes, kind=kinds, seed=seeds)
def test_cross_attention_against_pytorch_and_central_differences(prove, batch, heads, t_q, t_k, d_model, d_k, d_v, kind, seed):
    t_k = max(t_k, t_q) if "causal" in kind else t_k
    rng = np.random.default_rng(seed)
    mask, causal = _mask(kind, rng, batch, heads, t_q, t_k)
    inputs = {"x": rng.normal(size=(batch, t_q, d_model)), "memory": rng.normal(size=(batch, t_k, d_model))}

    def backward(dy, cache):
        (dquery, dkey, dvalue), grads = multi_head_attention_backward(dy, cache)
        return {"x": dquery, "memory": dkey + dvalue} | grads

    prove(
        lambda x, memory, **w: multi_head_attention(x, memory, *w.values(), heads, mask, causal),
        backward, _heads_by_pytorch(heads, mask, causal), inputs | _weights(rng, d_model, heads, d_k, d_v), seed,
    )  # fmt: skip


@given(batch=sizes, heads=sizes, time=sizes, d_model=sizes, kind=kinds, seed=seeds)
def test_self_attention_adds_its_three_uses_of_x(prove, batch, heads, time, d_model, kind, seed):
    rng = np.random.default_rng(seed)
    mask, causal = _mask(kind, rng, batch, heads, time, time)

    def backward(dy, cache):
        (dquery, dkey, dvalue), grads = multi_head_attention_backward(dy, cache)
        return {"x": dquery + dkey + dvalue} | grads

    prove(
        lambda x, **w: multi_head_attention(x, x, *w.values(), heads, mask, causal),
        backward, lambda x, **w: _heads_by_pytorch(heads, mask, causal)(x, x, **w),
        {"x": rng.normal(size=(batch, time, d_model))} | _weights(rng, d_model, heads, 3, 2), seed,
    )  # fmt: skip


@pytest.mark.parametrize(("t_q", "t_k"), [(3, 3), (2, 5), (4, 2)])
def test_causal_aligns_the_last_query_with_the_last_key(t_q, t_k):
    allowed = attention_mask(t_q, t_k, None, causal=True)
    assert allowed.tolist() == [[t_k - 1 - j >= t_q - 1 - i for j in range(t_k)] for i in range(t_q)]


def test_pytorchs_own_attention_agrees_on_the_meaning_of_a_mask():
    from torch import tensor
    from torch.nn.functional import scaled_dot_product_attention

    rng = np.random.default_rng(4)
    q, k, v = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(2, 3, 6, 2))
    mask = rng.random((2, 1, 4, 6)) < 0.5
    mask[0, 0, 1] = False  # a query with no key: zeros in both
    y, _ = attention(q, k, v, mask)
    assert agreement(y, scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), attn_mask=tensor(mask))) < 1e-12


def test_a_query_with_no_key_gives_zeros_and_gets_no_gradient():
    rng = np.random.default_rng(5)
    q, k, v = (rng.normal(size=(1, 2, 3, 4)) for _ in range(3))
    mask = np.ones((1, 1, 3, 3), bool)
    mask[0, 0, 1] = False
    y, cache = attention(q, k, v, mask)
    dq, dk, dv = attention_backward(rng.normal(size=y.shape), cache)
    assert not y[:, :, 1].any() and not dq[:, :, 1].any()
    assert all(np.isfinite(x).all() and x.any() for x in (y, dq, dk, dv))
    y, cache = attention(q, k, v[:, :, :], np.zeros((1, 1, 3, 3), bool))
    assert not y.any() and not any(gradient.any() for gradient in attention_backward(np.ones_like(y), cache))


def test_what_is_masked_is_exactly_0_forward_and_backward():
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(2, 2, 5, 3)) for _ in range(3))
    real = np.array([5, 3])[:, None, None, None] > np.arange(5)
    y, cache = attention(q, k, v, real, causal=True)
    record = Record()
    _, dk, dv = attention_backward(rng.normal(size=y.shape), cache, record)
    hidden = ~np.broadcast_to(real & np.tri(5, dtype=bool), cache.weights.shape)
    assert not cache.weights[hidden].any() and not record["scores"][hidden].any()
    assert record["weights"][hidden].any()  # dA is not 0 there: softmax's backward is what stops it
    assert not dk[1, :, 3:].any() and not dv[1, :, 3:].any()  # padding is a key for nobody


def test_heads_are_blocks_of_columns_from_left_to_right():
    x = np.arange(12.0).reshape(1, 2, 6)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 2) and heads[0, 1].tolist() == [[2, 3], [8, 9]]
    assert (merge_heads(heads) == x).all()


def test_heads_do_not_share_their_columns():
    """Without its gradient, head 2 leaves that of head 1's columns alone (document 1 says heads add up; positions do)."""
    rng = np.random.default_rng(7)
    weights = _weights(rng, 6, 2, 3, 3)
    x = rng.normal(size=(2, 4, 6))
    y, cache = multi_head_attention(x, x, *weights.values(), 2)
    dy = rng.normal(size=y.shape)
    _, both = multi_head_attention_backward(dy, cache)
    only_first = dict(weights, w_o=np.where(np.arange(6)[:, None] < 3, weights["w_o"], 0))
    _, cache = multi_head_attention(x, x, *only_first.values(), 2)
    _, one = multi_head_attention_backward(dy, cache)
    assert agreement(one["w_q"][:, :3], both["w_q"][:, :3]) < 1e-12 and not one["w_q"][:, 3:].any()


@pytest.mark.parametrize(
    ("q", "k", "v", "words"),
    [
        ((2, 3, 4), (2, 1, 3, 4), (2, 1, 3, 4), r"q had shape \(2, 3, 4\); it must be \(batch, heads, time, width\)"),
        ((2, 1, 3, 4), (2, 1, 3, 5), (2, 1, 3, 4), r"k had shape \(2, 1, 3, 5\)"),
        ((2, 1, 3, 4), (3, 1, 3, 4), (3, 1, 3, 4), r"k had shape \(3, 1, 3, 4\)"),
        ((2, 1, 3, 4), (2, 1, 3, 4), (2, 1, 2, 4), r"v had shape \(2, 1, 2, 4\)"),
    ],
)
def test_shapes_that_do_not_fit(q, k, v, words):
    with pytest.raises(ValueError, match=words):
        attention(np.zeros(q), np.zeros(k), np.zeros(v))


def test_heads_that_do_not_divide_the_width():
    with pytest.raises(ValueError, match="n_heads was 4; it must divide"):
        split_heads(np.zeros((1, 2, 6)), 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_is_not_finite_is_named(name, bad):
    values = {x: np.ones((1, 1, 2, 3)) for x in ("q", "k", "v")}
    values[name][0, 0, 1, 2] = bad
    with pytest.raises(ValueError, match=rf"{name} held {bad} at \(0, 0, 1, 2\); every entry must be a finite number"):
        attention(**values)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_overflow(sign):
    q = np.ones((1, 1, 2, 3))
    with pytest.raises(ValueError, match="scores held .?inf at"), np.errstate(all="ignore"):
        attention(q * 1e200, sign * q * 1e200, q)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [np.full((1, 1, 2, 2), 2), np.ones((2, 2)), np.ones((5, 1, 2, 2), bool), np.ones((2, 3), bool)])
def test_a_mask_that_cannot_be_meant(mask, causal):
    q = np.ones((1, 1, 2, 3))
    with pytest.raises(ValueError, match="mask had dtype .*; it must be a NumPy array of booleans that broadcasts to the scores"):
        attention(q, q, q, mask, causal)


def test_no_heads():
    x = np.ones((1, 2, 4))
    with pytest.raises(ValueError, match="n_heads was 0; it must be a whole number of at least 1"):
        multi_head_attention(x, x, *[np.eye(4)] * 4, 0)
