"""What the tests of the book share: its folder, one build of the site, and one browser."""

import os
import re
import subprocess
import sys
from pathlib import Path

import browser as browsers  # book/_tools
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
            if log.read_text():
                pytest.fail(f"the site does not build:\n{log.read_text()}", pytrace=False)
    if log.read_text():
        pytest.fail("the site does not build; another test says why", pytrace=False)
    return html


def build_site(output):
    """Build the site below a folder; its complaints if that failed, otherwise nothing."""
    command = ["build", ".", "--path-output", str(output), "--warningiserror", "--keep-going", "-n", "-q", "--all"]
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    # Without a repository the buttons do not depend on where the book was cloned from.
    environment = {**os.environ, "BOOK_REPOSITORY_URL": "none"}
    run = subprocess.run([jupyter_book, *command], cwd=ROOT, text=True, env=environment, capture_output=True)
    complaints = re.sub(r"\x1b\[[\d;]*m", "", run.stderr).strip()
    return (complaints or run.stdout) if run.returncode else ""


@pytest.fixture(scope="session")
def served(site):
    """The address of the site on a server of our own."""
    with browsers.serve(site) as address:
        yield address


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests. A machine without one skips them; continuous integration must have one."""
    with browsers.start() as browser:
        if browser is None:
            reason = "no Chromium, Chrome or Edge on this machine: the pages were not looked at"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        yield browser


@pytest.fixture(scope="session")
def that_notice():
    """Of some claims, those whose recomputation differs from the file once a line of Python has changed the package."""

    def notice(change, claim_ids):
        program = (
            "import sys; sys.path.insert(0, 'book/_tools')\n"
            "import numpy as np\n"
            "from byhand import check\n"
            "from byhand.numpy import attention, decoder, layers, lora, loss, norm, optimizer, position, preference, quantize, softmax, tiled\n"
            f"{change}\n"
            "for module in (attention, decoder, layers, lora, loss, norm, optimizer, position, preference, quantize, softmax, tiled):\n"
            "    for value in vars(module).values():\n"
            "        if getattr(value, '__name__', '') == '<lambda>':\n"
            "            value.rule = value\n"
            "attention.softmax_backward = softmax.softmax_backward\n"
            "import claims, ledger\n"
            f"for claim_id in {sorted(claim_ids)}:\n"
            "    if any(ledger.complaints(claims.lookup(claim_id))):\n"
            "        print(claim_id)\n"
        )
        run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True)
        assert run.returncode == 0, run.stderr
        return set(run.stdout.split())

    return notice
