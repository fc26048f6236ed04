import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy import lora as room
from byhand.numpy.lora import counts, init, lora, lora_backward, merge, unmerge
from byhand.record import Record

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 6)


def _case(seed, leading=(2, 3), d_in=6, d_out=5, rank=2):
    rng = np.random.default_rng(seed)
    shapes = {"x": (*leading, d_in), "w": (d_in, d_out), "a": (d_in, rank), "b": (rank, d_out)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@given(leading=st.lists(st.integers(1, 3), min_size=1, max_size=2), d_in=sizes, d_out=sizes, alpha=st.sampled_from((1.0, 16.0, -0.5)), seed=seeds)
def test_against_pytorch_and_central_differences(prove, leading, d_in, d_out, alpha, seed):
    rank = int(np.random.default_rng(seed).integers(1, min(d_in, d_out)))
    case = _case(seed, leading, d_in, d_out, rank)
    w = case.pop("w")

    def by_pytorch(x, a, b):
        import torch

        column = torch.tensor(w).T + alpha / rank * (b.T @ a.T)  # document 2's W₀ + (α/r) B A, for columns
        return (column @ x.unsqueeze(-1)).squeeze(-1)

    def backward(dy, cache):
        dx, grads = lora_backward(dy, cache)
        return {"x": dx, **grads}

    prove(lambda x, a, b: lora(x, w.astype(x.dtype), a, b, alpha), backward, by_pytorch, case, seed)


def test_at_the_start_nothing_changes_and_only_b_moves():
    x, w, _, _ = _case(0).values()
    params = init(6, 5, 2, seed=1)
    y, cache = lora(x, w, **params, alpha=8.0)
    assert (y == x @ w).all() and not params["b"].any() and params["a"].any()
    dx, grads = lora_backward(np.random.default_rng(2).normal(size=y.shape), cache)
    assert not grads["a"].any() and abs(grads["b"]).min() > 0
    assert all((init(6, 5, 2, seed=1)[name] == value).all() for name, value in params.items())


def test_the_two_ways_back_to_x_add_up():
    record = Record()
    dx, _ = lora_backward(np.ones((2, 3, 5)), lora(*_case(3).values(), alpha=4.0)[1], record)
    assert agreement(record["x.via_frozen"] + record["x.via_update"], dx) < 1e-15
    assert abs(record["x.via_update"]).max() > 0.1


@given(seed=seeds, alpha=st.sampled_from((1.0, 16.0)))
def test_merged_it_is_one_matrix_and_unmerged_the_old_one(seed, alpha):
    x, w, a, b = _case(seed).values()
    merged = merge(w, a, b, alpha)
    assert agreement(x @ merged, lora(x, w, a, b, alpha)[0]) < 1e-13
    assert agreement(unmerge(merged, a, b, alpha), w) < 1e-13
    # exact where the sum is: numbers of few binary digits
    w, a, b = (np.round(4 * value) / 4 for value in (w, a, b))
    assert (unmerge(merge(w, a, b, alpha), a, b, alpha) == w).all()


def test_the_update_has_the_rank():
    case = _case(4)
    assert np.linalg.matrix_rank(merge(case["w"], case["a"], case["b"], 3.0) - case["w"]) == 2


def test_counts_and_the_rank_at_which_both_are_equal():
    case = counts(4096, 4096, 8)
    assert case == (16_777_216, 65_536, 2048.0)
    assert counts(6, 3, 2).lora == counts(6, 3, 2).full and counts(6, 3, 2).break_even == 2.0  # above it, LoRA is the larger
    params = init(7, 5, 3)
    assert sum(value.size for value in params.values()) == counts(7, 5, 3).lora == 3 * (7 + 5)


@pytest.mark.parametrize("rank", [0, -1, 5, 6, 100, 2.0, True])
def test_a_rank_that_saves_nothing(rank):
    for call in (lambda: init(6, 5, rank), lambda: counts(6, 5, rank)):
        with pytest.raises(ValueError, match=r"rank was .*; it must be a whole number( of at least 1 and below min\(d_in, d_out\), 5(: .*)?)?$"):
            call()


@pytest.mark.parametrize("rank", [5, 7])
def test_matrices_of_full_rank(rank):
    case = _case(5, rank=rank)
    for call in (lambda: lora(*case.values(), 1.0), lambda: merge(case["w"], case["a"], case["b"], 1.0), lambda: unmerge(case["w"], case["a"], case["b"], 1.0)):
        with pytest.raises(ValueError, match=f"rank was {rank}"):
            call()


@pytest.mark.parametrize(("change", "words"), [
    ({"a": (5, 2)}, r"a had shape \(5, 2\); it must be \(6, rank\)"),
    ({"b": (3, 5)}, r"b had shape \(3, 5\); it must be \(2, 5\)"),
    ({"x": (2, 5)}, r"x had shape \(2, 5\)"),
])  # fmt: skip
def test_shapes_that_do_not_fit(change, words):
    case = _case(6) | {name: np.ones(shape) for name, shape in change.items()}
    with pytest.raises(ValueError, match=words):
        lora(*case.values(), 1.0)


def test_an_alpha_that_is_not_finite():
    with pytest.raises(ValueError, match="alpha was nan"):
        lora(*_case(7).values(), float("nan"))
    assert room.lora is lora
