"""Random models and batches, and the measure of agreement, for the torch floor's tests."""

import dataclasses
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mixtures import BIASES

from byhand import Config
from byhand.parameters import draw, encoder_decoder_shapes

RANDOM_CASES = range(24)


def disagreement(a, b) -> float:
    """max|a − b| / max(max|a|, max|b|, 1e-3), after the shapes have been compared."""
    a, b = (np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in (a, b))
    assert a.shape == b.shape, f"{a.shape} against {b.shape}"
    assert np.isfinite(a).all() and np.isfinite(b).all()
    return float(abs(a - b).max(initial=0.0) / max(abs(a).max(initial=0.0), abs(b).max(initial=0.0), 1e-3))


def random_case(seed: int) -> SimpleNamespace:
    """A configuration, parameters with γ ≠ 1 and no zero bias, and a padded batch; each seed another mixture of choices."""
    pick = random.Random(seed)
    config = Config(
        d_model=pick.choice([4, 6, 8]),
        n_heads=pick.choice([1, 2, 3]),
        d_k=pick.choice([2, 3, 5]),  # d_model / n_heads only by chance
        d_v=pick.choice([1, 4, 7]),
        d_ff=pick.choice([5, 9]),
        n_layers=1 + seed % 3,
        source_vocab=pick.choice([3, 7]),
        target_vocab=pick.choice([4, 11]),
        positions=("sinusoidal", "none", "learned")[seed // 2 % 3],
        tied=seed % 2 == 1,
        eps=pick.choice([1e-5, 1e-3]),
        biases=BIASES[seed % 5],
        scaled=seed // 3 % 3 != 1,
        pairing=("interleaved", "half")[seed // 4 % 2],
        max_length=7,
    )
    if seed % 6 in (1, 4):
        config = dataclasses.replace(config, source_vocab=config.target_vocab, shared=True)
    rng = np.random.default_rng(seed)
    shapes = encoder_decoder_shapes(config)
    # twice the usual scale of the matrices makes attention sharp, so that queries and keys get gradients of some size
    params = {name: (2 * value if value.ndim == 2 else rng.normal(0.8, 0.5, value.shape)) for name, value in draw(shapes, seed).items()}
    batch, t_s = pick.choice([1, 2, 4]), pick.choice([2, 3, 6])
    t_t = pick.choice([t for t in (1, 4, 5) if t != t_s])
    source = rng.integers(0, config.source_vocab, (batch, t_s))
    decoder_input = rng.integers(0, config.target_vocab, (batch, t_t))
    decoder_input[:, -1] = decoder_input[:, 0]  # a repeated token in every row
    padded = seed % 4 != 3
    return SimpleNamespace(
        config=config,
        params=params,
        source=source,
        decoder_input=decoder_input,
        targets=rng.integers(0, config.target_vocab, (batch, t_t)),
        source_lengths=rng.integers(1, t_s + 1, batch) if padded else None,
        target_lengths=rng.integers(1, t_t + 1, batch) if padded else None,
        reduction=("mean", "sum", "last")[seed // 3 % 3],
        smoothing=(0.0, 0.1, 0.3)[seed // 5 % 3],
    )


@pytest.fixture(scope="session")
def differ():
    return disagreement


@pytest.fixture(scope="session")
def make_case():
    return random_case


@pytest.fixture(params=RANDOM_CASES, ids=lambda seed: f"random-{seed}")
def case(request):
    return random_case(request.param)


@pytest.fixture(params=[seed for seed in RANDOM_CASES if seed % 4 != 3], ids=lambda seed: f"random-{seed}")
def padded_case(request):
    return random_case(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def draw_tensor():
    """draw_tensor(2, 3): a float64 tensor of normal numbers that wants a gradient, another at each call."""
    generator = torch.Generator().manual_seed(11)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.fixture
def gpu():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    pytest.skip("no GPU here that PyTorch can use")
