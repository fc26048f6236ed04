import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.check import agreement
from byhand.numpy.optimizer import AdamState, adam, noam

seeds = st.integers(0, 2**32 - 1)


@given(
    lr=st.sampled_from((1e-4, 0.1)), betas=st.sampled_from(((0.9, 0.98), (0.9, 0.999), (0.0, 0.5))), eps=st.sampled_from((1e-9, 1e-8, 0.1)),
    size=st.sampled_from((1e-6, 1.0, 1e3)), seed=seeds,
)  # fmt: skip
def test_twelve_steps_against_pytorch(lr, betas, eps, size, seed):
    import torch

    rng = np.random.default_rng(seed)
    params = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    optimizer = torch.optim.Adam(leaves.values(), lr=lr, betas=betas, eps=eps)
    state = None
    for _ in range(12):
        grads = {name: size * rng.normal(size=value.shape) for name, value in params.items()}
        params, state = adam(params, grads, state, lr, betas, eps)
        for name, leaf in leaves.items():
            leaf.grad = torch.tensor(grads[name])
        optimizer.step()
        assert agreement(params, leaves) < 1e-10
    assert state.t == 12 and state.m.keys() == state.v.keys() == params.keys()


def test_the_first_step_is_a_sign_and_the_second_is_not():
    """θ₁ = θ₀ − lr·g/(|g| + ε): whatever the gradient's size. At t = 2 sizes enter."""
    for size in (1e-3, 1.0, 1e3):
        theta, state = adam({"w": np.array([1.0])}, {"w": np.array([size])}, lr=0.1)
        assert theta["w"][0] == pytest.approx(1 - 0.1 * size / (size + 1e-9), abs=1e-14)
        after, _ = adam(theta, {"w": np.array([3 * size])}, state, lr=0.1)
        m_hat = (0.9 * 0.1 * size + 0.1 * 3 * size) / (1 - 0.9**2)
        v_hat = (0.98 * 0.02 * size**2 + 0.02 * 9 * size**2) / (1 - 0.98**2)
        assert after["w"][0] == pytest.approx(theta["w"][0] - 0.1 * m_hat / (v_hat**0.5 + 1e-9), abs=1e-14)


def test_document_1s_step():
    params, state = adam({"w": np.array([1.0])}, {"w": np.array([0.509446645388523])}, lr=noam(1, 512))
    assert state.m["w"][0] == pytest.approx(0.0509446645388523) and state.v["w"][0] == pytest.approx(0.00519071768995239)
    assert params["w"][0] == pytest.approx(0.9999998253071896, abs=1e-15)


def test_a_gradient_of_0_moves_nothing():
    params, _ = adam({"w": np.array([1.0, 2.0])}, {"w": np.zeros(2)}, lr=1.0)
    assert params["w"].tolist() == [1, 2]


def test_arrays_that_are_joined_and_arrays_that_go_in_pieces_take_the_same_step():
    """Every entry goes its own way: an array longer than two pieces, beside small ones, moves as any part of it does alone."""
    rng = np.random.default_rng(2)
    sizes = {"small": 7, "long": 2 * 2**16 + 5, "next": 40_000, "last": 40_000}
    params, grads = ({name: rng.normal(size=size) for name, size in sizes.items()} for _ in range(2))
    _, state = adam(params, grads)
    together, after = adam(params, grads, state)
    for name, size in sizes.items():
        for part in (slice(0, 4), slice(2**16 - 2, 2**16 + 2), slice(2**17 - 2, 2**17 + 2), slice(size - 4, size)):
            alone_state = AdamState(1, {"x": state.m[name][part]}, {"x": state.v[name][part]})
            alone, alone_after = adam({"x": params[name][part]}, {"x": grads[name][part]}, alone_state)
            for whole, piece in ((together, alone), (after.m, alone_after.m), (after.v, alone_after.v)):
                np.testing.assert_allclose(whole[name][part], piece["x"], rtol=1e-14)


def test_inputs_and_state_stay_as_they_are_and_the_same_call_gives_the_same_answer(unchanged):
    rng = np.random.default_rng(1)
    params, grads = {"w": rng.normal(size=(4, 3))}, {"w": rng.normal(size=(4, 3))}
    params, state = adam(params, grads)
    with unchanged(params, grads, state.m, state.v):
        one, state_one = adam(params, grads, state)
    two, state_two = adam(params, grads, state)
    assert one["w"].tobytes() == two["w"].tobytes() and state.t == 1 and state_one.t == state_two.t == 2


def test_float32_stays_float32():
    params, state = adam({"w": np.ones(3, np.float32)}, {"w": np.full(3, 0.5, np.float32)})
    params, state = adam(params, {"w": np.full(3, 0.5, np.float32)}, state)
    assert {x.dtype for x in (params["w"], state.m["w"], state.v["w"])} == {np.dtype(np.float32)}


def test_the_schedule_rises_as_a_line_meets_its_peak_at_the_warm_up_and_falls_as_a_root():
    assert noam(1, 512) == pytest.approx(1.7469281074217108e-07) and noam(4000, 512) == pytest.approx(0.0006987712429686843)
    assert noam(2000, 512) == pytest.approx(noam(4000, 512) / 2) and noam(16000, 512) == pytest.approx(noam(4000, 512) / 2)
    assert max(range(1, 200), key=lambda step: noam(step, 8, warmup=50)) == 50
    assert noam(7, 128) == pytest.approx(2 * noam(7, 512))


