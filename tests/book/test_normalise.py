"""The normal form of a notebook depends on its cells alone, and every committed page is in it."""

import subprocess
import sys

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from normalise import normalise


def page(**metadata):
    """A notebook as a run leaves it."""
    outputs = [
        new_output("stream", name="stdout", text="a\n"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("execute_result", {"text/plain": "1"}, execution_count=7),
    ]
    cells = [
        new_markdown_cell("# A page"),
        new_code_cell("1", execution_count=7, outputs=outputs, metadata={"tags": ["hide-input"], "execution": {"started": "now"}}),
        new_code_cell(""),
        new_code_cell("1", execution_count=9),
    ]
    return new_notebook(cells=cells, metadata=metadata)


def test_two_runs_give_one_file():
    first, second = page(widgets={}), page(language_info={"name": "python", "version": "3.99"}, book={"stage": "attention"})
    assert [a.id for a in first.cells] != [b.id for b in second.cells]
    second.metadata.pop("book")
    assert nbformat.writes(normalise(first)) == nbformat.writes(normalise(second))


def test_normal_form():
    notebook = normalise(page(book={"stage": "attention"}))
    nbformat.validate(notebook)
    assert nbformat.writes(normalise(nbformat.from_dict(notebook))) == nbformat.writes(notebook)
    assert notebook.metadata.book == {"stage": "attention"}
    assert notebook.metadata.kernelspec.name == "python3"
    _, first, second = notebook.cells  # the empty cell is gone
    assert first.id != second.id
    assert (first.execution_count, second.execution_count) == (1, 2)
    assert [output.output_type for output in first.outputs] == ["stream", "execute_result"]
    assert first.outputs[0].text == "a\nb\n" and first.outputs[1].execution_count == 1
    assert first.metadata == {"tags": ["hide-input"]}


def test_a_cell_that_never_ran_stays_so():
    notebook = normalise(new_notebook(cells=[new_code_cell("1")]))
    assert notebook.cells[0].execution_count is None


def test_inserting_a_cell_renames_no_other():
    before = normalise(page())
    longer = page()
    longer.cells.insert(1, new_markdown_cell("New."))
    assert {cell.id for cell in before.cells} < {cell.id for cell in normalise(longer).cells}


def test_committed_pages_are_normal(root):
    pages = [path for path in (root / "book").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts]
    changed = []
    for path in pages:
        stored = path.read_text(encoding="utf-8")
        if nbformat.writes(normalise(nbformat.reads(stored, as_version=4))) + "\n" != stored:
            changed.append(path.name)
    assert not changed, "run: python book/_tools/normalise.py"


def test_the_command_writes_the_file(root, tmp_path):
    nbformat.write(page(), tmp_path / "page.ipynb")
    run = subprocess.run([sys.executable, root / "book/_tools/normalise.py", tmp_path], text=True, capture_output=True, check=True)
    assert "page.ipynb: normalised" in run.stdout
    again = subprocess.run([sys.executable, root / "book/_tools/normalise.py", tmp_path], text=True, capture_output=True, check=True)
    assert again.stdout == ""
