"""One whole training step by hand in NumPy against the same step in PyTorch. A report, no gate.

A step is the forward pass, the loss, the backward pass and Adam. Both floors run on one thread in float32; PyTorch takes its fused
attention (scaled_dot_product_attention) and its fused Adam. The two are timed in turn, a step each, so that whatever else the
machine does falls on both alike.

    python benchmarks/step.py [--seconds 10] [--sizes toy "d 128" "d 512"]
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # where these pin an old processor they halve NumPy's speed
    os.environ.pop(name, None)

import argparse  # noqa: E402  (the settings above must stand before NumPy is imported)
import statistics  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402

import byhand.numpy as bn  # noqa: E402
import byhand.torch as bt  # noqa: E402
from byhand import Config  # noqa: E402

SMOOTHING = 0.1
LR = 1e-4

# name: (config, batch, time of the source and of the target, the ratio aimed at)
SIZES = {
    "toy": (Config(4, 2, 8, 1, source_vocab=2, target_vocab=4), 1, 2, 0.6),
    "d 128": (Config(128, 4, 512, 2, source_vocab=1000, target_vocab=1000), 32, 32, 1.2),
    "d 512": (Config(512, 8, 2048, 2, source_vocab=8000, target_vocab=8000), 8, 64, 1.2),
}


def numpy_step(config: Config, batch: tuple) -> Callable[[], float]:
    source, decoder_input, targets = batch
    params, state = bn.transformer.init(config, seed=0, dtype=np.float32), None

    def step():
        nonlocal params, state
        out = bn.transformer.forward(params, config, source, decoder_input)
        value, dlogits = bn.loss.cross_entropy(out.logits, targets, SMOOTHING)
        grads = bn.transformer.backward(dlogits, out.cache)
        params, state = bn.optimizer.adam(params, grads, state, lr=LR)
        return value

    return step


def torch_step(config: Config, batch: tuple) -> Callable[[], float]:
    source, decoder_input, targets = (torch.as_tensor(tokens) for tokens in batch)
    module = bt.transformer.Transformer(config, seed=0)
    optimizer = bt.optimizer.adam(module.parameters(), lr=LR, fused=True)

    def step():
        optimizer.zero_grad()
        value = bt.loss.cross_entropy(module(source, decoder_input), targets, SMOOTHING)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def measure(config: Config, batch_size: int, length: int, seconds: float) -> tuple[list[float], list[float]]:
    """The times of NumPy's steps and of PyTorch's, in turn, for about that many seconds."""
    rng = np.random.default_rng(0)
    shape = (batch_size, length)
    batch = rng.integers(0, config.source_vocab, shape), *(rng.integers(0, config.target_vocab, shape) for _ in range(2))
    steps = numpy_step(config, batch), torch_step(config, batch)
    for _ in range(3):  # warms up, and shows that both train the same model
        losses = [step() for step in steps]
        if not np.isclose(*losses, rtol=1e-4):
            raise AssertionError(f"the losses are {losses[0]} in NumPy and {losses[1]} in PyTorch; the steps are not the same")
    times = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for step, spent in zip(steps, times, strict=True):
            start = time.process_time()  # one thread: on an idle machine this is the clock's time, on a busy one it is steadier
            step()
            spent.append(time.process_time() - start)
    return times


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to time each size (10)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="which to time (all)")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"one training step in float32 on one thread, medians of processor time; NumPy {np.__version__}, PyTorch {torch.__version__}")
    print(f"{'size':8}{'NumPy':>12}{'PyTorch':>12}{'ratio':>8}{'aim':>7}{'steps':>8}")
    for name in arguments.sizes:
        config, batch_size, length, aim = SIZES[name]
        times = measure(config, batch_size, length, arguments.seconds)
        ours, theirs = map(statistics.median, times)
        print(f"{name:8}{ours * 1e3:9.2f} ms{theirs * 1e3:9.2f} ms{ours / theirs:8.2f}{aim:7.2f}{len(times[0]):8}", flush=True)


if __name__ == "__main__":
    main()
