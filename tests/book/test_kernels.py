"""The pages that train give the same outputs on the processor that differs most from this one."""

import ast
import json
import os
import subprocess
import sys

import kernels
import pytest
from lint import notebooks


def test_the_pages_that_train_are_the_same_under_another_kernel(root):
    name = next(iter(kernels.kernels()))
    done = kernels.run(name, [root / f"book/{page}.ipynb" for page in kernels.TRAINING])
    assert done.returncode == 0, f"under {name}:\n{done.stdout[-8000:]}{done.stderr[-2000:]}"


def test_no_page_that_trains_is_forgotten(root):
    """A training steps in a loop, shows a bar or is called so; and random numbers by PyTorch in float32 are not the same everywhere."""
    pages = {page.relative_to(root / "book").with_suffix("").as_posix(): trains(page) for page in notebooks([root / "book"])}
    assert {page for page, does in pages.items() if does} <= set(kernels.TRAINING) <= pages.keys()


def trains(page):
    code = "\n".join("".join(cell["source"]) for cell in json.loads(page.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code")
    loops = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.For | ast.While)]
    called = {call.func.attr for loop in loops for call in ast.walk(loop) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)}
    return (
        bool(called & {"adam", "step", "training"})
        or any(word in code for word in ("tqdm(", ".training(", "import train\n"))
        or any("torch.rand" in line and "float64" not in line for line in code.splitlines())
    )


def test_kernels_differ():
    """Each is told to the libraries, and the product of two matrices has other last digits under the first than without it."""
    found = kernels.kernels()
    assert "two threads" in found and all(set(settings) >= set(kernels.THREADS) for settings in found.values())
    if len(found) < 3:
        pytest.skip("this machine can take the part of no other processor")
    program = "import numpy as np; r = np.random.default_rng(0); print((r.normal(size=(40, 300)) @ r.normal(size=(300, 40))).tobytes().hex())"
    outputs = {
        subprocess.run([sys.executable, "-c", program], env={**os.environ, **found[name]}, text=True, capture_output=True, check=True).stdout
        for name in (list(found)[0], list(found)[-2])
    }
    assert len(outputs) == 2
