import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand.numpy.feed_forward import feed_forward, feed_forward_backward, relu, relu_backward

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)
KINK = 1e-3  # no unit nearer to ReLU's 0 than this, where a nudge could push it over


def _away_from_the_kink(x):
    return np.where(np.abs(x) < KINK, x + 2 * KINK, x)


@given(shape=st.lists(sizes, min_size=1, max_size=4), seed=seeds)
def test_relu_against_pytorch_and_central_differences(prove, shape, seed):
    x = _away_from_the_kink(np.random.default_rng(seed).normal(size=shape))
    prove(relu, lambda dy, cache: {"x": relu_backward(dy, cache)[0]}, lambda x: x.relu(), {"x": x}, seed)


@given(leading=st.lists(sizes, max_size=2), d_model=sizes, d_ff=sizes, biased=st.booleans(), seed=seeds)
def test_the_network_against_pytorch_and_central_differences(prove, leading, d_model, d_ff, biased, seed):
    rng = np.random.default_rng(seed)
    inputs = {
        "x": rng.normal(size=(*leading, d_model)), "w_1": rng.normal(size=(d_model, d_ff)), "b_1": rng.normal(size=d_ff),
        "w_2": rng.normal(size=(d_ff, d_model)), "b_2": rng.normal(size=d_model),
    }  # fmt: skip
    if not biased:
        del inputs["b_1"], inputs["b_2"]
    while np.abs(inputs["x"] @ inputs["w_1"] + inputs.get("b_1", 0)).min() < KINK:
        inputs["x"] = rng.normal(size=inputs["x"].shape)

    def forward(x, w_1, w_2, b_1=None, b_2=None):
        return feed_forward(x, w_1, b_1, w_2, b_2)

    def backward(dy, cache):
        dx, grads, _ = feed_forward_backward(dy, cache)
        return {"x": dx} | grads

    prove(forward, backward, lambda x, w_1, w_2, b_1=0, b_2=0: (x @ w_1 + b_1).relu() @ w_2 + b_2, inputs, seed)


def test_at_0_relu_passes_no_gradient_as_in_pytorch():
    import torch

    x = np.array([-1.0, 0.0, -0.0, 2.0])
    _, cache = relu(x)
    dx, _ = relu_backward(np.ones(4), cache)
    leaf = torch.tensor(x, requires_grad=True)
    leaf.relu().sum().backward()
    assert dx.tolist() == leaf.grad.tolist() == [0, 0, 0, 1]


def test_a_unit_off_on_every_row_gets_no_gradient_at_all():
    rng = np.random.default_rng(1)
    x, w_1, w_2 = rng.random((4, 3)), rng.random((3, 5)), rng.random((5, 3))
    b_1 = np.array([0, 0, -100.0, 0, 0])
    y, cache = feed_forward(x, w_1, b_1, w_2, np.zeros(3))
    _, grads, _ = feed_forward_backward(np.ones_like(y), cache)
    assert not grads["w_1"][:, 2].any() and grads["b_1"][2] == 0 and not grads["w_2"][2].any()
    assert grads["w_1"][:, [0, 1, 3, 4]].all()


def test_one_bias_of_two():
    with pytest.raises(ValueError, match="b_1 was given and b_2 missing; both biases must be given, or neither"):
        feed_forward(np.zeros((2, 4)), np.zeros((4, 5)), np.zeros(5), np.zeros((5, 4)), None)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"x had shape \(2, 3\)"):
        feed_forward(np.zeros((2, 3)), np.zeros((4, 5)), np.zeros(5), np.zeros((5, 4)), np.zeros(4))
