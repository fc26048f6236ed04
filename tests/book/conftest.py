"""What the tests of the book share: its folder, its notebooks, and one build of the site."""

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root():
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site. It is built once, with warnings as errors, whatever the number of workers."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # a worker of pytest-xdist: its parent folder is everyone's
        shared = shared.parent
    html, log = shared / "site/_build/html", shared / "site.log"
    with FileLock(shared / "site.lock"):
        if not log.exists():
            log.write_text(build_site(shared / "site"))
    assert not log.read_text(), log.read_text()
    return html


def build_site(output):
    """Build the site below a folder; the log if that failed, otherwise nothing."""
    command = ["build", ".", "--path-output", str(output), "--warningiserror", "--keep-going", "-n", "--all"]
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    run = subprocess.run([jupyter_book, *command], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.stdout if run.returncode else ""
