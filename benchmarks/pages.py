"""What each page of the book costs: processor seconds, memory, and the size of its stored outputs.

    python benchmarks/pages.py [PAGE or FOLDER ...]     all pages unless named

Each page is run in a kernel of its own, one after another; what it computes is compared by `make test`, not here.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import psutil
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "_build/page-costs.tsv"
HEADS = ("page", "cells", "processor s", "memory MiB", "outputs kB")


class Cost(NamedTuple):
    page: str
    cells: int
    seconds: float  # of processor time, the kernel's start included
    memory: float | None  # MiB, the most that was held; None where the system does not say
    outputs: float  # kB in the notebook's file

    def cells_of_the_table(self):
        return self.page, str(self.cells), f"{self.seconds:.1f}", "" if self.memory is None else f"{self.memory:.0f}", f"{self.outputs:.0f}"


def cost(page: Path) -> Cost:
    """Run one page and look at its kernel before it ends."""
    notebook = nbformat.read(page, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = sum(len(json.dumps(cell.outputs, ensure_ascii=False).encode()) for cell in code)
    client = NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(page.parent)}})
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        process = psutil.Process(client.km.provisioner.pid)
        times, memory = process.cpu_times(), _peak_memory(process)
    name = page.resolve().relative_to(ROOT / "book").with_suffix("").as_posix() if page.resolve().is_relative_to(ROOT / "book") else page.stem
    return Cost(name, len(code), times.user + times.system, memory, outputs / 1000)


def _peak_memory(process):
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = getattr(process.memory_info(), "peak_wset", None)  # Windows
    return peak / 2**20 if peak else None


def main(argv=None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=[ROOT / "book"], help="notebooks or folders (all pages)")
    arguments = parser.parse_args(argv)
    sys.path.append(str(ROOT / "book/_tools"))
    from lint import notebooks

    pages = list(notebooks(arguments.pages))
    print(f"{'page':34}{'cells':>7}{'processor':>12}{'memory':>11}{'outputs':>11}", flush=True)
    found = []
    for page in pages:
        found.append(cost(page))
        name, cells, seconds, memory, outputs = found[-1].cells_of_the_table()
        print(f"{name:34}{cells:>7}{seconds:>10} s{memory:>7} MiB{outputs:>8} kB", flush=True)
    most = max((c.memory or 0 for c in found), default=0)
    whole = Cost("all", sum(c.cells for c in found), sum(c.seconds for c in found), most, sum(c.outputs for c in found))
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text("".join("\t".join(row) + "\n" for row in (HEADS, *(c.cells_of_the_table() for c in (*found, whole)))), encoding="utf-8")
    print(f"\n{len(found)} pages, {whole.seconds:.0f} s; at most {whole.memory:.0f} MiB; outputs {whole.outputs:.0f} kB; written to {TABLE.relative_to(ROOT)}")
    return [c._asdict() for c in found]


if __name__ == "__main__":
    main()
