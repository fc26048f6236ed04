"""Notebooks as Colab gets them run from an empty folder, against a repository that is fetched there, and give the stored outputs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import colab
import pytest
import repository
import toc
from runtimes import fresh_python, jupyter_kernel, nbval

ADDRESS = "https://github.com/someone/book"
PAGES = [page for page in toc.pages() if toc.source(page) and toc.source(page).suffix == ".ipynb"]
# It imports from examples/ and reads stored results; the others, which read claims and corpus, weekly.
SAMPLE = ["book/learn/04-past-one-machine"]


@pytest.fixture(scope="module")
def remote(root, tmp_path_factory):
    """A repository with the book as it lies in the folder now, on a branch."""
    folder = tmp_path_factory.mktemp("remote") / "book"
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, text=True, capture_output=True)
    if listed.returncode:
        pytest.skip("the book is not in a git repository here")
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)
    identity = ["-c", "user.name=x", "-c", "user.email=x"]
    for command in (["init", "--quiet", "--initial-branch=trunk"], ["add", "--all", "--force"], [*identity, "commit", "--quiet", "-m", "The book"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Settings with which a kernel `colab` is found: a Python with the libraries of this one, without the book's package."""
    home = tmp_path_factory.mktemp("runtime")
    kernel = jupyter_kernel(home, "colab", fresh_python(home / "venv", with_libraries=True))
    # PIP_NO_BUILD_ISOLATION means the opposite of what it says: 0 builds with what is here.
    return {**os.environ, **kernel, "COLAB_RELEASE_TAG": "test", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}


def notebook(page, root, address, branch):
    """The page as Colab gets it. Only the address that the first cell fetches from is another."""
    stored = json.loads(toc.source(page, root).read_text(encoding="utf-8"))
    made = repository.colab_notebook(stored, page, ADDRESS, branch, root)
    first = made["cells"][0]
    first["source"] = first["source"].replace(repr(ADDRESS), repr(address))
    first["metadata"]["tags"] = ["nbval-ignore-output"]
    return made


def run_on_colab(page, root, remote, runtime, folder):
    shutil.copy(root / "book/conftest.py", folder)  # patience
    (folder / "page.ipynb").write_text(json.dumps(notebook(page, remote, remote.as_uri(), "trunk")), encoding="utf-8")
    run = subprocess.run(nbval(root, "colab", "page.ipynb"), cwd=folder, env=runtime, text=True, capture_output=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert (folder / "book/_toc.yml").is_file(), "the first cell fetched nothing"


@pytest.mark.parametrize("page", SAMPLE)
def test_a_page_runs_on_colab(page, root, remote, runtime, tmp_path):
    run_on_colab(page, root, remote, runtime, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in SAMPLE])
def test_every_page_runs_on_colab(page, root, remote, runtime, tmp_path):
    run_on_colab(page, root, remote, runtime, tmp_path)


def test_elsewhere_the_first_cell_does_nothing(root, tmp_path, monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    monkeypatch.chdir(tmp_path)
    exec(notebook(SAMPLE[0], root, "nowhere", "trunk")["cells"][0]["source"], {})
    assert not list(tmp_path.iterdir()) and Path.cwd() == tmp_path


def test_numpy_and_torch_stay_or_it_says_so(monkeypatch, capsys):
    """pip is told to keep them; where it cannot, what would change is named, and the cell fails."""
    asked = []

    def pip(*arguments):
        asked.append(arguments)
        if "--constraint" in arguments:
            assert Path(arguments[1]).read_text() == "numpy==1.26.4\ntorch==2.13.0+cpu\n"
            return subprocess.CompletedProcess(arguments, 1, "", "no such set")
        plan = [{"metadata": {"name": name, "version": now}} for name, now in (("numpy", "2.4.6"), ("bm25s", "0.3"))]
        return subprocess.CompletedProcess(arguments, 0, json.dumps({"install": plan}), "")

    monkeypatch.setattr(colab, "installed", lambda: {"numpy": "1.26.4", "torch": "2.13.0+cpu"})
    monkeypatch.setattr(colab, "pip", pip)
    with pytest.raises(SystemExit, match="(?s)nothing was installed.*numpy 1.26.4 would become 2.4.6.*Restart"):
        colab.main()
    assert "--dry-run" in asked[1] and len(asked) == 2


def test_links_lead_on_and_pictures_come_along(root):
    cells = notebook("book/step/16-logits", root, ADDRESS, "main")["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "](https://colab.research.google.com/github/someone/book/blob/gh-pages/colab/book/step/12-vocabulary.ipynb)" in text
    assert "(data:image/svg+xml;base64," in text and "../maps/" not in text
    cited = "".join("".join(cell["source"]) for cell in notebook("book/stack/06a-block", root, ADDRESS, "main")["cells"])
    assert "](https://github.com/someone/book/blob/main/book/appendix/bibliography.md#xiong-et-al-2020)" in cited
    folded = [cell for cell in cells if "hide-cell" in cell["metadata"].get("tags", [])]
    assert folded and all(cell["metadata"]["cellView"] == "form" for cell in folded)
