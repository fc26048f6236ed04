"""Refuse notebooks that are not fit to publish; each complaint names the page and the cell.

    python book/_tools/lint.py [FILE or FOLDER ...]

A page must have run from top to bottom, without an error, and its outputs must be stored with it: the site is built from them.
What it folds and where it links must work in JupyterLab too. The formulas of the training step keep to the notation (notation.py).
"""

import ast
import json
import re
import sys
from pathlib import Path

import notation

# A home folder, a temporary folder or a drive: a path that exists on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w./:-])(?:/(?:home|Users|root|tmp|work|mnt|private|opt|var)/[\w.-]+|[A-Z]:\\\\?[\w.-]+)")
# Only Sphinx knows its roles for links; elsewhere they lead nowhere or show as they are written.
SPHINX_ROLE = re.compile(r"\{(?:doc|term|ref|numref|any|cite(?::\w+)?)\}`[^`]*`")
# What worked.document_figures says where the numbers are not those of the page as it stands; a stored page has its own.
CHANGED = "The input was changed"
# All digits that a float has: the last ones are another processor's as often as not. (More than 20 are an exact value's.)
ALL_DIGITS = re.compile(r"(?<![\d.])\d+\.\d{14,20}(?!\d)")
# What each tag folds on the site, and by which names JupyterLab knows it. (GitHub and VS Code fold nothing.)
FOLDS = {"hide-cell": ("source_hidden", "outputs_hidden"), "hide-input": ("source_hidden",), "hide-output": ("outputs_hidden",)}


def folded(cell):
    """What the tags of a code cell fold, as Jupyter's own metadata: {"source_hidden": True, ...}."""
    tags = cell["metadata"].get("tags", []) if cell["cell_type"] == "code" else []
    return {name: True for name in ("outputs_hidden", "source_hidden") if any(name in FOLDS.get(tag, ()) for tag in tags)}


def notebooks(paths, suffix=".ipynb"):
    """The notebooks among and below the given paths, in order; or the files of another kind."""
    for path in map(Path, paths):
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (f for f in found if f.suffix == suffix and ".ipynb_checkpoints" not in f.parts)


def text(value):
    """A notebook's multi-line string, which may be stored as a list of lines."""
    return "".join(value) if isinstance(value, list) else str(value)


def shows_something(source):
    """Whether a cell must have an output: it prints, or it ends in a value that is not the result of a call."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return False
    if not body:
        return False
    expressions = [node.value for node in body if isinstance(node, ast.Expr)]
    if any(isinstance(e, ast.Call) and getattr(e.func, "id", "") == "print" and not e.keywords for e in expressions):
        return True
    last = body[-1]
    silent = source.rstrip().endswith(";") or not isinstance(last, ast.Expr)
    return not silent and not isinstance(last.value, ast.Call | ast.Await | ast.Constant)


def output_texts(output):
    """Everything in an output that a reader may see as text."""
    yield text(output.get("text", ""))
    for kind, value in output.get("data", {}).items():
        if kind.startswith("text/") or kind == "image/svg+xml":
            yield text(value)


def sphinx_roles(prose):
    return (f"has {role}, which leads nowhere in JupyterLab" for role in SPHINX_ROLE.findall(prose))


def complaints_of_cell(cell):
    """What is wrong with one cell, in words."""
    source = text(cell["source"])
    if path := MACHINE_PATH.search(source):
        yield f"names a path of one machine: {path[0]}"
    if cell["cell_type"] != "code":
        yield from sphinx_roles(source)
        return
    if cell["metadata"].get("jupyter", {}) != folded(cell):
        yield "is folded on the site, but not alike in JupyterLab: its metadata 'jupyter' must follow its tags"
    outputs = cell["outputs"]
    if not source.strip():
        yield "is empty"
    elif cell["execution_count"] is None:
        yield "was never run"
    elif not outputs and shows_something(source):
        yield "shows something, but its output is not stored"
    for output in outputs:
        if output["output_type"] == "error":
            yield f"stored an error: {output['ename']}: {output['evalue']}"
        if any(CHANGED in part for part in output_texts(output)):
            yield "compares figures that are not the page's own with a print"
        if digits := next(filter(None, map(ALL_DIGITS.search, output_texts(output))), None):
            yield f"prints all digits of a float, {digits[0]}, and the last are not the same on every processor"
        for part in output_texts(output):
            if path := MACHINE_PATH.search(part):
                yield f"has an output with a path of one machine: {path[0]}"
                break


def complaints(path):
    """What is wrong with one notebook: lines that name the page and the cell."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError):
        yield f"{path}: not a notebook"
        return
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        start = text(cell["source"]).strip().partition("\n")[0][:60]
        found = list(complaints_of_cell(cell))
        if cell["cell_type"] == "markdown" and path.parent.name == "step":
            found += notation.complaints(path.stem, text(cell["source"]))
        yield from (f"{path}, cell {number} ({start}): {complaint}" for complaint in found)
    if code and not any(cell["outputs"] for cell in code):
        yield f"{path}: not one output is stored"


def main(paths):
    paths = paths or ["book"]
    pages = list(notebooks(paths))
    found = [line for path in pages for line in complaints(path)]
    found += [f"{path}: {line}" for path in notebooks(paths, ".md") for line in sphinx_roles(path.read_text(encoding="utf-8"))]
    if found:
        sys.exit("\n".join([*found, "Run the page again, store its outputs and bring it into its form: make notebooks PAGES=book/PART/PAGE.ipynb"]))
    print(f"{len(pages)} notebooks: all ran, outputs stored")


if __name__ == "__main__":
    main(sys.argv[1:])
