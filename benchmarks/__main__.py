"""`python -m benchmarks [step tiled …]` runs the comparisons and weighs pages and site, all unless named; --store keeps them for the appendix."""

import argparse
import datetime
import json
import platform
from pathlib import Path

import numpy as np
import torch

from . import check, decoding, in_page, pages, site, step, tiled

WHICH = ("step", "tiled", "decoding", "translate", "check", "pages", "site", "in_page")
STORED = Path(__file__).parents[1] / "book/appendix/benchmarks.json"


def machine() -> str:
    """What kind of processor, without the machine's name."""
    info = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return models[0] if models else platform.machine()


def _translate():
    from . import translate  # needs what the example needs

    translate.main([])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*WHICH, []], help="which to run (all)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to time each size, or all lengths together (10)")
    parser.add_argument("--sizes", nargs="+", choices=step.SIZES, default=list(step.SIZES), help="the step's sizes (all)")
    parser.add_argument("--lengths", nargs="+", type=int, default=tiled.LENGTHS, help="attention's lengths (1024 to 8192)")
    parser.add_argument("--contexts", nargs="+", type=int, default=decoding.CONTEXTS, help="the decoder's contexts (256, 1024)")
    parser.add_argument("--store", action="store_true", help=f"keep the results in {STORED.name} for the book's appendix")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    which = arguments.which or WHICH
    about = {"date": f"{datetime.date.today():%Y-%m-%d}", "machine": machine(), "NumPy": np.__version__, "PyTorch": torch.__version__}
    print(f"float32 on one thread, processor time; {', '.join(f'{name} {value}' for name, value in about.items())}\n")
    runs = {
        "step": lambda: step.report(arguments.seconds, arguments.sizes),
        "tiled": lambda: tiled.report(arguments.seconds, arguments.lengths),
        "decoding": lambda: decoding.report(arguments.seconds, arguments.contexts),
        "translate": _translate,
        "check": check.report,
        "pages": lambda: pages.main([]),
        "site": site.report,
        "in_page": lambda: in_page.main([]),
    }
    found = {name: result for name in which if (result := runs[name]()) is not None}
    if arguments.store:
        stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
        STORED.write_text(json.dumps(stored | {"about": about | {"threads": 1}} | found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
