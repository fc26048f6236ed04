"""Rewrite notebooks so that running a page again changes nothing but what its code changed.

    python book/_tools/normalise.py [FILE or FOLDER ...]

Cell ids follow from the cells' text, execution counts run from 1, streams are joined, and metadata that is about
the run (timings, versions, window settings) is dropped.
"""

import hashlib
import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).parent))
from lint import notebooks  # noqa: E402

NOTEBOOK_KEYS = {"book", "mystnb"}
CELL_KEYS = {"tags", "mystnb", "render"}
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def normalise(notebook):
    """Change a notebook in place into its one normal form; doing it twice changes nothing."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kept = {key: value for key, value in notebook.metadata.items() if key in NOTEBOOK_KEYS}
    notebook.metadata = nbformat.from_dict({**kept, **KERNEL})
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    seen = set()
    count = 0
    for cell in notebook.cells:
        cell.id = cell_id(cell, seen)
        cell.metadata = nbformat.from_dict({key: value for key, value in cell.metadata.items() if key in CELL_KEYS and value})
        if cell.cell_type == "code":
            count += 1
            normalise_run(cell, count)
    return notebook


def cell_id(cell, seen):
    """A short name made from the cell's kind and text: inserting a cell renames no other."""
    copy = 0
    while True:
        name = hashlib.sha256(f"{cell.cell_type}\n{cell.source}\n{copy}".encode()).hexdigest()[:8]
        if name not in seen:
            seen.add(name)
            return name
        copy += 1


def normalise_run(cell, count):
    """Number the cell's run, if it ran, and join neighbouring pieces of one stream."""
    if cell.execution_count is not None:
        cell.execution_count = count
    joined = []
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
        if "metadata" in output:
            output.metadata = nbformat.from_dict({})
    cell.outputs = joined


def main(paths):
    for path in notebooks(paths or ["book"]):
        before = path.read_text(encoding="utf-8")
        after = nbformat.writes(normalise(nbformat.reads(before, as_version=4))) + "\n"
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{path}: normalised")


if __name__ == "__main__":
    main(sys.argv[1:])
