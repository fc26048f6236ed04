"""Attention in tiles, forward and backward, against PyTorch's fused attention: time and peak memory over the length.

python -m benchmarks tiled [--seconds 10] [--lengths 1024 2048 4096 8192]
"""

import sys

import numpy as np
import torch
import torch.nn.functional as F

from byhand.numpy import attention

from .timing import in_a_fresh_process, interleaved, peak_memory

HEADS, WIDTH = 4, 64
LENGTHS = (1024, 2048, 4096, 8192)


def ways(length: int) -> dict:
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=(1, HEADS, length, WIDTH)).astype(np.float32) for _ in range(4))
    inputs, upstream = [torch.tensor(x, requires_grad=True) for x in (q, k, v)], torch.tensor(dy)

    def tiled():
        _, cache = attention.tiled_attention(q, k, v, causal=True)
        return attention.tiled_attention_backward(dy, cache)[:3]

    def fused():
        return torch.autograd.grad(F.scaled_dot_product_attention(*inputs, is_causal=True), inputs, upstream)

    return {"NumPy": tiled, "PyTorch": fused}


def report(seconds: float = 10.0, lengths: list[int] = LENGTHS) -> list[dict]:
    print(f"\nattention in tiles and its backward, {HEADS} heads of width {WIDTH}, causal: seconds, median (minimum), and peak memory in MB")
    print(f"{'n':>6}{'NumPy':>18}{'PyTorch':>18}{'ratio':>14}{'NumPy MB':>10}{'PyTorch MB':>11}")
    found = []
    for length in lengths:
        pair = ways(length)
        results = [[np.asarray(x.detach()) if hasattr(x, "detach") else x for x in way()] for way in pair.values()]
        if not all(np.allclose(a, b, atol=1e-4) for a, b in zip(*results, strict=True)):
            raise AssertionError(f"the gradients differ at n = {length}; the two are not the same computation")
        times = interleaved(pair, seconds / len(lengths), least=3, warm=1)
        memory = {name: float(in_a_fresh_process("tiled", name, str(length))) for name in pair}
        ratio = {kind: times["NumPy"][kind] / times["PyTorch"][kind] for kind in ("median", "min")}
        shown = "".join(f"{t['median']:>9.3f} ({t['min']:6.3f})" for t in times.values())
        held = "".join(f"{memory[name] / 1e6:>{width}.0f}" for name, width in (("NumPy", 10), ("PyTorch", 11)))
        print(f"{length:6}{shown}{ratio['median']:7.2f} ({ratio['min']:4.2f}){held}", flush=True)
        found.append({"length": length} | {name: times[name] | {"bytes": memory[name]} for name in pair})
    return found


if __name__ == "__main__":  # one way's memory, see report
    name, length = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    ways(64)[name]()  # so that no library is loaded while we look
    print(peak_memory(ways(length)[name]))
