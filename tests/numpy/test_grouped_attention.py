"""Several query heads to one key-value head, rotated queries and keys, and keys from earlier calls."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.attention import (
    multi_head_attention,
    multi_head_attention_backward,
)
from byhand.numpy.heads import repeat_heads, sum_heads
from byhand.record import Record

RATIOS = ((1, 1), (2, 1), (4, 1), (4, 2), (6, 2), (6, 3), (3, 3))
ratios = pytest.mark.parametrize(("n_heads", "n_kv_heads"), RATIOS)


def _inputs(rng, n_heads, n_kv_heads, batch, time, d=5, d_k=4, d_v=3, biased=False):
    shapes = {
        "x": (batch, time, d), "w_q": (d, n_heads * d_k), "w_k": (d, n_kv_heads * d_k), "w_v": (d, n_kv_heads * d_v), "w_o": (n_heads * d_v, d),
    }  # fmt: skip
    shapes |= {w.replace("w", "b"): shape[1:] for w, shape in shapes.items() if w != "x" and biased}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _backward(dy, cache):
    (dquery, dkey, dvalue), grads = multi_head_attention_backward(dy, cache)
    return {"x": dquery + dkey + dvalue, **grads}


def _pytorch(n_heads, n_kv_heads, positions, mask, pairing):
    """PyTorch's own grouped attention, with rope by complex numbers."""
    import torch

    def heads(x, count):
        return x.unflatten(-1, (count, -1)).transpose(1, 2)

    def turned(x):
        angles = torch.tensor(positions, dtype=x.dtype)[:, None] / 10000.0 ** (torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
        pairs = x.unflatten(-1, (2, -1)).mT if pairing == "half" else x.unflatten(-1, (-1, 2))
        z = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles))
        return (z.mT if pairing == "half" else z).flatten(-2)

    def run(x, w_q, w_k, w_v, w_o, b_q=0, b_k=0, b_v=0, b_o=0):
        q, k, v = heads(x @ w_q + b_q, n_heads), heads(x @ w_k + b_k, n_kv_heads), heads(x @ w_v + b_v, n_kv_heads)
        if positions is not None:
            q, k = turned(q), turned(k)
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if mask is not None:
            allowed = allowed & torch.tensor(mask)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)
        return y.transpose(1, 2).flatten(2) @ w_o + b_o

    return run


@ratios
@given(
    batch=st.integers(1, 3), time=st.integers(1, 4), rotated=st.booleans(), padded=st.booleans(), seed=st.integers(0, 2**32 - 1),
    biased=st.booleans(), pairing=st.sampled_from(("interleaved", "half")),
)  # fmt: skip
def test_against_pytorch_and_central_differences(prove, n_heads, n_kv_heads, batch, time, rotated, padded, seed, biased, pairing):
    import torch

    rng = np.random.default_rng(seed)
    positions = np.sort(rng.choice(30, time, replace=False)) if rotated else None
    mask = (np.arange(time) < rng.integers(1, time + 1, batch)[:, None])[:, None, None, :] if padded else None

    def forward(x, **weights):
        how = dict(n_heads=n_heads, mask=mask, causal=True, n_kv_heads=n_kv_heads, positions=positions, pairing=pairing)
        fixed = {name: value.astype(x.dtype) for name, value in still.items()}
        return multi_head_attention(x, x, **weights, **fixed, **how)

    inputs = _inputs(rng, n_heads, n_kv_heads, batch, time, biased=biased)
    # a key's bias that is not rotated adds one number to all scores of a query: its gradient is 0 but for rounding
    still = {"b_k": inputs.pop("b_k")} if biased and not rotated else {}

    def backward(dy, cache):
        grads = _backward(dy, cache)
        assert all(np.abs(grads.pop(name)).max() < 1e-5 * max(np.abs(grads["b_v"]).max(), 1) for name in still)
        return grads

    by_pytorch = partial(_pytorch(n_heads, n_kv_heads, positions, mask, pairing), **{name: torch.tensor(value) for name, value in still.items()})
    prove(forward, backward, by_pytorch, inputs, seed)


def test_a_projection_without_its_bias_among_others_that_have_one():
    inputs = _inputs(np.random.default_rng(0), 2, 1, 2, 3, biased=True)
    with pytest.raises(ValueError, match="b_v was missing and b_q given; all projections must have a bias, or none"):
        multi_head_attention(inputs["x"], n_heads=2, n_kv_heads=1, memory=inputs.pop("x"), **inputs | {"b_v": None})


@ratios
def test_shared_heads_are_ordinary_heads_with_equal_weights(n_heads, n_kv_heads):
    """Repeat each key-value head's columns, and the full-width attention gives the same, its gradients summed over the copies."""
    rng = np.random.default_rng(1)
    inputs = _inputs(rng, n_heads, n_kv_heads, 2, 4)
    x, w_q, w_k, w_v, w_o = inputs.values()
    shared = n_heads // n_kv_heads

    def repeated(w, width):
        return w.reshape(len(w), n_kv_heads, width).repeat(shared, axis=1).reshape(len(w), n_heads * width)

    y, cache = multi_head_attention(x, x, w_q, w_k, w_v, w_o, n_heads, causal=True, n_kv_heads=n_kv_heads)
    full, full_cache = multi_head_attention(x, x, w_q, repeated(w_k, 4), repeated(w_v, 3), w_o, n_heads, causal=True)
    assert agreement(y, full) < 1e-13
    dy = rng.normal(size=y.shape)
    grads, full_grads = _backward(dy, cache), _backward(dy, full_cache)
    for name, width in (("w_k", 4), ("w_v", 3)):
        assert agreement(grads[name], full_grads[name].reshape(len(x[0, 0]), n_kv_heads, shared, width).sum(2).reshape(grads[name].shape)) < 1e-13
    for name in ("x", "w_q", "w_o"):
        assert agreement(grads[name], full_grads[name]) < 1e-13


