"""The exercises as an assignment: what the grader is handed, and hand-ins, right and wrong, through nbgrader itself where it is installed."""

import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import assignment
import pytest

from byhand.check.exercises import EXERCISES

SAMPLE = ("attention", "loss", "linear_backward")
# What a hand-in may do to the names of the test, by accident or not.
TAMPERED = """
import numpy as np, byhand.check, byhand.check.exercise, byhand.check.measure
class Yes:
    def __eq__(self, other): return True
    __ne__ = __bool__ = lambda self, *other: True
    __array_priority__ = 1000
class Alike(np.ndarray):
    def __eq__(self, other): return np.array(True)
    __le__ = __lt__ = __sub__ = __rsub__ = __eq__
type = isinstance = attempt = verdict = print = lambda *a, **k: True
np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
byhand.check.attempt = byhand.check.exercise.attempt = lambda *a, **k: byhand.check.exercise.Verdict(True, "Right.")
byhand.check.exercise.Verdict.__bool__ = lambda self: True
"""


@pytest.fixture(scope="module")
def known():
    return assignment.exercises()


def graded(cells):
    """What the tests say when these cells run one after the other, in a process of its own."""
    program = (
        "import json, sys\nnames, said = {}, []\nfor name, cell in json.load(sys.stdin):\n    try:\n        exec(cell, names)\n"
        "        said.append([name, True, ''])\n    except Exception as error:\n        said.append([name, False, str(error)])\n"
        "print(json.dumps([one for one in said if one[0]]))"
    )
    run = subprocess.run([sys.executable, "-c", program], input=json.dumps(cells), text=True, capture_output=True, cwd=assignment.toc.ROOT)
    assert run.returncode == 0, run.stderr
    return {name: (right, said) for name, right, said in json.loads(run.stdout.splitlines()[-1])}


def cells_of(exercise, cell):
    test = assignment.TEST.format(function=exercise.function, name=exercise.name, count=1)
    return [["", "import numpy as np"], ["", cell], [exercise.name, test]]


def wrong_answer(exercise):
    """The page's wrong answer, under the name that the task asks for."""
    return re.sub(r"\bwrong_\w+(?=\()", exercise.function, exercise.wrong.partition("\n\nverdict = ")[0])


def test_every_exercise_is_handed_out_with_a_right_answer_that_passes_and_a_wrong_one_that_fails(known):
    assert known.keys() == EXERCISES.keys()
    right = graded([cell for e in known.values() for cell in cells_of(e, e.head + e.answer)])
    wrong = graded([cell for e in known.values() for cell in cells_of(e, wrong_answer(e))])
    stubs = graded([cell for e in known.values() for cell in cells_of(e, f"{e.head}    ...")])
    assert right.keys() == wrong.keys() == stubs.keys() == known.keys()
    assert {said for fine, said in right.values() if not fine} == set()
    assert [name for name, (fine, said) in wrong.items() if fine or not said.startswith("Not yet: ")] == []
    assert {(fine, "returns nothing yet" in said) for fine, said in stubs.values()} == {(False, True)}


def test_what_changes_the_names_of_the_test_does_not_pass(known):
    for answer in ("return Yes()", "return np.zeros((3, 3)).view(Alike)", "return (Yes(), Yes(), Yes())"):
        cells = [cell for name in SAMPLE for cell in cells_of(known[name], f"{known[name].head}    {answer}")]
        assert {fine for fine, _ in graded([["", TAMPERED], *cells]).values()} == {False}
    assert {fine for fine, _ in graded([["", TAMPERED], *cells_of(known["loss"], known["loss"].head + known["loss"].answer)]).values()} == {True}


