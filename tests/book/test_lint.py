"""The lint tool accepts a sound notebook, and catches each fault that is planted in it."""

import json
import subprocess
import sys
from copy import deepcopy

import notation
import pytest
from lint import CHANGED, shows_something

SOUND = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": "# A page\n\nSee /usage and https://example.org/home/page."},
        {
            "cell_type": "code",
            "metadata": {},
            "source": ["x = 1\n", "x"],
            "execution_count": 1,
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["1"]}}],
        },
        {"cell_type": "code", "metadata": {}, "source": "y = 2", "execution_count": 2, "outputs": []},
    ]
}


def lint(root, folder, notebook):
    (folder / "page.ipynb").write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
    command = [sys.executable, root / "book/_tools/lint.py", folder]
    run = subprocess.run(command, text=True, capture_output=True)
    return run.returncode, run.stdout + run.stderr


def test_the_book_passes(root):
    command = [sys.executable, "book/_tools/lint.py", "book"]
    run = subprocess.run(command, cwd=root, text=True, capture_output=True)
    assert run.returncode == 0, run.stderr


def never_run(cell):
    cell["execution_count"] = None


def no_output(cell):
    cell["outputs"] = []


def error(cell):
    cell["outputs"] = [{"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}]


def path_in_source(cell):
    cell["source"] = "x = open('/home/someone/data.txt')\nx"


def path_in_stream(cell):
    cell["outputs"].append({"output_type": "stream", "name": "stderr", "text": ["saved in\n", "/tmp/tmpabc/x.npz"]})


def path_in_html(cell):
    cell["outputs"][0]["data"]["text/html"] = "<p>C:\\Users\\someone</p>"


def all_digits(cell):
    cell["outputs"][0]["data"]["text/html"] = "<p data-settings='{&quot;answer&quot;: 2.3381000000000003}'></p>"


def empty(cell):
    cell["source"] = []


def open_in_jupyterlab(cell):
    cell["metadata"] = {"tags": ["hide-cell"], "jupyter": {"source_hidden": True}}


def only_for_sphinx(cell):
    cell |= {"cell_type": "markdown", "source": "See {doc}`06-attention`."}


FAULTS = {
    open_in_jupyterlab: "is folded on the site, but not alike in JupyterLab",
    only_for_sphinx: "has {doc}`06-attention`, which leads nowhere in JupyterLab",
    never_run: "was never run",
    no_output: "its output is not stored",
    error: "stored an error: ValueError: no",
    path_in_source: "path of one machine: /home/someone",
    path_in_stream: "path of one machine: /tmp/tmpabc",
    path_in_html: "path of one machine: C:\\Users",
    all_digits: "prints all digits of a float, 2.3381000000000003",
    empty: "is empty",
}


def test_a_sound_notebook_passes(root, tmp_path):
    code, said = lint(root, tmp_path, SOUND)
    assert code == 0 and "1 notebooks" in said


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(root, tmp_path, fault):
    notebook = deepcopy(SOUND)
    fault(notebook["cells"][1])
    code, said = lint(root, tmp_path, notebook)
    assert code == 1
    assert FAULTS[fault] in said
    assert "page.ipynb, cell 2" in said


def test_a_page_that_stored_nothing_is_caught(root, tmp_path):
    notebook = deepcopy(SOUND)
    del notebook["cells"][1]
    code, said = lint(root, tmp_path, notebook)
    assert code == 1 and "not one output is stored" in said


def test_a_broken_file_is_caught(root, tmp_path):
    code, said = lint(root, tmp_path, "{")
    assert code == 1 and "page.ipynb: not a notebook" in said


@pytest.mark.parametrize(
    "source, expected",
    [
        ("x", True),
        ("print('x')", True),
        ("f'{x}'", True),
        ("x.shape, y", True),
        ("x;", False),
        ("x = 1", False),
        ("f(x)", False),  # may return nothing
        ("import sys\nprint('x', file=sys.stderr)", False),
        ("%matplotlib inline", False),
        ("# a remark", False),
    ],
)
def test_what_must_have_an_output(source, expected):
    assert shows_something(source) is expected


@pytest.mark.parametrize(
    "page, formula, complaint",
    [
        ("step/07-norm", "$y = \\gamma\\hat x + \\beta$ and $\\frac{\\partial\\mathcal L}{\\partial W_{\\text{out}}} = dQ_{ij}$", None),
        ("step/07-norm", "$$\nN = B X\n$$", None),
        ("step/07-norm", "$Y = \\Omega + c$", "has the letter Omega in"),
        ("step/09-mask", "$S + M$", None),
        ("step/10-cross", "$S + M$", "has the letter M in"),
        ("step/10-cross", "`$c$` <!-- $c$ --> and $\\text{so } A$", None),
        ("step/08-ffn", "$\\underset{(T,\\;d)}{A} = 1$", "gives A the shape (T,d); notation has (T,T)"),
        ("step/08-ffn", "$\\underset{(T_{\\text{target}},\\;T_{\\text{source}})}{A} = 1$", None),
        ("stack/08-ffn", "$c$", None),
    ],
)
def test_formulas_keep_to_the_notation(root, tmp_path, page, formula, complaint):
    notebook = deepcopy(SOUND)
    notebook["cells"][0]["source"] = formula
    file = tmp_path / f"{page}.ipynb"
    file.parent.mkdir()
    file.write_text(json.dumps(notebook))
    run = subprocess.run([sys.executable, root / "book/_tools/lint.py", tmp_path], text=True, capture_output=True)
    assert (complaint in run.stderr) if complaint else run.returncode == 0, run.stderr


def test_a_letter_that_the_notation_has_twice_is_found(tmp_path):
    source = "# Notation\n\n## Sizes\n\n| symbol | in code | what |\n|---|---|---|\n| $B$ | `a` | a |\n| $B$ | `b` | b |\n"
    file = tmp_path / "notation.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": source}]}))
    assert notation.table(file)[3] == ["B"]


def test_figures_that_are_not_the_page_s_own_are_refused(root, tmp_path):
    notebook = deepcopy(SOUND)
    notebook["cells"][1]["outputs"][0]["data"]["text/plain"] = [f"{CHANGED}: 1 of 2 figures"]
    status, said = lint(root, tmp_path, notebook)
    assert status and "compares figures that are not the page's own" in said