def test_repeating_and_summing_are_each_others_transpose():
    rng = np.random.default_rng(2)
    x, dy = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 6, 4, 5))
    assert (repeat_heads(x, 2)[:, [0, 1, 4, 5]] == x[:, [0, 0, 2, 2]]).all()
    assert (repeat_heads(x, 2) * dy).sum() == pytest.approx((x * sum_heads(dy, 3)).sum())


def test_the_gradient_of_a_shared_head_is_the_sum_over_the_query_heads_in_sight():
    rng = np.random.default_rng(3)
    x, *weights = _inputs(rng, 4, 2, 2, 3).values()
    y, cache = multi_head_attention(x, x, *weights, 4, causal=True, n_kv_heads=2, positions=np.arange(3))
    record = Record()
    multi_head_attention_backward(rng.normal(size=y.shape), cache, record)
    each_k, each_v, k, v = (record[name] for name in ("k_per_query_head", "v_per_query_head", "k", "v"))
    assert each_k.shape == (2, 4, 3, 4) and k.shape == (2, 2, 3, 4)
    assert agreement(each_k[:, 0] + each_k[:, 1], k[:, 0]) < 1e-15
    assert agreement(each_v[:, 2] + each_v[:, 3], v[:, 1]) < 1e-15
    assert agreement((k**2).sum(-1), (record["k_unrotated"] ** 2).sum(-1)) < 1e-13  # a rotation keeps lengths


@ratios
def test_with_a_past_the_last_rows_are_those_of_the_whole(n_heads, n_kv_heads):
    rng = np.random.default_rng(4)
    x, *weights = _inputs(rng, n_heads, n_kv_heads, 2, 6).values()
    whole, cache = multi_head_attention(x, x, *weights, n_heads, causal=True, n_kv_heads=n_kv_heads, positions=np.arange(6))
    past = cache.keys[:, :, :4], cache.values[:, :, :4]
    new = x[:, 4:]
    y, new_cache = multi_head_attention(new, new, *weights, n_heads, causal=True, n_kv_heads=n_kv_heads, positions=np.arange(4, 6), past=past)
    assert agreement(y, whole[:, 4:]) < 1e-13
    assert agreement(new_cache.keys, cache.keys) < 1e-13 and agreement(new_cache.values, cache.values) < 1e-13
    with pytest.raises(ValueError, match="cache came from a forward pass with a past"):
        multi_head_attention_backward(y, new_cache)


@pytest.mark.parametrize("n_kv_heads", [2, 4, 0, 6])
def test_heads_that_cannot_be_shared(n_kv_heads):
    x, *weights = _inputs(np.random.default_rng(5), 3, 1, 1, 2).values()
    with pytest.raises(ValueError, match=f"n_kv_heads was {n_kv_heads}; it must divide n_heads, 3"):
        multi_head_attention(x, x, *weights, 3, n_kv_heads=n_kv_heads)


def test_negative_positions():
    x, *weights = _inputs(np.random.default_rng(6), 2, 1, 1, 2).values()
    with pytest.raises(ValueError, match="positions held -1"):
        multi_head_attention(x, x, *weights, 2, n_kv_heads=1, positions=np.array([-1, 0]))


def test_heads_that_cannot_be_summed():
    with pytest.raises(ValueError, match="n_kv_heads was 3; it must divide dy's heads, 4"):
        sum_heads(np.zeros((2, 4, 3, 5)), 3)


@pytest.mark.parametrize("past", [
    (np.ones((2, 1, 4, 3), np.float32), np.ones((2, 1, 4, 3), np.float32)), (np.ones((2, 1, 4, 3)), np.ones((2, 1, 4, 3), np.float32)),
    (np.ones((2, 4, 3)), np.ones((2, 4, 3))), (np.ones((2, 1, 4, 3)), np.ones((2, 4, 3))), (np.ones((2, 1, 4, 3)),), (np.ones((2, 1, 4, 3)),) * 3,
    (np.ones((2, 1, 4, 3)).tolist(), np.ones((2, 1, 4, 3)).tolist()), (), (np.ones((2, 1, 4, 3), int),) * 2,
], ids=range(9))  # fmt: skip
def test_what_is_no_past(past):
    x = np.ones((2, 5, 6))
    with pytest.raises(ValueError, match=r"past was .*; it must be keys and values, two arrays \(batch, kv_heads, time, width\) in float64"):
        multi_head_attention(x, x, np.ones((6, 6)), np.ones((6, 3)), np.ones((6, 3)), np.ones((6, 6)), 2, n_kv_heads=1, past=past)
