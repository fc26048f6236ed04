"""Training speed of examples/translate. A report, no gate.

Steps of the committed settings on the processor, and how long the whole run takes at that speed; where there is a GPU, the base size of the
paper in bfloat16, its tokens a second, and its operations as a share of what a large matrix product reaches there.

    python benchmarks/translate.py [--seconds 10]
"""

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from translate import scale  # noqa: E402
from translate.parallel import Team  # noqa: E402
from translate.settings import load  # noqa: E402
from translate.train import Transformer, _Run, corpus  # noqa: E402

from byhand import Config  # noqa: E402
from byhand.torch.loss import cross_entropy  # noqa: E402

BASE = Config(512, 8, 2048, 6, source_vocab=37_000, target_vocab=37_000, tied=True)


def on_the_processor(seconds: float) -> tuple[float, float, int]:
    """Median seconds a step, mean tokens a second, and the steps of the whole run."""
    settings = load(ROOT / "examples" / "translate" / "configs" / "small.yaml")
    data = dataclasses.replace(settings.data, train={kind: count // 20 for kind, count in settings.data.train.items()})
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(settings, Path(folder), Team(0, 1, torch.device("cpu")), corpus(dataclasses.replace(settings, data=data)), Transformer, None, print)
        times, tokens = [], 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            start = time.perf_counter()
            tokens += run._update(next(run.batches)[1])["tokens"]
            times.append(time.perf_counter() - start)
    return statistics.median(times), tokens / sum(times), settings.training.steps


def on_a_gpu(seconds: float, batch: int = 256, length: int = 32) -> tuple[float, float, float]:
    """Target tokens a second of base; operations a second; operations a second of a large product in bfloat16."""
    module = Transformer(BASE).cuda()
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    source, target = (torch.randint(37_000, (batch, length + i), device="cuda") for i in (0, 1))

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            logits = module(source, target[:, :-1])
        cross_entropy(logits.float(), target[:, 1:], 0.1).backward()
        optimizer.step()

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    took, product = _timed(step, seconds), _timed(lambda: a @ a, seconds / 4)
    return batch * length / took, scale.operations(BASE, batch, length, length) / took, 2 * 8192**3 / product


def _timed(call, seconds):
    """Seconds a call, after a few to warm up."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        call()
        torch.cuda.synchronize()
        count += 1
    return (time.perf_counter() - start) / count


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure (10)")
    seconds = parser.parse_args(argv).seconds
    step, tokens, steps = on_the_processor(seconds)
    print(f"examples/translate on {torch.get_num_threads()} of the processor's threads, float32: {step * 1e3:.0f} ms a step, {tokens:.0f} tokens a second")
    print(f"the whole run of {steps} steps at that speed: {steps * step / 60:.0f} min, validation not counted")
    if not torch.cuda.is_available():
        print("no GPU here: the paper's base size was not measured")
        return
    tokens, reached, peak = on_a_gpu(seconds)
    print(f"base size in bfloat16 on a GPU: {tokens:.0f} tokens a second, {reached / 1e12:.0f} TFLOP/s, {reached / peak:.0%} of a large product's")


if __name__ == "__main__":
    main()
