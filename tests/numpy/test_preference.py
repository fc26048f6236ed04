import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from byhand import toy
from byhand.check import agreement, gradient_check
from byhand.numpy import decoder, preference
from byhand.numpy.preference import bradley_terry, dpo, expected_reward, log_likelihood, log_likelihood_backward, pairs, tilted
from byhand.numpy.softmax import softmax

seeds = st.integers(0, 2**32 - 1)


def autograd_of(function, *arrays):
    import torch

    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    value = function(*leaves)
    value.backward()
    return value.item(), [leaf.grad.numpy() for leaf in leaves]


@given(batch=st.integers(1, 3), time=st.integers(1, 4), seed=seeds)
def test_log_likelihood(prove, batch, time, seed):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 5, (batch, time))
    mask = rng.random((batch, time)) < 0.6
    mask[:, -1] = True

    def by_pytorch(logits):
        import torch

        log_p = torch.log_softmax(logits, -1).gather(-1, torch.tensor(targets)[..., None])[..., 0]
        return (log_p * torch.tensor(mask)).sum(1)

    prove(
        lambda logits: log_likelihood(logits, targets, mask),
        lambda dy, cache: {"logits": log_likelihood_backward(dy, cache)[0]},
        by_pytorch,
        {"logits": rng.normal(size=(batch, time, 5))},
        seed,
    )


@given(n=st.integers(1, 4), beta=st.sampled_from((0.1, 1.0, 3.0)), seed=seeds)
def test_dpo_and_bradley_terry_against_pytorch_and_differences(n, beta, seed):
    import torch

    chosen, rejected, *reference = np.random.default_rng(seed).normal(-3, 2, (4, n))
    value, slopes = dpo(chosen, rejected, *reference, beta)
    fixed = [torch.tensor(array) for array in reference]

    def theirs(c, r):
        return -torch.nn.functional.logsigmoid(beta * ((c - fixed[0]) - (r - fixed[1]))).mean()

    right, grads = autograd_of(theirs, chosen, rejected)
    assert abs(value - right) < 1e-12 and agreement(np.array(slopes), np.array(grads)) < 1e-12
    gradient_check(lambda v: dpo(v["c"], v["r"], *reference, beta)[0], {"c": chosen, "r": rejected}, dict(zip("cr", slopes))).require()

    value, slopes = bradley_terry(chosen, rejected)
    right, grads = autograd_of(lambda c, r: -torch.nn.functional.logsigmoid(c - r).mean(), chosen, rejected)
    assert abs(value - right) < 1e-12 and agreement(np.array(slopes), np.array(grads)) < 1e-12


def test_only_the_advantage_over_the_reference_counts():
    chosen, rejected = np.array([-2.0, -5.0]), np.array([-3.0, -1.0])
    at_reference, _ = dpo(chosen, rejected, chosen, rejected, 0.3)
    assert abs(at_reference - np.log(2)) < 1e-15
    moved = dpo(chosen + 1, rejected, chosen, rejected, 0.3)[0]
    assert moved < at_reference
    assert abs(dpo(chosen + 3, rejected + 2, chosen, rejected, 0.3)[0] - moved) < 1e-15  # both 2 higher


def test_margins_that_would_overflow():
    far = np.array([5000.0])
    for sign, expected in ((1, 0.0), (-1, 10_000.0)):
        value, (slope, _) = bradley_terry(sign * far, -sign * far)
        assert value == expected and np.isfinite(slope).all()


def test_through_the_whole_decoder():
    """The gradient of every weight, by hand and by autograd, for answers of different lengths."""
    import torch

    import byhand.torch as bt

    case = toy.decoder()
    sides = pairs([[1, 2], [3]], [[4, 5, 6], [7]], [[8], [2, 2, 3]])
    reference = [np.array([-6.0, -2.5]), np.array([-2.0, -6.5])]
    grads = {name: np.zeros_like(value) for name, value in case.params.items()}
    outs = [decoder.forward(case.params, case.config, side.inputs, lengths=side.lengths) for side in sides]
    likelihoods, caches = zip(*(log_likelihood(out.logits, side.targets, side.mask) for out, side in zip(outs, sides)))
    value, slopes = dpo(*likelihoods, *reference, beta=0.5)
    for out, cache, slope in zip(outs, caches, slopes):
        for name, grad in decoder.backward(log_likelihood_backward(slope, cache)[0], out.cache).items():
            grads[name] += grad

    module = bt.decoder.Decoder(case.config).double().load_params(case.params)
    theirs = []
    for side in sides:
        log_p = torch.log_softmax(module(side.inputs, lengths=torch.tensor(side.lengths)), -1)
        theirs.append((log_p.gather(-1, torch.tensor(side.targets)[..., None])[..., 0] * torch.tensor(side.mask)).sum(1))
    margin = 0.5 * ((theirs[0] - torch.tensor(reference[0])) - (theirs[1] - torch.tensor(reference[1])))
    loss = -torch.nn.functional.logsigmoid(margin).mean()
    loss.backward()
    assert abs(loss.item() - value) < 1e-12
    assert agreement(grads, module.grads()) < 1e-10


