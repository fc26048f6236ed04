"""The kill matrix: every planted mistake is caught by the checks that the tests and the pages run."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from ledger import kill
from ledger.parts import PARTS

from byhand.check import agreement
from byhand.check.mistakes import MISTAKES, Change, Mistake
from byhand.numpy import linear, norm, step

BOOK = Path(__file__).parents[2] / "book"


@pytest.fixture(scope="module", params=["a tenth", pytest.param("all", marks=pytest.mark.slow)])
def matrix(request):
    return kill.kill_matrix(list(MISTAKES.values())[:: 10 if request.param == "a tenth" else 1], train=False)


def test_there_are_enough_of_them_and_each_says_what_it_is():
    assert sum(mistake.kind == "backward" for mistake in MISTAKES.values()) >= 60 and len(MISTAKES) >= 130
    assert {mistake.part for mistake in MISTAKES.values()} == {"step", "stack", *PARTS}
    assert {mistake.kind for mistake in MISTAKES.values()} == {"backward", "loss", "optimizer", "forward"}
    assert all(mistake.why and mistake.changes for mistake in MISTAKES.values())
    pages = {path.relative_to(BOOK).with_suffix("").as_posix() for path in BOOK.rglob("*.ipynb")}
    assert {mistake.page for mistake in MISTAKES.values()} <= pages


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=lambda mistake: mistake.name)
def test_its_lines_are_in_the_source_and_it_leaves_nothing_behind(mistake):
    """Red after a change to byhand.numpy means: bring the mistake's lines in byhand/check/mistakes.py up to date."""
    modules = [module for name, module in sys.modules.items() if name.startswith("byhand.numpy")]
    before = [dict(vars(module)) for module in modules]
    changed = [change.function for change in mistake.changes]
    with mistake.planted():
        assert any(dict(vars(module)) != names for module, names in zip(modules, before))
    assert [dict(vars(module)) for module in modules] == before
    assert all(inspect.isfunction(function) for function in changed)
    diff = mistake.diff().splitlines()
    assert diff[0].startswith("numpy.") and {line[:2] for line in diff if not line.startswith("numpy.")} == {"− ", "+ "}


def test_every_mistake_is_caught(matrix):
    matrix.require()
    assert all(row.holds for row in matrix.rows)


@pytest.mark.parametrize("witness", ["PyTorch", "SymPy"])
def test_two_witnesses_need_no_help(matrix, witness):
    assert [row.name for row in matrix.rows if row.part not in PARTS and not row.seen[witness]] == []


def test_central_differences_catch_every_backward_that_does_not_fit_its_forward_and_no_other(matrix):
    for row in matrix.rows:
        if row.kind in ("backward", "loss"):
            assert row.seen["central differences"] != ""
        # forward and backward wrong in the same way: only another implementation can tell, or a changed future
        if row.kind == "forward" and row.part not in PARTS and row.name != "the mask applied after the softmax":
            assert row.seen["central differences"] == "" and row.seen["PyTorch"]
    leaks = {"cross-attention wired the wrong way round", "the causal mask forgotten", "the padding mask forgotten in cross-attention"}
    assert all(row.seen["future and padding"] for row in matrix.rows if row.name in leaks)


def test_the_stored_matrix_is_the_one_computed(matrix):
    """Red means: run `make kill-matrix`, look at what has changed, and refresh the page in the appendix."""
    assert [row.name for row in kill.stored().rows] == list(MISTAKES)
    for row, old in ((row, kill.stored()[row.name]) for row in matrix.rows):
        assert (row.name, row.kind, row.hidden, row.trained_on) == (old.name, old.kind, old.hidden, old.trained_on)
        first = [{name: words and words.partition(":")[0] for name, words in entry.seen.items()} for entry in (row, old)]
        assert first[0] == first[1]


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)], ids=["a sample", "all"])
def test_what_learns_in_spite_of_its_mistake_is_as_stored(every):
    some = slice(every - 1, None, every)
    rows, stored = kill.kill_matrix(list(MISTAKES.values())[some], witnesses={}).rows, kill.stored().rows[some]
    assert [(row.name, row.trained_on, row.learns) for row in rows] == [(row.name, row.trained_on, row.learns) for row in stored]
    assert {row.learns for row in rows} >= {True, False}


def test_without_a_mistake_every_witness_is_silent():
    nothing = Mistake("nothing", "the line as it is", (Change(linear.linear_backward, "grads = {", "grads = {"),))
    row = kill.kill_matrix([nothing]).rows[0]
    assert not row.holds and set(row.seen.values()) == {"", None} and row.verdict == "missed by all"
    assert row.learns and row.above_floor < 0.03


def test_a_planted_mistake_is_everywhere_and_goes_also_after_an_error():
    case, right = kill.uneven(), step.run(kill.uneven()).gradients.params
    with pytest.raises(KeyError), MISTAKES["ReLU's gate forgotten"].planted():
        assert agreement(step.run(case).gradients.params, right) > 1e-3
        raise KeyError
    assert agreement(step.run(case).gradients.params, right) == 0


def test_a_line_that_is_not_there_or_more_than_once():
    for right in ("no such line", "dnormalised"):
        mistake = Mistake("x", "y", (Change(norm.layer_norm_backward, right, ""),))
        with pytest.raises(ValueError, match="one must have it, and once, for it to be changed"), mistake.planted():
            pass


def test_the_matrix_can_be_read():
    text = repr(kill.stored())
    assert text.count("\n") == len(MISTAKES) + 1 and "named" in text and "on `document` alone" in text and "γ outside the two means" in text
    assert "<table" in kill.stored()._repr_mimebundle_()["text/html"]


def test_the_uneven_case_hides_nothing():
    case = kill.uneven()
    config = case.config
    assert config.n_layers == 2 and config.d_k != config.d_v and len({config.d_model, config.d_ff, config.target_vocab, config.d_k, config.d_v}) == 5
    assert (case.source_lengths < case.source.shape[1]).any() and (case.target_lengths < case.targets.shape[1]).any()
    assert np.unique(case.source[0]).size < case.source.shape[1]


def test_check_mine_names_what_the_witnesses_notice():
    """The stored column; test_mine.py asks again."""
    asked = [row for row in kill.stored().rows if row.named is not None]
    assert len(asked) == sum(mistake.part not in PARTS for mistake in MISTAKES.values()) >= 100
    assert sum(bool(row.named) for row in asked) >= len(asked) - 3


@pytest.mark.parametrize("part", PARTS)
def test_what_stands_around_the_step_is_right_for_every_witness(part):
    assert {name: look() for name, look in PARTS[part].items()} == dict.fromkeys(PARTS[part], "")
