"""The pages' exercises as an assignment for nbgrader, and which mistake was made how often.

    python book/_tools/assignment.py write FOLDER [EXERCISE ...]   a course folder: nbgrader_config.py, source/exercises/exercises.ipynb
    python book/_tools/assignment.py count FOLDER                  what the verdicts in FOLDER/autograded name

Between the two, in FOLDER: `nbgrader generate_assignment exercises` writes release/, a copy without answers; hand-ins come into
submitted/NAME/exercises/; `nbgrader autograde exercises` puts the tests back as they were and runs them. An exercise gives one point; a test that
fails says what the page would have said. nbgrader: pip install 'byhand[grader]'.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import toc

CONFIG = """c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "one-training-step"
c.ClearSolutions.code_stub = {"python": "...  # your code"}
c.OverwriteCells.add_missing_cells = True
c.Execute.timeout = 60
"""
# The checker is read again from its file, so that what a notebook did to its names no longer counts.
TEST = """import importlib

import byhand.check.exercise

verdict = importlib.reload(byhand.check.exercise).attempt({function}, "{name}")
assert verdict, verdict
f"{{verdict}} ({count} sets of arguments were compared.)"
"""


class Exercise(NamedTuple):
    """From a page: where it stands, the task, the head of the function, a right answer's body, and the page's wrong answer as a whole cell."""

    name: str
    page: str
    task: str
    function: str
    head: str
    answer: str
    wrong: str


def exercises(root=toc.ROOT):
    """{name: Exercise} of every page, in reading order: a cell that is open, and after it a right and a wrong answer, folded."""
    found = {}
    for page in toc.pages(root):
        if (file := toc.source(page, root)) and file.suffix == ".ipynb":
            cells = [(cell, "".join(cell["source"])) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
            for k, (cell, source) in enumerate(cells):
                asked = re.search(r'^attempt\((my_\w+), "(\w+)"\)', source, re.M)
                if asked and "hide-cell" not in cell["metadata"].get("tags", []):
                    function, name = asked.groups()
                    head, answer = re.match(r"(def .*?:\n)(.*?)\n+verdict = ", cells[k + 2][1], re.S).groups()
                    task = re.sub(r"^## .*\n*", "", cells[k - 1][1])
                    found[name] = Exercise(name, f"{toc.title(file)} ({page})", task, function, head, answer, cells[k + 4][1])
    return found


def notebook(chosen):
    """The source version: for each exercise its task, the answer between marks, and a locked test."""
    from byhand.check.exercises import EXERCISES

    cells = [_cell("intro", "# Exercises\n\nWrite each function, and run the cell under it: it says whether you are right, or which mistake it looks like.")]
    cells.append(_cell("names", "import numpy as np", "code"))
    for e in chosen:
        cells.append(_cell(f"{e.name}-task", f"## {e.page}\n\n{e.task}".strip()))
        cells.append(_cell(f"{e.name}-answer", f"{e.head}    ### BEGIN SOLUTION\n{e.answer}\n    ### END SOLUTION", "code", solution=True, locked=False))
        test = TEST.format(function=e.function, name=e.name, count=len(EXERCISES[e.name].samples))
        cells.append(_cell(e.name, test.strip(), "code", grade=True, points=1))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _cell(name, source, kind="markdown", **more):
    grader = {"schema_version": 3, "grade_id": name, "cell_type": kind, "task": False, "grade": False, "solution": False, "locked": True} | more
    extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"id": name.replace("_", "-"), "cell_type": kind, "metadata": {"nbgrader": grader}, "source": source, **extra}


def write(folder, names=()):
    """The course folder, with every exercise or those that are named. Raises ValueError for a name that is no exercise's."""
    known = exercises()
    for name in names:
        if name not in known:
            raise ValueError(f"names held {name!r}; each must be one of {', '.join(known)}")
    file = Path(folder, "source/exercises/exercises.ipynb")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(notebook([e for e in known.values() if not names or e.name in names]), ensure_ascii=False, indent=1), encoding="utf-8")
    Path(folder, "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")


def mistakes(verdict):
    """The known mistakes that a verdict names, each by its name; one that it cannot name, or code that does not run, as such."""
    if named := re.findall(r"what comes out when (.*?)(?=; \w+ is what comes out|\.?$)", verdict):
        return [one for text in named for one in text.removeprefix("two things are wrong: ").split("; and ")]
    if "returns nothing yet" in verdict:
        return ["not written"]
    return ["it does not run" if re.match(r"Not yet: \w+(Error|Exception)\b", verdict) else "another mistake"]


def count(folder):
    """[(how often, exercise, mistake)], the most frequent first, from the verdicts in autograded/, each student's once."""
    found = Counter()
    for file in sorted(Path(folder, "autograded").glob("*/*/*.ipynb")):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            grader = cell["metadata"].get("nbgrader", {})
            for output in cell.get("outputs", []) if grader.get("grade") else []:
                if output["output_type"] == "error":
                    said = output["evalue"] if output["ename"] == "AssertionError" else f"Not yet: {output['ename']}"
                    found.update((grader["grade_id"], mistake) for mistake in set(mistakes(said)))
    return sorted(((n, *what) for what, n in found.items()), key=lambda row: (-row[0], row[1:]))


def main(command, folder, *names):
    if command == "write":
        write(folder, names)
    elif command == "count":
        print("\n".join(f"{n:4}  {exercise}: {mistake}" for n, exercise, mistake in count(folder)) or "no test failed")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) > 2 else sys.exit(__doc__)
