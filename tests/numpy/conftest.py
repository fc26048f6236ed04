"""What every room of the NumPy floor is held to, and random models."""

import dataclasses
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from mixtures import BIASES

from byhand import Config
from byhand.check import agreement, gradient_check
from byhand.numpy import decoder, transformer
from byhand.parameters import decoder_shapes, encoder_decoder_shapes

PYTORCH, DIFFERENCES = 1e-10, 1e-6  # the bounds that the NumPy floor is held to, in float64
RANDOM_CASES = range(24)


def arrays_in(thing):
    """Every array in nested tuples, lists and dicts: a cache's, for instance."""
    if isinstance(thing, np.ndarray):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [array for part in thing for array in arrays_in(part)] if isinstance(thing, (tuple, list)) else []


@contextmanager
def nothing_changes(*things):
    """Fails where an array among the things has other bytes afterwards."""
    arrays = arrays_in(list(things))
    before = [array.tobytes() for array in arrays]
    yield
    assert [array.tobytes() for array in arrays] == before, "an input was changed"


def autograd(function, inputs, dy):
    """y and the gradient of Σ y·dy at each input, by PyTorch."""
    import torch

    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in inputs.items()}
    y = function(**leaves)
    y.backward(torch.tensor(dy))
    return y, {name: leaf.grad for name, leaf in leaves.items()}


def prove_operation(forward, backward, by_pytorch, inputs, seed):
    """An operation and its hand-written backward, with a random gradient from above.

    forward(**inputs) gives y, cache; backward(dy, cache) gives a dict of gradients under the inputs' names; by_pytorch(**tensors) gives y.
    Compared: values and gradients with PyTorch, gradients with central differences at 16 random entries of each array, backward with itself a second
    time, float32 with float64; and nothing that was passed in has changed.
    """
    with nothing_changes(inputs):
        y, cache = forward(**inputs)
    dy = np.random.default_rng(seed).normal(size=y.shape)
    with nothing_changes(inputs, cache, dy):
        grads = backward(dy, cache)
    assert {name: grad.shape for name, grad in grads.items()} == {name: value.shape for name, value in inputs.items()}
    again = backward(dy, cache)
    assert all(grads[name].tobytes() == again[name].tobytes() for name in grads), "the second backward gave another answer"

    right, right_grads = autograd(by_pytorch, inputs, dy)
    assert agreement(y, right) < PYTORCH
    assert agreement(grads, right_grads) < PYTORCH
    report = gradient_check(lambda values: (forward(**values)[0] * dy).sum(), inputs, grads, count=16, seed=seed, bound=DIFFERENCES)
    if any(row.by_difference for row in report.rows):
        report.require()
    else:  # a softmax of one entry, a ReLU that is shut: nothing moves, and then the gradient must be exactly 0
        assert not any(grad.any() for grad in grads.values())

    single = {name: value.astype(np.float32) for name, value in inputs.items()}
    y_single, cache = forward(**single)
    grads_single = backward(dy.astype(np.float32), cache)
    assert {array.dtype for array in (y_single, *grads_single.values())} == {np.dtype(np.float32)}
    assert agreement(y_single, y) < 1e-3
    # where a softmax is nearly sure, the gradient of a score is a difference of numbers as large as what arrives, and is rounded as they are
    largest = max(np.abs(array).max() for array in (dy, *grads.values()))
    single, double = ({name: grad / largest for name, grad in each.items()} for each in (grads_single, grads))
    assert agreement(single, double) < 1e-3


def distance_to_kink(activations) -> float:
    """How near a pre-activation of ReLU comes to 0, where it has no derivative."""
    return min(np.abs(value).min() for name, value in activations.items() if name.endswith("feed_forward.hidden"))


