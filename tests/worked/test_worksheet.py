"""Worksheets: fit problems only, each number found more than once, and the same in every format."""

import html
import json
import re
import subprocess
import sys
from dataclasses import replace

import nbformat
import numpy as np
import pytest

from byhand.__main__ import main
from byhand.check.exercises import EXERCISES
from byhand.check.mistakes import MISTAKES
from byhand.worked import problems, worksheet
from byhand.worked.problems import BLANKS, MINUTES, TOPICS, problem, unfit
from byhand.worked.worksheet import Worksheet, whole_step, write

SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]


@pytest.fixture(params=TOPICS, scope="module")
def sheet(request):
    return Worksheet(request.param, 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_fit_problem(topic, seed):
    found = problem(topic, seed)
    assert found.blanks <= BLANKS and 15 <= found.minutes <= MINUTES
    assert not unfit(TOPICS[topic], found.given, found.rows, found.slips)
    for row in found.rows:
        assert set(found.witnesses[row.name]) - {"PyTorch"}, f"without PyTorch nobody finds {row.name}"
        assert "PyTorch" in found.witnesses[row.name]
    assert sum("central differences" in who for who in found.witnesses.values()) >= 1
    assert len(found.slips) >= 4 and all(any(slip.name in exercise.mistakes for exercise in EXERCISES.values()) for slip in found.slips)


@pytest.mark.parametrize("topic, mistake", [
    ("attention", "the mask applied after the softmax"), ("norm", "γ outside the two means"), ("loss", "label smoothing forgotten in the gradient"),
    ("output-layer", "weight gradient averaged over the rows"), ("softmax-backward", "softmax backward without its sum"), ("adam", "Adam: t stays at 1"),
    ("step", "the keys' path"),
])  # fmt: skip
def test_no_sheet_where_a_witness_finds_another_number(topic, mistake, tmp_path, monkeypatch):
    if topic == "attention":  # its mask is not used here: the softmax itself is spoilt
        monkeypatch.setattr(problems.bn.attention, "softmax", lambda s, *more: (np.exp(s), None))
        with pytest.raises(ArithmeticError, match="by hand, .* by the package"):
            write(topic, 1, tmp_path)
    else:
        mistake = next(known for known in MISTAKES.values() if mistake in known.name)
        with mistake.planted(), pytest.raises(ArithmeticError, match="by hand"):
            write(topic, 1, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_row_that_nobody_else_finds():
    rows = [*TOPICS["adam"].work(problem("adam", 1).given, lambda value, digits: value)]
    with pytest.raises(ArithmeticError, match="ŵ was found by hand alone"):
        problems.witnessed(TOPICS["adam"], problem("adam", 1).given, [replace(rows[-1], name="ŵ")])


@pytest.mark.parametrize("topic, change, reason", [
    ("attention", {"Q": np.full((2, 4), 3.0)}, "saturates"),
    ("loss", {"z": np.array([6.0, 0.0, 1.0, 2.0])}, "saturates"),
    ("norm", {"x": np.array([1.0, 1.0, 1.0, 2.0])}, "near a kink"),
    ("adam", {"w_0": 0.1, "c": 0.0}, "near a kink"),
    ("output-layer", {"dz": np.array([[0.5, 1.0], [0.5, 1.0], [-1.0, 1.0]])}, "vanishes"),
    ("output-layer", {"x": np.full((3, 2), 1 / 3)}, "grows long"),
    ("output-layer", {"W": np.full((2, 2), 90.0)}, "grows long"),
    ("softmax-backward", {"da": np.array([9.0, -8.0, 7.0, 9.5])}, "rounding spoils it"),
    ("norm", {"γ": np.full(4, 2.0)}, "a slip that does not show"),
    ("output-layer", {"W": np.array([[1.0, 2.0], [2.0, 0.5]])}, "a slip that does not show"),
])  # fmt: skip
def test_what_is_rejected(topic, change, reason):
    chosen, given = TOPICS[topic], problem(topic, 1).given | change
    rows, slips = chosen.work(given, lambda value, digits: value), chosen.slips(given)
    assert unfit(chosen, given, rows, slips) == reason


def test_the_sheet_asks_and_the_solution_answers(sheet):
    blank, solved = sheet.html(), sheet.html(solution=True)
    cells = [re.findall(r"<table class=b>.*?</table>", page) for page in (blank, solved)]
    assert sum(table.count("<td></td>") for table in cells[0]) == sheet.problem.blanks == sum(table.count("<td>") for table in cells[1])
    assert "<td></td>" not in solved and "Usual slips" not in blank
    for slip in sheet.problem.slips:
        assert html.escape(slip.name) in solved and html.escape(slip.name) not in blank
        assert slip.name in sheet.markdown(solution=True) and slip.name not in sheet.markdown()
    assert "http" not in blank + solved and "<script" not in blank + solved  # it needs nothing else
    assert sheet.markdown().count(worksheet.BLANK) == sheet.problem.blanks + 3  # and three for the name
    last = worksheet._cells(sheet.problem.rows[-1].values, 3)[0][-1]
    assert last in sheet.markdown(solution=True)


def test_the_notebook_has_a_field_for_each_blank(sheet):
    notebook = nbformat.reads(sheet.notebook(), as_version=4)
    nbformat.validate(notebook)
    outputs = [cell.outputs[0].data["text/html"] for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert sum(shown.count('class="byhand-experiment by-hand"') for shown in outputs) == sheet.problem.blanks
    for row in sheet.problem.rows:
        fields = sheet.fields(row.name).fields
        np.testing.assert_array_equal([field.answer for field in fields], row.values.ravel())
        assert {field.digits for field in fields} == {row.digits}
        told = {slip for field in fields for slip in field.slips}
        assert told == {slip.name for slip in sheet.problem.slips if slip.row == row.name}
    names = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(cell.source.replace("sheet.fields", "shown = sheet.fields"), names)
    assert repr(names["shown"]) == repr(sheet.fields(sheet.problem.rows[-1].name))
    nbformat.validate(nbformat.reads(sheet.notebook(solution=True), as_version=4))
    with pytest.raises(ValueError, match="name was 'nothing'; it must be one of"):
        sheet.fields("nothing")


def test_the_same_seed_gives_the_same_sheet(tmp_path):
    one, again, other = (write("attention", seed, tmp_path / folder) for folder, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert [path.name for path in one] == [f"attention-1{end}.{kind}" for end in ("", "-solution") for kind in ("html", "md", "ipynb")]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in again]
    assert all(a.read_bytes() != b.read_bytes() for a, b in zip(one, other))


def test_the_whole_step(tmp_path):
    page, text, notebook = write("step", 1, tmp_path)
    assert "Gradients of all 428 weights: also found by central differences and by PyTorch." in page.read_text("utf-8")
    assert all(name in text.read_text("utf-8") for name in whole_step(1).params)
    nbformat.validate(nbformat.reads(notebook.read_text("utf-8"), as_version=4))
    assert not np.array_equal(whole_step(1).params["output.w"], whole_step(2).params["output.w"])


def test_the_command(tmp_path, capsys):
    assert main(["worksheet", "--topic", "loss", "--seed", "4", "--folder", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(tmp_path / "new/loss-4.html")
    for arguments, words in ((["--topic", "dropout", "--seed", "1"], "topic was 'dropout'"), (["--topic", "step", "--seed", "-1"], "seed was -1")):
        assert main(["worksheet", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_without_pytorch():
    code = """
import sys; sys.modules["torch"] = None
import importlib.util; find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
from byhand.worked.worksheet import Worksheet
print(*sorted({who for found in Worksheet("adam", 1).problem.witnesses.values() for who in found}))
"""
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert run.stdout.strip() == "central differences the package", run.stderr


def test_a_seed_that_has_no_fit_draw(monkeypatch):
    monkeypatch.setitem(TOPICS, "loss", replace(TOPICS["loss"], shares=("dz",)))
    monkeypatch.setattr(problems, "TRIES", 3)
    with pytest.raises(ValueError, match="seed was 0; none of its first 3 draws makes a fit problem on loss: {'saturates': 3}"):
        problem("loss", 0)


def test_json_keeps_no_numpy():
    assert json.loads(Worksheet("adam", 1).notebook())["nbformat"] == 4
