"""From the repository's root:  python -m examples.language_model

Trains the decoder of page 08a for longer than the page does, and stores losses and measures in result.json.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import byhand.torch as bt
from byhand import Config

from . import RESULT, VOCABULARY, WINDOW, measures, text

CONFIG = Config(
    d_model=96, n_heads=4, n_kv_heads=2, d_ff=192, n_layers=3, source_vocab=1, target_vocab=VOCABULARY,
    norm="pre", norm_kind="rms", positions="rope", activation="swiglu", tied=True,
)  # fmt: skip


def train(steps: int, peak: float, decay: float, noise: float, keep: float = 0.99, batch: int = 16, seed: int = 0, progress: bool = True) -> dict:
    """The loop of page 08a with two additions against learning the text by heart.

    A share `noise` of the input tokens is replaced by random ones, and what is scored is a running mean of the weights,
    mean ← keep · mean + (1 − keep) · weights.
    """
    material, rng = text(), np.random.default_rng(seed)
    model, mean = (bt.decoder.Decoder(CONFIG, seed=seed) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=decay)
    warmup, losses, checked = min(100, max(steps // 10, 1)), [], {}

    def validate(module):
        with torch.no_grad():
            return bt.loss.cross_entropy(module(material.windows[:, :-1]), material.windows[:, 1:]).item()

    checked[0] = [validate(model), validate(mean)]
    for step in tqdm(range(1, steps + 1), disable=not progress):
        starts = rng.integers(0, len(material.training) - WINDOW, batch)
        rows = material.training[starts[:, None] + np.arange(WINDOW + 1)]
        given, wrong = rows[:, :-1].copy(), rng.random((batch, WINDOW)) < noise
        given[wrong] = rng.integers(0, VOCABULARY, wrong.sum())
        loss = bt.loss.cross_entropy(model(given), rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = peak * min(step / warmup, (1 + math.cos(math.pi * step / steps)) / 2)
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            for kept, new in zip(mean.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 1 - (keep if step > warmup else 0.0))
        if step % 50 == 0 or step == steps:
            checked[step] = [validate(model), validate(mean)]
    final = checked[steps][1]
    return {
        "settings": {"steps": steps, "peak": peak, "decay": decay, "noise": noise, "keep": keep, "batch": batch, "seed": seed},
        "training loss, last 50": round(float(np.mean(losses[-50:])), 4),
        "validation": {str(step): [round(value, 4) for value in pair] for step, pair in checked.items()},
        "measures": {name: round(value, 4) for name, value in measures(final, material.windows[:, 1:].size, material.bytes).items()},
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.language_model", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--peak", type=float, default=5e-3, help="the highest rate (5e-3)")
    parser.add_argument("--decay", type=float, default=0.3, help="weight decay (0.3)")
    parser.add_argument("--noise", type=float, default=0.1, help="share of input tokens replaced by random ones (0.1)")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the result goes (beside this program)")
    options = parser.parse_args(argv)
    found = train(options.steps, options.peak, options.decay, options.noise)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(found["measures"])


if __name__ == "__main__":
    main()
