"""One whole training step by hand in NumPy, against the same step as an expert would write it in PyTorch.

A step is the forward pass, the loss, the backward pass and Adam, in float32 on one thread; PyTorch takes packed projections, its fused
attention and its fused Adam (see expert.py). The limit is what the step's matrix products alone take, in NumPy.

    python -m benchmarks step [--seconds 10] [--sizes toy "d 128" "d 512"]
"""

from collections.abc import Callable

import numpy as np
import torch

import byhand.numpy as bn
from byhand import Config

from . import expert
from .timing import interleaved

SMOOTHING = 0.1
LR = 1e-4

# name: (config, batch, time of the source and of the target, the ratio aimed at)
SIZES = {
    "toy": (Config(4, 2, 8, 1, source_vocab=2, target_vocab=4), 1, 2, 0.65),
    "d 128": (Config(128, 4, 512, 2, source_vocab=1000, target_vocab=1000), 32, 32, 1.0),
    "d 512": (Config(512, 8, 2048, 2, source_vocab=8000, target_vocab=8000), 8, 64, 1.1),
}


def numpy_step(params: dict, config: Config, batch: tuple) -> Callable[[], float]:
    source, decoder_input, targets = batch
    state = None

    def step():
        nonlocal params, state
        out = bn.transformer.forward(params, config, source, decoder_input)
        value, dlogits = bn.loss.cross_entropy(out.logits, targets, SMOOTHING)
        grads = bn.transformer.backward(dlogits, out.cache)
        params, state = bn.optimizer.adam(params, grads, state, lr=LR)
        return value

    return step


def torch_step(params: dict, config: Config, batch: tuple) -> Callable[[], float]:
    batch = [torch.as_tensor(tokens) for tokens in batch]
    model = expert.EncoderDecoder(params, config)
    optimizer = torch.optim.Adam(model.parameters, lr=LR, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step():
        optimizer.zero_grad()
        value = model.loss(*batch, SMOOTHING)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def products(config: Config, batch: int, time: int) -> Callable[[], None]:
    """The matrix products of a step and nothing else: each forward one, and the two that go back through it."""
    rows, d, heads = batch * time, config.d_model, batch * config.n_heads
    weights = [(rows, d, d)] * 12 + [(rows, d, config.d_ff), (rows, config.d_ff, d)] * 2
    attention = [(time, config.d_k, time), (time, time, config.d_v)] * 3
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32)

    pairs = []
    for lead, shapes in (((), weights * config.n_layers + [(rows, d, config.target_vocab)]), ((heads,), attention * config.n_layers)):
        for m, k, n in shapes:
            x, w, dy = drawn(*lead, m, k), drawn(*lead, k, n), drawn(*lead, m, n)
            pairs += [(x, w), (dy, w.swapaxes(-1, -2)), (x.swapaxes(-1, -2), dy)]

    def step():
        for a, b in pairs:
            a @ b

    return step


def measure(config: Config, batch_size: int, length: int, seconds: float) -> dict[str, dict[str, float]]:
    """Each way's times: NumPy's step, PyTorch's, and the products alone."""
    rng = np.random.default_rng(0)
    shape = (batch_size, length)
    batch = rng.integers(0, config.source_vocab, shape), *(rng.integers(0, config.target_vocab, shape) for _ in range(2))
    params = bn.transformer.init(config, seed=0, dtype=np.float32)
    steps = {"NumPy": numpy_step(params, config, batch), "PyTorch": torch_step(params, config, batch)}
    for _ in range(3):  # warms up, and shows that both train the same model
        losses = [step() for step in steps.values()]
        if not np.isclose(*losses, rtol=1e-4):
            raise AssertionError(f"the losses are {losses[0]} in NumPy and {losses[1]} in PyTorch; the steps are not the same")
    return interleaved(steps | {"products": products(config, batch_size, length)}, seconds)


def report(seconds: float = 10.0, sizes: list[str] = tuple(SIZES)) -> list[dict]:
    print("one training step, ms: median (minimum)")
    print(f"{'size':8}{'NumPy':>18}{'PyTorch':>18}{'products':>18}{'ratio':>14}{'aim':>7}{'steps':>7}")
    found = []
    for name in sizes:
        config, batch_size, length, aim = SIZES[name]
        times = measure(config, batch_size, length, seconds)
        ratio = {kind: times["NumPy"][kind] / times["PyTorch"][kind] for kind in ("median", "min")}
        shown = "".join(f"{1e3 * t['median']:>9.2f} ({1e3 * t['min']:6.2f})" for t in times.values())
        print(f"{name:8}{shown}{ratio['median']:7.2f} ({ratio['min']:4.2f}){aim:7.2f}{times['NumPy']['count']:7}", flush=True)
        found.append({"size": name, "aim": aim, **times})
    return found
