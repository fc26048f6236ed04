import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).parents[2]


def test_a_page_is_weighed(tmp_path):
    cell = new_code_cell("x = bytearray(100 << 20)\nx[::4096] = b'1' * len(x[::4096])\nprint(sum(range(10**6)))")
    cell.outputs = [new_output("stream", text="x" * 5000)]
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "page.ipynb")
    program = (
        "import sys, pathlib; from benchmarks import pages\n"
        "pages.TABLE = pages.ROOT / '_build/page-costs-of-a-test.tsv'\n"
        f"pages.main([{str(tmp_path)!r}]); print(pages.TABLE.read_text()); pages.TABLE.unlink()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    heads, page, whole = done.stdout.strip().splitlines()[-3:]
    assert heads.split("\t") == ["page", "cells", "processor s", "memory MiB", "outputs kB"]
    name, cells, seconds, memory, outputs = page.split("\t")
    assert (name, cells) == ("page", "1") and float(seconds) > 0 and 5 <= float(outputs) < 6 and whole.startswith("all\t1\t")
    assert not memory or float(memory) > 100
