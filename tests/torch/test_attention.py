import numpy as np
import pytest
import torch
from torch import nn

from byhand.numpy import attention as np_attention
from byhand.record import Record
from byhand.torch.attention import MultiHeadAttention, attention, causal_mask, multi_head_attention

LENGTHS = [(4, 4), (2, 5), (5, 2), (1, 3), (3, 1)]


def grads_of(y, dy, *inputs):
    return torch.autograd.grad(y, inputs, dy)


def random_mask(t_q, t_k, seed=0):
    """With a row that may attend to nothing."""
    mask = torch.rand(2, 1, t_q, t_k, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[0, 0, 0] = False
    return mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("t_q", "t_k"), LENGTHS)
@pytest.mark.parametrize("d_v", [3, 4])
def test_sdpa_plain_and_numpy_agree(draw_tensor, differ, t_q, t_k, d_v, causal, masked):
    q, k, v = draw_tensor(2, 3, t_q, 4), draw_tensor(2, 3, t_k, 4), draw_tensor(2, 3, t_k, d_v)
    dy = draw_tensor(2, 3, t_q, d_v).detach()
    mask = random_mask(t_q, t_k) if masked else None
    y, cache = np_attention.attention(*(x.detach().numpy() for x in (q, k, v)), None if mask is None else mask.numpy(), causal)
    expected = np_attention.attention_backward(dy.numpy(), cache)
    for plain in (False, True):
        mine = attention(q, k, v, mask, causal, plain)
        assert differ(mine, y) < 1e-12
        for gradient, wanted in zip(grads_of(mine, dy, q, k, v), expected, strict=True):
            assert differ(gradient, wanted) < 1e-12


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_row_that_may_attend_to_nothing_gives_zeros(draw_tensor, plain, dtype):
    q, k, v = (draw_tensor(2, 2, 3, 4).detach().to(dtype).requires_grad_() for _ in range(3))
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    y = attention(q, k, v, mask, plain=plain)
    gradients = torch.autograd.grad(y.sum(), (q, k, v))
    assert (y[:, :, 1] == 0).all() and (y[:, :, 0] != 0).any()
    assert (gradients[0][:, :, 1] == 0).all() and all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("plain", [False, True])
def test_causal_aligns_the_last_query_with_the_last_key(draw_tensor, plain):
    q, k, v = draw_tensor(1, 1, 2, 4), draw_tensor(1, 1, 5, 4), draw_tensor(1, 1, 5, 4)
    y = attention(q, k, v, causal=True, plain=plain)
    last = attention(q[:, :, 1:], k, v, plain=plain)  # sees everything
    first = attention(q[:, :, :1], k[:, :, :4], v[:, :, :4], plain=plain)
    torch.testing.assert_close(y, torch.cat([first, last], dim=2))
    assert causal_mask(2, 5).tolist() == [[True] * 4 + [False], [True] * 5]
    assert (attention(k, q, q, causal=True, plain=plain)[:, :, :3] == 0).all()  # more queries than keys: the first see nothing


@pytest.mark.parametrize("causal", [False, True])
def test_shared_keys_and_values_are_repeated_ones(draw_tensor, differ, causal):
    q, k, v = draw_tensor(2, 6, 4, 3), draw_tensor(2, 2, 4, 3), draw_tensor(2, 2, 4, 5)
    dy = draw_tensor(2, 6, 4, 5).detach()
    y = attention(q, k.repeat_interleave(3, dim=1), v.repeat_interleave(3, dim=1), causal=causal, plain=True)
    expected = grads_of(y, dy, q, k, v)
    for plain in (False, True):
        mine = attention(q, k, v, causal=causal, plain=plain)
        assert differ(mine, y) < 1e-12
        for gradient, wanted in zip(grads_of(mine, dy, q, k, v), expected, strict=True):
            assert differ(gradient, wanted) < 1e-12


def test_plain_attention_against_central_differences(draw_tensor):
    q, k, v = draw_tensor(1, 2, 3, 2), draw_tensor(1, 2, 4, 2), draw_tensor(1, 2, 4, 3)
    mask = random_mask(3, 4)[:1]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask, True, plain=True), (q, k, v))


def test_multi_head_attention_agrees_with_pytorchs_own(draw_tensor, differ):
    d_model, heads = 6, 3
    x, memory = draw_tensor(2, 4, d_model), draw_tensor(2, 5, d_model)
    mine = MultiHeadAttention(d_model, heads, d_k=2, d_v=2).double()
    theirs = nn.MultiheadAttention(d_model, heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([mine.w_q, mine.w_k, mine.w_v], dim=1).T)  # it keeps transposes
        theirs.out_proj.weight.copy_(mine.w_o.T)
    mask = torch.arange(5) < torch.tensor([5, 3])[:, None]
    y = mine(x, memory, mask[:, None, None, :])
    wanted, _ = theirs(x, memory, memory, key_padding_mask=~mask)  # its mask means the opposite
    assert differ(y, wanted) < 1e-12


