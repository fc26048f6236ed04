"""The pages that train give the same outputs on the processor that differs most from this one."""

import json
import os
import subprocess
import sys

import kernels
import pytest
from lint import notebooks


@pytest.mark.parametrize("page", kernels.TRAINING)
def test_a_page_that_trains_is_the_same_under_another_kernel(root, page):
    name = next(iter(kernels.kernels()))
    done = kernels.run(name, [root / f"book/{page}.ipynb"])
    assert done.returncode == 0, f"under {name}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}"


def test_no_page_that_trains_is_forgotten(root):
    """A training shows a bar; and random numbers by PyTorch in float32 are not the same everywhere."""
    train = set()
    for page in notebooks([root / "book"]):
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        if "tqdm(" in code or any("torch.rand" in line and "float64" not in line for line in code.splitlines()):
            train.add(page.relative_to(root / "book").with_suffix("").as_posix())
    assert train and not train - set(kernels.TRAINING)


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