@given(n=st.integers(2, 5), beta=st.sampled_from((0.2, 1.0)), seed=seeds)
def test_the_penalised_reward_and_its_best_policy(n, beta, seed):
    rng = np.random.default_rng(seed)
    logits, reward = rng.normal(size=(2, n))
    reference, _ = softmax(rng.normal(size=n))
    value, slope = expected_reward(logits, reference, reward, beta)
    p, _ = softmax(logits)
    assert abs(value - (p @ reward - beta * p @ np.log(p / reference))) < 1e-12
    gradient_check(lambda z: expected_reward(z, reference, reward, beta)[0], logits, slope).require()

    best = tilted(reference, reward, beta)
    top, slope = expected_reward(np.log(best), reference, reward, beta)
    assert top >= value and np.abs(slope).max() < 1e-12
    # and the reward can be read off it, up to a constant
    read = beta * np.log(best / reference)
    assert agreement(read - read[0], reward - reward[0]) < 1e-9


def test_pairs_are_padded_and_shifted():
    chosen, rejected = pairs([[1, 2], [3]], [[4, 5], [6]], [[7], [8, 9, 10]])
    assert chosen.inputs.tolist() == [[1, 2, 4], [3, 0, 0]] and chosen.targets.tolist() == [[2, 4, 5], [6, 0, 0]]
    assert chosen.mask.tolist() == [[False, True, True], [True, False, False]] and chosen.lengths.tolist() == [3, 1]
    assert rejected.mask.tolist() == [[False, True, False], [True, True, True]]


@pytest.mark.parametrize(("data", "words"), [
    (([[1]], [[2]], [[]]), r"rejected\[0\] was empty; a pair needs a prompt and two answers"),
    (([[1], [1]], [[2], []], [[3], [4]]), r"chosen\[1\] was empty"),
    (([[]], [[2]], [[3]]), r"prompts\[0\] was empty"),
    (([[1]], [[2], [3]], [[3]]), "there were 1 prompts, 2 chosen and 1 rejected"),
    (([], [], []), "at least one"),
])  # fmt: skip
def test_pairs_that_cannot_be_meant(data, words):
    with pytest.raises(ValueError, match=words):
        pairs(*data)


def test_an_empty_answer_has_no_likelihood():
    mask = np.array([[True, False], [False, False]])
    with pytest.raises(ValueError, match="mask had no True in row 1; every answer must have at least one token"):
        log_likelihood(np.zeros((2, 2, 3)), np.zeros((2, 2), int), mask)
    with pytest.raises(ValueError, match="targets had shape"):
        log_likelihood(np.zeros((2, 2, 3)), np.zeros((2, 3), int), mask)
    with pytest.raises(IndexError, match=r"targets held 0 to 3; they must lie in \[0, 3\)"):
        log_likelihood(np.zeros((1, 2, 3)), np.array([[0, 3]]), np.array([[True, True]]))


@pytest.mark.parametrize(("call", "words"), [
    (lambda one: dpo(one, one, one, np.ones(2), 0.1), "all must be"),
    (lambda one: dpo(one[:0], one[:0], one[:0], one[:0], 0.1), "at least one pair"),
    (lambda one: dpo(one * -np.inf, one, one, one, 0.1), "chosen held -inf at \\(0,\\); every entry must be a finite number"),
    (lambda one: dpo(one, one, one, one * np.nan, 0.1), "reference_rejected held nan"),
    (lambda one: dpo(one, one, one, one, 0.0), "beta was 0.0"),
    (lambda one: bradley_terry(one, np.ones(3)), "all must be"),
    (lambda one: expected_reward(one, one, one, -1.0), "beta was -1.0"),
    (lambda one: expected_reward(np.ones(2), np.array([1.0, 0.0]), np.ones(2), 1.0), r"reference held 0.0 and summed to 1.0"),
    (lambda one: tilted(np.ones(2), np.ones(2), 1.0), "summed to 2.0"),
    (lambda one: tilted(np.ones(2) / 2, np.ones(3), 1.0), r"had shapes \(2,\), \(2,\), \(3,\)"),
])  # fmt: skip
def test_what_cannot_be_meant(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.ones(1))
    assert preference.dpo is dpo


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_answer_of_probability_0_adds_nothing(dtype):
    half, reward = np.array([0.5, 0.5], dtype), np.array([1.0, 0.0], dtype)
    for gap in (104.0, 750.0, 1e6, np.inf):
        value, slope = expected_reward(np.array([0, -gap], dtype), half, reward, 0.1)
        assert value == pytest.approx(1 - 0.1 * np.log(2), rel=1e-7) and np.abs(slope).max() < 1e-40
    near, _ = expected_reward(np.array([0, -30.0], dtype), half, reward, 0.1)
    assert near == pytest.approx(1 - 0.1 * np.log(2), rel=1e-6)


@pytest.mark.parametrize(("name", "value"), [("reward", np.nan), ("reward", np.inf), ("reference", np.nan)])
def test_what_is_not_finite_is_named(name, value):
    given = {"logits": np.zeros(2), "reference": np.array([0.5, 0.5]), "reward": np.zeros(2)}
    given[name] = np.array([value, 0.5])
    with pytest.raises(ValueError, match=f"{name} held"):
        expected_reward(**given, beta=0.1)


def test_the_likelihood_of_the_only_token():
    logits, targets, mask = np.array([[[3.0], [4.0]]]), np.array([[0, 7]]), np.array([[True, False]])
    value, cache = log_likelihood(logits, targets, mask)
    assert value.tolist() == [0] and log_likelihood_backward(np.ones(1), cache)[0].tolist() == [[[0], [0]]]
