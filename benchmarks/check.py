"""What it costs to check a stranger's step: check.mine on the workshop's GPT, as it is and with a line broken."""

import time
import types
from pathlib import Path

from byhand import check

GPT = Path(__file__).parents[1] / "book/workshop/my_gpt.py"
BROKEN = {
    "right": ("", ""), "wrong on the way back": ("a * (da - (da * a).sum(-1, keepdims=True))", "a * (1 - a) * da"),
    "wrong on the way forward": ("np.tri(T, dtype=bool)", "np.tri(T, k=1, dtype=bool)"), "in no catalogue": ("dh.sum((0, 1))", "dh[::2].sum((0, 1))"),
}  # fmt: skip


def report() -> dict[str, float]:
    """Seconds of processor time for each."""
    found = {}
    for kind, change in BROKEN.items():
        module = types.ModuleType("theirs")
        exec(GPT.read_text("utf-8").replace(*change), vars(module))
        start = time.process_time()
        check.mine(module.step)
        found[kind] = round(time.process_time() - start, 2)
        print(f"check.mine, {kind}: {found[kind]} s")
    return found
