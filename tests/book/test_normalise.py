"""The normal form of a notebook depends on its cells alone, and every committed page is in it."""

import subprocess
import sys

import links
import nbformat
import place
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from normalise import map_file, normalise, step


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
    assert first.metadata == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}


@pytest.mark.parametrize("tag, hidden", {"hide-cell": {"source", "outputs"}, "hide-output": {"outputs"}, "remove-output": set()}.items())
def test_what_a_tag_folds_is_folded_in_jupyterlab(tag, hidden):
    cell = new_code_cell("1", metadata={"tags": [tag], "jupyter": {"source_hidden": False, "outputs_hidden": True}})
    (folded,) = normalise(new_notebook(cells=[cell])).cells
    assert folded.metadata.get("jupyter", {}) == {f"{part}_hidden": True for part in hidden}


def test_roles_become_links(root):
    source = "# T\n\n{doc}`../step/14-nudge`, {doc}`the\nloss <../step/13-loss>` {cite:p}`ba2016, zhang2019`; ({cite}`su2021`), {term}`cross-attention`"
    page = root / "book/stack/a-page.ipynb"
    (cell,) = normalise(new_notebook(cells=[new_markdown_cell(source)]), page).cells
    work = "../appendix/bibliography.md#"
    assert cell.source.partition("\n\n")[2] == (
        "[Nudge one weight](../step/14-nudge.ipynb), [the\nloss](../step/13-loss.ipynb) "
        f"([Ba et al. 2016]({work}ba-et-al-2016), [Zhang and Sennrich 2019]({work}zhang-and-sennrich-2019)); "
        f"([Su et al. 2021]({work}su-et-al-2021)), [cross-attention](../appendix/glossary.md#term-cross-attention)"
    )


@pytest.mark.parametrize("role, complaint", {"{doc}`99-gone`": "99-gone` names no page", "{cite}`nobody1900`": "has no 'nobody1900'"}.items())
def test_a_role_that_names_nothing_is_refused(root, role, complaint):
    with pytest.raises(ValueError, match=complaint):
        links.plain(role, root / "book/step/a-page.ipynb")


def test_a_page_on_the_map_shows_its_place(root):
    stale = "# T\n\n![Place in the training step: Nowhere](../maps/old.svg)\n\nWords."
    cells = [new_markdown_cell(stale)]
    on_the_map = normalise(new_notebook(cells=cells), root / "book/step/13-loss.ipynb").cells[0].source
    assert on_the_map == "# T\n\n![Place in the training step: Forward, decoder: loss](../maps/step-13-loss.svg)\n\nWords."
    assert normalise(new_notebook(cells=cells), root / "book/workshop/compare.ipynb").cells[0].source == "# T\n\nWords."


def test_bibliography_and_maps_are_current(root):
    assert links.BIBLIOGRAPHY.read_text(encoding="utf-8") == links.bibliography(), "run: python book/_tools/links.py"
    drawn = {map_file(name): place.draw_picture(step(), name) for name in step().pages}
    stored = {file: file.read_text(encoding="utf-8") for file in (root / place.PICTURES).iterdir()}
    assert stored == drawn, "run: python book/_tools/normalise.py, and remove the picture of a page that has left the map"


def test_labels_of_works_differ():
    assert len(set(map(links.anchor, links.labels().values()))) == len(links.references().entries)


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
        if nbformat.writes(normalise(nbformat.reads(stored, as_version=4), path)) + "\n" != stored:
            changed.append(path.name)
    assert not changed, "run: python book/_tools/normalise.py"


def test_the_command_writes_the_file(root, tmp_path):
    nbformat.write(page(), tmp_path / "page.ipynb")
    run = subprocess.run([sys.executable, root / "book/_tools/normalise.py", tmp_path], text=True, capture_output=True, check=True)
    assert "page.ipynb: normalised" in run.stdout
    again = subprocess.run([sys.executable, root / "book/_tools/normalise.py", tmp_path], text=True, capture_output=True, check=True)
    assert again.stdout == ""


def test_the_proof_is_a_collapsed_heading_in_jupyterlab():
    notebook = normalise(new_notebook(cells=[new_markdown_cell("## Proof"), new_markdown_cell("### Derived")]))
    assert [cell.metadata for cell in notebook.cells] == [{"jp-MarkdownHeadingCollapsed": True}, {}]