@pytest.mark.parametrize("verdict, named", [
    ("Not yet: this is what comes out when 1/√d_k is forgotten.", ["1/√d_k is forgotten"]),
    ("Not yet: dx is what comes out when W is not transposed; dw is what comes out when dw is transposed.", ["W is not transposed", "dw is transposed"]),
    ("Not yet: this is what comes out when two things are wrong: γ is forgotten; and β is forgotten.", ["γ is forgotten", "β is forgotten"]),
    ("Not yet: NameError in your line `x`: name 'x' is not defined", ["it does not run"]),
    ("Not yet: KeyboardInterrupt", ["another mistake"]),
    ("Not yet: the shape is (2,); it must be (3,).", ["another mistake"]),
    ("my_loss returns nothing yet: write it, run the cell again.", ["not written"]),
])  # fmt: skip
def test_the_mistakes_of_a_verdict(verdict, named):
    assert assignment.mistakes(verdict) == named


def test_an_exercise_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="names held 'dropout'; each must be one of embedding, "):
        assignment.write(tmp_path, ["dropout"])


# ---- through the grader itself -----------------------------------------------------------------------------


def nbgrader(folder, *arguments):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run([sys.executable, "-m", "nbgrader", *arguments], cwd=folder, text=True, capture_output=True, env=environment)
    assert run.returncode == 0, run.stderr


def hand_in(folder, student, change):
    """The released copy with its cells changed by change(cells by grade_id)."""
    released = json.loads((folder / "release/exercises/exercises.ipynb").read_text(encoding="utf-8"))
    cells = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in released["cells"]}
    change(cells)
    released["cells"] = list(cells.values())
    file = folder / "submitted" / student / "exercises/exercises.ipynb"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(released), encoding="utf-8")


def course(folder, known, names):
    """{student: points}, and the count, of one right hand-in and three wrong ones."""
    assignment.write(folder, names)
    nbgrader(folder, "generate_assignment", "exercises", "--create")

    def right(cells):
        for name in names:
            cells[f"{name}-answer"]["source"] = known[name].head + known[name].answer

    def wrong(cells):
        for name in names:
            cells[f"{name}-answer"]["source"] = wrong_answer(known[name])

    def tampered(cells):
        cells["names"]["source"] = "import numpy as np"
        for name in names:
            cells[f"{name}-answer"]["source"] = f"{TAMPERED}\n{known[name].head}    return Yes()"
            cells[name]["source"] = "assert True"
        del cells[names[-1]]

    def broken(cells):
        right(cells)
        cells[f"{names[0]}-answer"]["source"] = known[names[0]].head + "    return nowhere"
        cells[f"{names[1]}-answer"]["source"] = "x = 1 +"

    for student, change in (("ada", right), ("bob", wrong), ("cy", tampered), ("dan", broken), ("eve", lambda cells: None)):
        hand_in(folder, student, change)
    nbgrader(folder, "autograde", "exercises")
    nbgrader(folder, "export", "--to", str(folder / "grades.csv"))
    with open(folder / "grades.csv", encoding="utf-8") as file:
        points = {row["student_id"]: (float(row["score"]), float(row["max_score"])) for row in csv.DictReader(file)}
    return points, assignment.count(folder)


@pytest.mark.skipif(not importlib.util.find_spec("nbgrader"), reason="nbgrader is not installed: pip install 'byhand[grader]'")
@pytest.mark.parametrize("names", [SAMPLE, pytest.param(tuple(EXERCISES), marks=pytest.mark.slow)], ids=["three", "all"])
def test_right_and_wrong_hand_ins(tmp_path, known, names):
    points, found = course(tmp_path / "here", known, names)
    n = len(names)
    assert points == {"ada": (n, n), "bob": (0, n), "cy": (0, n), "dan": (n - 2, n), "eve": (0, n)}
    released = (tmp_path / "here/release/exercises/exercises.ipynb").read_text(encoding="utf-8")
    for name in names:  # no answer goes out, and the test is the one that grades
        lines = [line.strip() for line in known[name].answer.splitlines()]
        assert not any(json.dumps(line)[1:-1] in released for line in lines if line.startswith("return "))
    counted = {(exercise, mistake): n for n, exercise, mistake in found}
    assert all(counted[name, "not written"] == 1 for name in names)
    if names == SAMPLE:
        assert counted["attention", "the softmax runs over the queries"] == 1 == counted["attention", "it does not run"]
    if names != SAMPLE:
        assert course(tmp_path / "there/folder", known, names) == (points, found)  # another run, in another folder
