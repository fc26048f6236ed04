"""Rewrite notebooks so that running a page again changes nothing but what its code changed.

    python book/_tools/normalise.py [FILE or FOLDER ...]

Cell ids follow from the cells' text, execution counts run from 1, streams are joined, and metadata that is about
the run (timings, versions, window settings) is dropped.

What only Sphinx would understand is written so that JupyterLab, GitHub and VS Code show it too: Sphinx's roles become ordinary links
(links.py), what the hide-... tags fold is folded in JupyterLab as well, and the page's place in the training step is a picture under its title.
"""

import functools
import hashlib
import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "book/_tools"), str(ROOT / "book/_ext")]
import links  # noqa: E402
import place  # noqa: E402
from lint import folded, notebooks  # noqa: E402

NOTEBOOK_KEYS = {"book", "mystnb"}
CELL_KEYS = {"tags", "mystnb", "render"}
MAP_WORDS = "Place in the training step"
MAP_PICTURE = re.compile(rf"^!\[{MAP_WORDS}: [^\]]*\]\([^)]*\)\n*", re.M)
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def normalise(notebook, page=Path("page.ipynb")):
    """Change the notebook of a page in place into its one normal form; doing it twice changes nothing."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kept = {key: value for key, value in notebook.metadata.items() if key in NOTEBOOK_KEYS}
    notebook.metadata = nbformat.from_dict({**kept, **KERNEL})
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = links.plain(cell.source, page)
    name_map(notebook, page)
    seen = set()
    count = 0
    for cell in notebook.cells:
        cell.id = cell_id(cell, seen)
        cell.metadata = nbformat.from_dict({key: value for key, value in cell.metadata.items() if key in CELL_KEYS and value})
        if hidden := folded(cell):
            cell.metadata["jupyter"] = nbformat.from_dict(hidden)
        if cell.cell_type == "markdown" and cell.source.startswith("## Proof"):  # closed in JupyterLab, as _ext/proof.py closes it in the site
            cell.metadata["jp-MarkdownHeadingCollapsed"] = True
        if cell.cell_type == "code":
            count += 1
            normalise_run(cell, count)
    return notebook


@functools.cache
def step():
    return place.load(ROOT)


def document(page):
    """How the map and the table of contents call a page: its file from the book's root, without suffix."""
    page = page.resolve()
    return page.relative_to(ROOT).with_suffix("").as_posix() if page.is_relative_to(ROOT) else ""


def map_file(name):
    """Where the picture of a page's place is."""
    return ROOT / place.PICTURES / f"{name.removeprefix('book/').replace('/', '-')}.svg"


def name_map(notebook, page):
    """Put the picture of the page's place in the training step under its title, and no other picture of a place."""
    name = document(page)
    for cell in notebook.cells[:1]:
        cell.source = MAP_PICTURE.sub("", cell.source)
        if name in step().pages:
            picture = f"![{MAP_WORDS}: {step().caption(step().pages[name])}]({links.relative(map_file(name), page)})"
            title, _, rest = cell.source.partition("\n")
            cell.source = "\n\n".join(filter(None, [title, picture, rest.strip("\n")]))


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
    paths = paths or ["book"]
    for path in (*notebooks(paths), *notebooks(paths, ".md")):
        before = path.read_text(encoding="utf-8")
        if path.suffix == ".md":
            after = links.plain(before, path)
        else:
            after = nbformat.writes(normalise(nbformat.reads(before, as_version=4), path)) + "\n"
            draw_map(document(path))
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{path}: normalised")


def draw_map(name):
    if name in step().pages:
        file = map_file(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(place.draw_picture(step(), name), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
