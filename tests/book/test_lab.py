"""JupyterLab in a real browser: the table of contents opens, a page runs from top to bottom, its links lead on, and its answers are closed."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import toc
from browser import PATIENCE
from playwright.sync_api import TimeoutError

TOKEN = "test"
PAGE = "book/step/06-attention.ipynb"
READ, NEXT = "book/step/16-logits.ipynb", "book/step/25-adam.ipynb"  # the first has answers, and a link to the second
# JupyterLab 4.6 measures a Markdown cell against its toolbar before the cell is there, in one run of four; nothing of ours is in that stack.
TOOLBAR_RACE = "_markdownOverlapsToolbar"
CLOSED = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .map((cell, number) => cell.inputHidden && cell.outputHidden ? number : -1).filter((number) => number >= 0)"""
RUN_ALL = """async () => {
    await window.jupyterapp.commands.execute("notebook:run-all-cells");
    await window.jupyterapp.commands.execute("docmanager:save");
}"""


@pytest.fixture(scope="module")
def lab(root, tmp_path_factory, chromium):
    """A JupyterLab on a copy of the book, with settings of its own; gives (folder, address)."""
    home = tmp_path_factory.mktemp("lab")
    work = home / "work"
    shutil.copytree(root / "book", work / "book", ignore=shutil.ignore_patterns("_*", ".*"))
    (work / "contents.ipynb").write_text(toc.contents_notebook())
    folders = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    folders |= {f"JUPYTERLAB_{name}_DIR": str(home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--ServerApp.port={port}", f"--ServerApp.root_dir={work}", f"--IdentityProvider.token={TOKEN}"]
    command = [Path(sys.executable).with_name("jupyter-lab"), *options, "--LabApp.expose_app_in_browser=True"]
    with open(home / "log", "w") as log:
        process = subprocess.Popen(command, env={**os.environ, **folders}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}/"
            wait_for(address, process, home / "log")
            yield work, address
        finally:
            process.terminate()
            process.wait(600)


def wait_for(address, process, log, seconds=600):
    for _ in range(seconds * 4):
        with contextlib.suppress(OSError), urllib.request.urlopen(address + "api"):
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.25)
    pytest.fail(f"JupyterLab did not start: {log.read_text()}")


@pytest.fixture(scope="module")
def tab(lab, chromium):
    """A tab that has opened the table of contents, as `make lab` does."""
    _, address = lab
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(f"{error.message}\n{error.stack}"))
    page.goto(f"{address}lab/tree/contents.ipynb?token={TOKEN}")
    page.wait_for_selector(".jp-MarkdownCell h1")
    yield page
    page.close()


def test_contents_lists_every_notebook(tab):
    assert tab.locator(".jp-MarkdownCell h1").inner_text().startswith("Contents")
    listed = [toc.source(page) for page in toc.pages()]
    titles = [toc.title(file) for file in listed if file.suffix == ".ipynb"]
    assert tab.locator(".jp-MarkdownCell li a").count() == len(titles)


def test_a_page_runs_from_top_to_bottom(tab, lab):
    work, _ = lab
    stored = json.loads((work / PAGE).read_text())
    tab.locator(f'.jp-MarkdownCell li a[href*="{Path(PAGE).name}"]').click()
    tab.wait_for_selector(".jp-NotebookPanel:visible .jp-Cell")
    tab.wait_for_function("window.jupyterapp.shell.currentWidget?.context?.sessionContext?.session?.kernel?.status === 'idle'")
    tab.evaluate(RUN_ALL)
    ran = json.loads((work / PAGE).read_text())
    code = [cell for cell in ran["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert plain_texts(ran) == plain_texts(stored)
    assert tab.locator(".jp-RenderedLatex mjx-container").count(), "no formula of an output is typeset"
    assert not [error for error in tab.errors if TOOLBAR_RACE not in error]


def open_from_contents(tab, page):
    """The panel of a page, opened by its link in the table of contents."""
    tab.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:open', {path: 'contents.ipynb'}); }")
    return follow(tab, tab.locator(f'.jp-MarkdownCell:visible li a[href*="{Path(page).name}"]'), page)


def follow(tab, link, page):
    """The panel of the page that a link opens: clicked again until it does, since JupyterLab makes links its own a moment after they are shown."""
    for _ in range(60):
        link.click()
        with contextlib.suppress(TimeoutError):
            tab.wait_for_function(f"window.jupyterapp.shell.currentWidget?.context?.path === '{page}'", timeout=PATIENCE / 60)
            break
    else:
        pytest.fail(f"no click has opened {page}")
    shown = tab.locator(".jp-NotebookPanel:visible")
    shown.locator(".jp-MarkdownCell h1").first.wait_for()
    return shown


def test_a_page_reads_as_on_the_site(tab):
    """Its place in the step is drawn, a citation is words, its answers are closed, and a link leads to the page that it names."""
    shown = open_from_contents(tab, READ)
    picture = shown.locator('img[alt^="Place in the training step"]')
    picture.wait_for()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)")
    assert "Citation" not in shown.inner_text()
    stored = json.loads((toc.ROOT / READ).read_text())["cells"]
    answers = [number for number, cell in enumerate(stored) if "hide-cell" in cell["metadata"].get("tags", [])]
    assert answers and shown.evaluate(CLOSED) == answers
    link = shown.locator(f'.jp-MarkdownCell a[href*="{Path(NEXT).name}"]').first
    assert follow(tab, link, NEXT).locator(".jp-MarkdownCell h1").first.inner_text().startswith(toc.title(toc.ROOT / NEXT))


def plain_texts(notebook):
    """Every output as text; streams are joined, since a run may cut them anywhere."""
    return [
        "".join("".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in cell["outputs"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