@pytest.mark.parametrize(("arguments", "words"), [((0, 512), "step was 0"), ((1, 0), "d_model was 0"), ((1, 512, 0), "warmup was 0")])
def test_a_schedule_that_cannot_be(arguments, words):
    with pytest.raises(ValueError, match=words + "; it must be a whole number of at least 1"):
        noam(*arguments)


@pytest.mark.parametrize(
    ("grads", "options", "words"),
    [
        ({}, {}, "grads must have params' names; only one of them has w"),
        ({"w": np.zeros(2), "x": np.zeros(2)}, {}, "only one of them has x"),
        ({"w": np.zeros(3)}, {}, r"the gradient of 'w' had shape \(3,\); it must be the parameter's, \(2,\)"),
        ({"w": np.array([0, np.nan])}, {}, "the gradient of 'w' holds a value that is not finite"),
        ({"w": np.array([0, np.inf])}, {}, "the gradient of 'w' holds a value that is not finite"),
        ({"w": np.zeros(2)}, {"lr": -1.0}, "lr was -1.0"),
        ({"w": np.zeros(2)}, {"lr": np.nan}, "lr was nan"),
        ({"w": np.zeros(2)}, {"betas": (0.9, 1.0)}, "betas was"),
        ({"w": np.zeros(2)}, {"betas": (-0.1, 0.9)}, "betas was"),
        ({"w": np.zeros(2)}, {"eps": -1e-9}, "eps was -1e-09"),
    ],
)
def test_what_cannot_be_meant(grads, options, words):
    with pytest.raises(ValueError, match=words):
        adam({"w": np.zeros(2)}, grads, **options)


@pytest.mark.parametrize(("change", "words"), [
    ({"params": {"w": np.array([np.nan, 1])}}, "parameter 'w' holds a value that is not finite"),
    ({"grads": {"w": np.array([1e200, 1])}}, "the gradient of 'w' held an entry whose square overflows float64"),
    ({"grads": {"w": np.array([0.0, 1])}, "eps": 0.0}, "eps was 0 and an entry of the gradient of 'w' was always 0"),
    ({"betas": (0.9, 0.9, 0.9)}, "betas was"),
    ({"lr": None}, "lr was None"),
    ({"state": {}}, "state was dict; it must be None or an AdamState"),
    ({"state": adam({"b": np.ones(1)}, {"b": np.ones(1)})[1]}, "state.m must have params' names; only one of them has b, w"),
    ({"state": adam({"w": np.ones(1)}, {"w": np.ones(1)})[1]}, r"state.m of 'w' had shape \(1,\)"),
])  # fmt: skip
def test_what_would_travel_into_the_parameters(change, words):
    with pytest.raises(ValueError, match=words):
        adam(**({"params": {"w": np.ones(2)}, "grads": {"w": np.ones(2)}} | change))


@pytest.mark.parametrize("size", [{"step": float("nan")}, {"d_model": float("nan")}])
def test_a_schedule_of_nan(size):
    with pytest.raises(ValueError, match="was nan; it must be a whole number"):
        noam(**({"step": 1, "d_model": 8} | size))


def test_half_precision_and_mixtures_are_refused_by_name():
    half, single, double = (np.ones(3, dtype) for dtype in (np.float16, np.float32, np.float64))
    with pytest.raises(ValueError, match="parameter 'w' had dtype float16; it must be float32 or float64"):
        adam({"w": half}, {"w": half})
    with pytest.raises(ValueError, match="the gradient of 'w' had dtype float32 and parameter 'w' float64; all arrays of one call must share one"):
        adam({"w": double}, {"w": single})
    with pytest.raises(ValueError, match="parameter 'v' had dtype float64 and parameter 'w' float32"):
        adam({"w": single, "v": double}, {"w": single, "v": double})
    _, state = adam({"w": double}, {"w": double})
    with pytest.raises(ValueError, match="state.m of 'w' had dtype float64 and parameter 'w' float32"):
        adam({"w": single}, {"w": single}, state)
    tiny = np.array([0, 1e-4, 0.5], np.float32)
    assert np.isfinite(adam({"w": single}, {"w": tiny})[0]["w"]).all()


def test_a_gradient_that_was_0_at_every_step_needs_eps():
    params, grads = {"w": np.ones(2)}, {"w": np.array([0.0, 1.0])}
    _, state = adam(params, grads)
    with pytest.raises(ValueError, match="eps was 0 and an entry of the gradient of 'w' was always 0"), np.errstate(all="ignore"):
        adam(params, grads, state, eps=0.0)
    _, state = adam(params, {"w": np.ones(2)})
    assert np.isfinite(adam(params, grads, state, eps=0.0)[0]["w"]).all()


def test_an_overflow_is_not_put_down_to_a_gradient_of_0():
    with pytest.raises(ValueError, match="the step led to a value that is not finite; lr, betas"):
        adam({"w": np.array([-1.7e308]), "b": np.array([1.0])}, {"w": np.array([1.0]), "b": np.array([0.0])}, lr=1e308)
