"""What book/conftest.py adds to nbval: a page that takes too much memory turns red, and kernels start with the slow libraries loaded."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def run(root, folder, source, prints=""):
    shutil.copy(root / "book/conftest.py", folder)
    outputs = [new_output("stream", text=prints)] if prints else []
    nbformat.write(new_notebook(cells=[new_code_cell(source, execution_count=1, outputs=outputs)]), folder / "page.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    run = subprocess.run(command, text=True, capture_output=True, cwd=folder)
    return run.returncode, run.stdout


def test_a_modest_page_passes(root, tmp_path):
    code, said = run(root, tmp_path, "x = bytes(1000)")
    assert code == 0, said


def test_too_much_memory(root, tmp_path):
    code, said = run(root, tmp_path, "x = bytearray(1 << 30)\nx[::4096] = b'1' * len(x[::4096])")
    assert code == 1 and "page.ipynb has held" in said


@pytest.mark.parametrize("warm", [True, False])
def test_a_kernel_knows_what_its_page_imports_and_no_more(root, tmp_path, warm):
    """In the page's own folder, with the settings of this process."""
    if warm:
        (tmp_path / "_tools").mkdir()
        shutil.copy(root / "book/_tools/warm.py", tmp_path / "_tools")
    source = f"""import os, sys
print(os.getcwd() == {str(tmp_path)!r}, os.environ["PATH"] == {os.environ["PATH"]!r}, "sympy" in sys.modules, "sympy" in globals(), "LIBRARIES" in globals())"""
    code, said = run(root, tmp_path, source, f"True True {warm} False False\n")
    assert code == 0, said
