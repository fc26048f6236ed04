import numpy as np
import pytest
import sympy as sp

import byhand.numpy as bn
import byhand.sympy as bs
from byhand.record import Record

PADDED = [[True, True, False], [True, True, False]]


def weekly(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


CASES = {
    "2222": ((2, 2, 2, 2), {}),
    "1321": ((1, 3, 2, 1), {}),
    "3212": ((3, 2, 1, 2), {}),
    "causal": ((2, 2, 2, 1), {"causal": True}),
    "causal, more keys": ((2, 3, 2, 1), {"causal": True}),
    "padded": ((2, 3, 1, 2), {"mask": PADDED}),
}


@pytest.mark.parametrize(("sizes", "choices"), CASES.values(), ids=CASES)
def test_attention(sizes, choices, rng, assert_proved, assert_agrees):
    t_q, t_k, d_k, d_v = sizes
    derived = bs.attention.attention_derivation(*sizes, **choices)
    assert_proved(derived)
    q, k, v, dy = (rng.normal(size=shape) for shape in ((t_q, d_k), (t_k, d_k), (t_k, d_v), (t_q, d_v)))
    mask = np.array(choices["mask"]) if "mask" in choices else None
    forth, back = Record(), Record()
    _, cache = bn.attention.attention(q[None, None], k[None, None], v[None, None], mask, choices.get("causal", False), forth)
    found = bn.attention.attention_backward(dy[None, None], cache, back)
    for name, expected in zip("qkv", found, strict=True):
        assert_agrees(derived[f"d{name}"].numeric(q=q, k=k, v=v, dy=dy), expected[0, 0])
    assert_agrees(derived["dA"].numeric(v=v, dy=dy), back["weights"][0, 0])
    assert_agrees(derived["dS"].numeric(S=forth["scores"][0, 0], v=v, dy=dy), back["scores"][0, 0])


def test_a_masked_key_gets_nothing():
    derived = bs.attention.attention_derivation(2, 3, 1, 1, mask=PADDED)
    assert derived["dk"].derivative[2, :].is_zero_matrix and derived["dv"].derivative[2, :].is_zero_matrix
    assert derived["dS"].derivative[:, 2].is_zero_matrix


def test_a_query_that_may_attend_to_nothing():
    y = bs.attention.attention(sp.ones(2, 1), sp.ones(1, 1), sp.ones(1, 1), causal=True)
    assert list(y) == [0, 1]


@pytest.mark.parametrize(("sizes", "causal"), [((2, 2, 1, 1), False), ((3, 1, 1, 1), True), weekly((2, 1, 2, 2), False)])
def test_x_through_all_three_paths(sizes, causal, rng, assert_proved, assert_agrees):
    time, d_model, d_k, d_v = sizes
    derived = bs.attention.self_attention_derivation(*sizes, causal=causal)
    assert_proved(derived)
    x, w_q, w_k, w_v = (rng.normal(size=shape) for shape in ((time, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v)))
    w_o, dout = rng.normal(size=(d_v, d_model)), rng.normal(size=(time, d_model))
    dy = dout @ w_o.T  # the derivation ends before the output projection
    _, cache = bn.attention.multi_head_attention(x[None], x[None], w_q, w_k, w_v, w_o, n_heads=1, causal=causal)
    (dx, dkey, dvalue), grads = bn.attention.multi_head_attention_backward(dout[None], cache)
    dmemory = dkey + dvalue
    given = {"x": x, "w_q": w_q, "w_k": w_k, "w_v": w_v, "dy": dy}
    assert_agrees(derived["dx"].numeric(**given), (dx + dmemory)[0])
    for name in ("w_q", "w_k", "w_v"):
        assert_agrees(derived[f"d{name}"].numeric(**given), grads[name])


@pytest.mark.parametrize("sizes", [weekly((2, 2, 2, 1, 1)), (1, 3, 2, 1, 2)])
def test_cross_attention_uses_its_memory_twice(sizes, rng, assert_proved, assert_agrees):
    t_q, t_k, d_model, d_k, d_v = sizes
    derived = bs.attention.cross_attention_derivation(*sizes)
    assert_proved(derived)
    x, memory, dout = rng.normal(size=(t_q, d_model)), rng.normal(size=(t_k, d_model)), rng.normal(size=(t_q, d_model))
    w_q, w_k, w_v, w_o = (rng.normal(size=shape) for shape in ((d_model, d_k), (d_model, d_k), (d_model, d_v), (d_v, d_model)))
    dy = dout @ w_o.T
    _, cache = bn.attention.multi_head_attention(x[None], memory[None], w_q, w_k, w_v, w_o, n_heads=1)
    (dx, dkey, dvalue), _ = bn.attention.multi_head_attention_backward(dout[None], cache)
    dmemory = dkey + dvalue
    given = {"x": x, "memory": memory, "w_q": w_q, "w_k": w_k, "w_v": w_v, "dy": dy}
    assert_agrees(derived["dx"].numeric(**given), dx[0])
    assert_agrees(derived["dmemory"].numeric(**given), dmemory[0])
