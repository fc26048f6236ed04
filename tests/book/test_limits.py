"""A page that takes too much memory turns red when nbval runs it."""

import shutil
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def run(root, folder, source):
    shutil.copy(root / "book/conftest.py", folder)
    nbformat.write(new_notebook(cells=[new_code_cell(source, execution_count=1)]), folder / "page.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider", "--rootdir", folder, folder]
    run = subprocess.run(command, text=True, capture_output=True, cwd=folder)
    return run.returncode, run.stdout


def test_a_modest_page_passes(root, tmp_path):
    code, said = run(root, tmp_path, "x = bytes(1000)")
    assert code == 0, said


def test_too_much_memory(root, tmp_path):
    code, said = run(root, tmp_path, "x = bytearray(1 << 30)\nx[::4096] = b'1' * len(x[::4096])")
    assert code == 1 and "page.ipynb has held" in said
