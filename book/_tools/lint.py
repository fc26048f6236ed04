"""Refuse notebooks that are not fit to publish; each complaint names the page and the cell.

    python book/_tools/lint.py [FILE or FOLDER ...]

A page must have run from top to bottom, without an error, and its outputs must be stored with it: the site is built from them.
"""

import ast
import json
import re
import sys
from pathlib import Path

# A home folder, a temporary folder or a drive: a path that exists on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w./:-])(?:/(?:home|Users|root|tmp|work|mnt|private|opt|var)/[\w.-]+|[A-Z]:\\\\?[\w.-]+)")


def notebooks(paths):
    """The notebooks among and below the given paths, in order."""
    for path in map(Path, paths):
        found = sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        yield from (f for f in found if ".ipynb_checkpoints" not in f.parts)


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


def complaints_of_cell(cell):
    """What is wrong with one cell, in words."""
    source = text(cell["source"])
    if path := MACHINE_PATH.search(source):
        yield f"names a path of one machine: {path[0]}"
    if cell["cell_type"] != "code":
        return
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
        for complaint in complaints_of_cell(cell):
            yield f"{path}, cell {number} ({start}): {complaint}"
    if code and not any(cell["outputs"] for cell in code):
        yield f"{path}: not one output is stored"


def main(paths):
    pages = list(notebooks(paths or ["book"]))
    found = [line for path in pages for line in complaints(path)]
    if found:
        sys.exit("\n".join([*found, "Run the page again and store its outputs: make notebooks PAGES=book/PART/PAGE.ipynb"]))
    print(f"{len(pages)} notebooks: all ran, outputs stored")


if __name__ == "__main__":
    main(sys.argv[1:])