def random_model(seed):
    """A configuration, parameters and a batch; each seed mixes layers, lengths, padding, repetition, widths and the tied output anew."""
    rng = np.random.default_rng(seed)
    choose = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    config = Config(
        d_model=int(choose(4, 6, 10)), n_heads=int(choose(1, 2, 3)), d_k=int(choose(1, 3, 4)), d_v=int(choose(2, 5)), d_ff=int(choose(3, 7)),
        n_layers=1 + seed % 3, source_vocab=int(choose(2, 9)), target_vocab=int(choose(3, 8)),
        positions=("sinusoidal", "none", "learned")[seed // 4 % 3], tied=seed % 2 == 1, eps=(1e-5, 1e-2)[seed // 8 % 2],
        biases=BIASES[seed % 5], scaled=seed // 3 % 3 != 1, pairing=("interleaved", "half")[seed // 2 % 2], max_length=7,
    )  # fmt: skip
    if seed % 6 in (1, 4):  # tied and not
        config = dataclasses.replace(config, source_vocab=config.target_vocab, shared=True)
    batch, t_s = 1 + seed % 3, int(choose(1, 3, 5))
    t_t = t_s + 1 if seed % 5 else t_s  # mostly unequal
    source = rng.integers(0, config.source_vocab, (batch, t_s))
    decoder_input = rng.integers(0, config.target_vocab, (batch, t_t))
    decoder_input[:, -1] = decoder_input[:, 0]  # a repeated token
    padded = seed % 4 != 3
    model = SimpleNamespace(
        config=config, source=source, decoder_input=decoder_input, targets=rng.integers(0, config.target_vocab, (batch, t_t)),
        source_lengths=rng.integers(1, t_s + 1, batch) if padded else None,
        target_lengths=rng.integers(1, t_t + 1, batch) if padded else None,
        reduction=("mean", "sum", "last")[seed // 3 % 3], smoothing=(0.1, 0.0)[seed // 2 % 2],
    )  # fmt: skip
    while True:  # until no unit stands so near to ReLU's kink that a nudge would push it over
        model.params = {name: rng.normal(0, 0.7, shape) for name, shape in encoder_decoder_shapes(config).items()}
        for name in model.params:
            if name.endswith("gamma"):
                model.params[name] = model.params[name] + 1.2
        out = transformer.forward(model.params, config, source, decoder_input, model.source_lengths, model.target_lengths)
        if distance_to_kink(out.activations) > 2e-3:
            return model


HEADS = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (6, 2), (6, 3))  # query heads and key-value heads


def random_decoder(seed):
    """A decoder-only stack and a batch: the 16 mixtures of norm, kind of norm and activation in turn, the other choices anew each time."""
    rng = np.random.default_rng(seed)
    choose = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    n_heads, n_kv_heads = HEADS[seed % len(HEADS)]
    config = Config(
        d_model=int(choose(4, 6, 10)), n_heads=n_heads, n_kv_heads=n_kv_heads, d_k=int(choose(2, 4)), d_v=int(choose(3, 5)), d_ff=int(choose(3, 7)),
        n_layers=1 + seed % 3, source_vocab=1, target_vocab=int(choose(5, 8)), norm=("pre", "post")[seed % 2], norm_kind=("rms", "layer")[seed // 2 % 2],
        activation=("relu", "gelu", "gelu_tanh", "swiglu")[seed // 4 % 4], positions=("rope", "sinusoidal", "none", "learned")[(seed + seed // 4) % 4],
        tied=seed // 3 % 2 == 1, eps=(1e-5, 1e-2)[seed // 8 % 2], max_length=12 if (seed + seed // 4) % 4 == 3 else (None, 12)[seed // 5 % 2],
        biases=BIASES[seed % 5], scaled=seed % 3 != 1, pairing=("interleaved", "half")[seed // 7 % 2],
    )  # fmt: skip
    batch, time = 1 + seed % 3, int(choose(3, 6))
    tokens = rng.integers(0, config.target_vocab, (batch, time))
    tokens[:, -1] = tokens[:, 0]  # a repeated token
    lengths = rng.integers(2, time + 1, batch) if seed % 4 != 3 else None
    model = SimpleNamespace(config=config, tokens=tokens, lengths=lengths, targets=rng.integers(0, config.target_vocab, (batch, time)))
    while True:  # until no unit stands so near to ReLU's kink that a nudge would push it over
        model.params = {name: rng.normal(0, 0.5, shape) for name, shape in decoder_shapes(config).items()}
        for name in model.params:
            if name.endswith("gamma"):
                model.params[name] = model.params[name] + 1.2
        out = decoder.forward(model.params, config, tokens, lengths=lengths)
        if config.activation != "relu" or distance_to_kink(out.activations) > 2e-3:
            return model


@pytest.fixture(params=range(32), ids=lambda seed: f"random-{seed}")
def stack(request):
    return random_decoder(request.param)


@pytest.fixture(scope="session")
def make_stack():
    return random_decoder


@pytest.fixture(scope="session")
def prove():
    return prove_operation


@pytest.fixture(scope="session")
def unchanged():
    return nothing_changes


@pytest.fixture(scope="session")
def kink():
    return distance_to_kink


@pytest.fixture(params=RANDOM_CASES, ids=lambda seed: f"random-{seed}")
def model(request):
    return random_model(request.param)


@pytest.fixture
def models():
    return [random_model(seed) for seed in RANDOM_CASES]