@pytest.mark.parametrize("plain", [False, True])
def test_multi_head_attention_agrees_with_numpy(draw_tensor, differ, plain):
    inputs = [draw_tensor(*shape) for shape in ((2, 3, 5), (2, 4, 5), (5, 6), (5, 6), (5, 8), (8, 5))]  # d_k 3, d_v 4
    dy = draw_tensor(2, 3, 5).detach()
    mask = random_mask(3, 4)
    y, cache = np_attention.multi_head_attention(*(x.detach().numpy() for x in inputs), 2, mask.numpy(), True)
    (dx, dkey, dvalue), grads = np_attention.multi_head_attention_backward(dy.numpy(), cache)
    dmemory = dkey + dvalue
    mine = multi_head_attention(*inputs, 2, mask, True, plain=plain)
    assert differ(mine, y) < 1e-12
    for gradient, wanted in zip(grads_of(mine, dy, *inputs), (dx, dmemory, *grads.values()), strict=True):
        assert differ(gradient, wanted) < 1e-12


def test_recording_names_every_stage(draw_tensor):
    kept = {}
    module = MultiHeadAttention(4, 2, d_k=3, d_v=5).double()
    y = module(draw_tensor(1, 2, 4), draw_tensor(1, 3, 4), record=Record(kept, "cross."))
    shapes = {name: tuple(value.shape) for name, value in kept.items()}
    assert shapes == {
        "cross.q": (1, 2, 2, 3),
        "cross.k": (1, 2, 3, 3),
        "cross.v": (1, 2, 3, 5),
        "cross.scores": (1, 2, 2, 3),
        "cross.weights": (1, 2, 2, 3),
        "cross.mixed": (1, 2, 2, 5),
        "cross.concat": (1, 2, 10),
        "cross.out": (1, 2, 4),
    }
    assert kept["cross.out"] is y
    np.testing.assert_allclose(kept["cross.weights"].sum(-1).detach(), 1.0)


def test_unless_said_nothing_is_masked_and_pytorchs_own_does_the_work(draw_tensor, differ, monkeypatch):
    from byhand.torch.attention import mix, project

    fused, calls = nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", lambda *args, **how: calls.append(how) or fused(*args, **how))
    x, memory, *w = (draw_tensor(*shape) for shape in ((2, 4, 5), (2, 4, 5), (5, 6), (5, 3), (5, 4), (8, 5)))
    q, k, v = project(x, memory, *w[:3], 2, 1)
    steps = (q @ k.transpose(2, 3) / 3**0.5).softmax(-1) @ v
    out = steps.transpose(1, 2).flatten(2) @ w[3]
    for call, wanted in (
        (lambda **how: attention(q, k, v, **how), steps),
        (lambda **how: mix(q, k, v, w[3], **how), out),
        (lambda **how: multi_head_attention(x, memory, *w, 2, n_kv_heads=1, **how), out),
    ):
        assert differ(call(), wanted) < 1e-12 and len(calls) == 1 and calls.pop()["attn_mask"] is None
        assert differ(call(plain=True), wanted) < 1e-12 and differ(call(record=Record({})), wanted) < 1e-12 and not calls
        assert differ(call(causal=True), call(causal=True, plain=True)) < 1e-12 < differ(call(causal=True), wanted) and len(calls) == 2
        calls.clear()


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 2, 3, 4, 5), (2, 0, 3, 4), (0, 2, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)], ids=str)
def test_what_are_no_queries_keys_and_values(shape):
    x, good = torch.zeros(shape), torch.zeros(2, 2, 3, 4)
    for name, arrays in (("q", (x, x, x)), ("k", (good, x, x)), ("v", (good, good, x))):
        with pytest.raises(ValueError, match=rf"^{name} had shape .*; it must be \(batch, heads, time, width\), none of them 0"):
            attention(*arrays)


@pytest.mark.parametrize(("k", "v", "name"), [
    ((3, 1, 5, 4), (3, 1, 5, 2), "k"), ((2, 1, 5, 3), (2, 1, 5, 2), "k"), ((2, 3, 5, 4), (2, 3, 5, 2), "k"), ((2, 4, 5, 4), (2, 4, 5, 2), "k"),
    ((2, 1, 5, 4), (3, 1, 5, 2), "v"), ((2, 1, 5, 4), (2, 2, 5, 2), "v"), ((2, 1, 5, 4), (2, 1, 4, 2), "v"),
])  # fmt: skip
def test_what_does_not_fit_beside_two_query_heads(k, v, name):
    with pytest.raises(ValueError, match=f"^{name} had shape"):
        attention(torch.zeros(2, 2, 3, 4), torch.zeros(k), torch.zeros(v))


def test_gpu(draw_tensor, differ, gpu):
    dtype = torch.float64 if gpu.type == "cuda" else torch.float32
    for t_q, t_k in LENGTHS:
        q, k, v = draw_tensor(2, 3, t_q, 4), draw_tensor(2, 3, t_k, 4), draw_tensor(2, 3, t_k, 8)
        mask = random_mask(t_q, t_k)
        expected = attention(q, k, v, mask, True, plain=True)
        for plain in (False, True):
            y = attention(*(x.detach().to(gpu, dtype) for x in (q, k, v)), mask.to(gpu), True, plain)
            assert differ(y, expected) < 1e-5
