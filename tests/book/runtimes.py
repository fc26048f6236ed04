"""Pythons other than the tests' own, in which pages run as a reader elsewhere would run them."""

import json
import os
import site
import subprocess
import sys
import venv
from pathlib import Path


def fresh_python(folder, with_libraries=False):
    """The Python of a new virtual environment; with the libraries of this one, but without the book's package, if that is wanted."""
    venv.create(folder, with_pip=not with_libraries, symlinks=True)
    python = folder / "bin/python"
    if with_libraries:
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = subprocess.run([python, "-c", ask], text=True, capture_output=True, check=True).stdout.strip()
        # A folder named here is searched, but its own .pth files, of which one names the package's source, are not read.
        Path(own, "libraries.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return python


def jupyter_kernel(folder, name, python):
    """Make a Python a Jupyter kernel of this name; the setting with which it is found."""
    place = folder / "jupyter/kernels" / name
    place.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": command, "display_name": name, "language": "python"}))
    return {"JUPYTER_PATH": str(folder / "jupyter")}


def nbval(root, kernel, *pages):
    """The command that runs pages with a kernel against their stored outputs."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(root), "--import-mode=importlib", "--nbval"]
    options += ["--nbval-kernel-name", kernel, "--nbval-sanitize-with", str(root / "nbval.cfg"), "--nbval-cell-timeout", "2400"]
    return [sys.executable, "-m", "pytest", *options, *map(str, pages)]
