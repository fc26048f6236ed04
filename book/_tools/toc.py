"""The table of contents as data: what tests walk over, and what `make lab` opens.

    python book/_tools/toc.py      writes contents.ipynb: links to the notebooks, for JupyterLab
"""

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def parts(root=ROOT):
    """[(caption, [page, ...]), ...] in reading order; the first part holds the root page and has no caption."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [("", [toc["root"]]), *((part["caption"], list(files_in(part))) for part in toc.get("parts", []))]


def files_in(node):
    for entry in (*node.get("chapters", []), *node.get("sections", [])):
        if "file" in entry:
            yield entry["file"]
        yield from files_in(entry)


def pages(root=ROOT):
    """The documents in reading order, without suffix."""
    return [page for _, files in parts(root) for page in files]


def source(page, root=ROOT):
    """The file of a page, a notebook or Markdown; None if there is none."""
    return next((file for suffix in (".ipynb", ".md") if (file := root / f"{page}{suffix}").is_file()), None)


def title(file):
    """The first heading of a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    heading = re.search(r"^# (.+)$", text, re.M)
    return heading[1] if heading else file.stem


def contents(root=ROOT):
    """The table of contents as Markdown, for JupyterLab, which does not know _toc.yml. Only what can be run is listed."""
    lines = ["# Contents", "", "Open a page, then **Run → Run All Cells**."]
    for caption, files in parts(root):
        notebooks = [file for file in (source(page, root) for page in files) if file and file.suffix == ".ipynb"]
        if notebooks:
            lines += ["", *([f"## {caption}", ""] if caption else [])]
            lines += [f"- [{title(file)}]({file.relative_to(root).as_posix()})" for file in notebooks]
    return "\n".join(lines) + "\n"


def contents_notebook(root=ROOT):
    """The contents as a notebook of one cell: JupyterLab shows it rendered, where it would open Markdown in an editor."""
    cell = {"cell_type": "markdown", "id": "contents", "metadata": {}, "source": contents(root)}
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False)


if __name__ == "__main__":
    (ROOT / "contents.ipynb").write_text(contents_notebook(), encoding="utf-8")
