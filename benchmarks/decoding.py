"""One more token after a context: with the key-value cache, by reading everything again, and in PyTorch with a cache made beforehand.

python -m benchmarks decoding [--seconds 10] [--contexts 256 1024]
"""

import statistics
import time

import numpy as np
import torch

from byhand import Config
from byhand.numpy import decoder

from . import expert

CONFIG = Config(
    d_model=256, n_heads=8, n_kv_heads=2, d_ff=1024, n_layers=4, source_vocab=1, target_vocab=8000,
    norm="pre", norm_kind="rms", positions="rope", activation="swiglu",
)  # fmt: skip
CONTEXTS = (256, 1024)


def token_by_token(params, prompt, count, cached):
    """Tokens as they come; the first reads the prompt."""
    yield from (int(token[0]) for token in decoder.generate(params, CONFIG, prompt, count, cached=cached))


def token_by_token_in_torch(params, prompt, count):
    model, tokens = expert.Decoder(params, CONFIG, prompt.shape[1] + count), torch.as_tensor(prompt)
    for _ in range(count):
        tokens = model.read(tokens)
        yield int(tokens[0, 0])


def measure(context: int, seconds: float) -> dict[str, dict[str, float]]:
    params = decoder.init(CONFIG, seed=0, dtype=np.float32)
    prompt = np.random.default_rng(0).integers(0, CONFIG.target_vocab, (1, context))
    counts = {"cached": 64, "again": 4, "PyTorch": 64}
    spent, said = {name: [] for name in counts}, {}
    end = time.perf_counter() + seconds
    while not said or time.perf_counter() < end:
        ways = {
            "cached": token_by_token(params, prompt, counts["cached"] + 1, cached=True),
            "again": token_by_token(params, prompt, counts["again"] + 1, cached=False),
            "PyTorch": token_by_token_in_torch(params, prompt, counts["PyTorch"] + 1),
        }
        said = {name: [next(tokens)] for name, tokens in ways.items()}  # the prompt is read
        for step in range(max(counts.values())):
            for name, tokens in ways.items():
                if step < counts[name]:
                    start = time.process_time()
                    said[name].append(next(tokens))
                    spent[name].append(time.process_time() - start)
        for name, tokens in said.items():
            if tokens != said["cached"][: len(tokens)]:
                raise AssertionError(f"{name} went on with other tokens than the cached decoder; they are not the same model")
    return {name: {"median": statistics.median(times), "min": min(times), "count": len(times)} for name, times in spent.items()}


def report(seconds: float = 10.0, contexts: list[int] = CONTEXTS) -> list[dict]:
    print(f"\none more token, d {CONFIG.d_model}, {CONFIG.n_layers} blocks: ms, median (minimum)")
    print(f"{'context':8}{'cached':>18}{'read again':>18}{'PyTorch, cached':>18}{'ratio':>14}")
    found = []
    for context in contexts:
        times = measure(context, seconds / len(contexts))
        ratio = {kind: times["cached"][kind] / times["PyTorch"][kind] for kind in ("median", "min")}
        shown = "".join(f"{1e3 * t['median']:>9.2f} ({1e3 * t['min']:6.2f})" for t in times.values())
        print(f"{context:<8}{shown}{ratio['median']:7.2f} ({ratio['min']:4.2f})", flush=True)
        found.append({"context": context, **times})
    return found
