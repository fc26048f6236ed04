"""Held-out requests: the share in order, failures by category, latency within a budget, and no case worse than before."""

import time

import numpy as np
import pytest

from byhand import check

CASES = [{"request": [a, b], "expected": [a + b]} for a in range(3) for b in range(4)]


def _add(request):
    return [sum(request)]


def _judge(case, response):
    right = case["expected"][0]
    return "" if response == [right] else "too small" if response[0] < right else "too large"


def test_all_in_order():
    report = check.task_evaluation(_add, CASES).require()
    assert report.share == 1 and report.title == "Task: 12 of 12 requests in order" and not report.categories
    assert report["in order"].verdict == "12 of 12, 100% needed"


def test_failures_have_categories_with_an_example_each():
    report = check.task_evaluation(lambda r: [r[0] if r[1] > 1 else r[0] + r[1] + (r[0] == 2)], CASES, _judge, at_least=0.5)
    assert report.categories == {"too small": 6, "too large": 2} and not report
    assert report["failure: too small"].where == "[0, 2] → [0]" and report["failure: too small"].verdict == "6 of 12"
    assert [row.name for row in report.rows] == ["in order", "failure: too small", "failure: too large"]
    assert "[0, 2] → [0]" in repr(report)
    assert check.task_evaluation(lambda r: [r[0] if r[1] > 1 else sum(r)], CASES, at_least=0.5) and check.task_evaluation(_add, CASES, at_least=0.5)
    assert not check.task_evaluation(lambda r: [r[0] if r[1] > 1 else sum(r)], CASES, at_least=0.51)


def test_an_answer_that_raises_is_a_failure_with_a_name():
    report = check.task_evaluation(lambda r: [r[0] // r[1] * r[1] + r[1]], CASES, at_least=0.0)
    assert report.categories["raised ZeroDivisionError"] == 3 and report.results[0].response is None


def test_a_request_that_was_looked_at_before_is_not_held_out():
    report = check.task_evaluation(_add, CASES, development=[{"request": [9, 9]}, {"request": np.array([1, 2])}])
    assert {row.name for row in report.failures} == {"held out"} and report["held out"].where == "[1, 2]"
    check.task_evaluation(_add, CASES, development=[{"request": [9, 9]}]).require()
    assert not check.task_evaluation(str.upper, [{"request": "a", "expected": "A"}], development=[{"request": "a"}])


def test_latency_against_a_budget():
    def slow(request):
        time.sleep(0.01)
        return _add(request)

    assert not check.task_evaluation(slow, CASES, budget=0.005)["latency"].holds
    report = check.task_evaluation(slow, CASES, budget=60.0).require()
    assert report["latency"].verdict == "the median is within 60 s" and 0.01 <= report.seconds[0] <= report.seconds[1]


def test_a_change_is_compared_case_by_case():
    half = check.task_evaluation(lambda r: _add(r) if r[0] else [-1], CASES, at_least=0.5)
    other = check.task_evaluation(lambda r: _add(r) if r[1] else [-1], CASES, at_least=0.5, before=half)
    assert {row.name for row in other.failures} == {"as good as before, case by case"}
    row = other["as good as before, case by case"]
    assert row.verdict == "fails, 2 were in order before" and row.where == "[1, 0]" and row.worst == 2
    check.task_evaluation(_add, CASES, before=half).require()
    with pytest.raises(ValueError, match="before was a report on other cases"):
        check.task_evaluation(_add, CASES[:3], before=half)


def test_a_request_that_cannot_be_copied():
    with pytest.raises(ValueError, match="an argument was generator, which cannot be copied"):
        check.task_evaluation(sum, [{"request": (i for i in range(3)), "expected": 3}])


@pytest.mark.parametrize("cases", [[], [{"expected": 1}]])
def test_cases_that_cannot_be_asked(cases):
    with pytest.raises(ValueError, match="there must be at least one, and each must have a 'request'"):
        check.task_evaluation(_add, cases)


def test_long_requests_are_cut_in_the_table():
    report = check.task_evaluation(lambda r: "no", [{"request": "why " * 40, "expected": "so"}])
    assert report.rows[1].where == f"{'why ' * 9}why… → no"
    for letters, shown in ((40, "x" * 40), (41, "x" * 39 + "…")):
        assert check.task_evaluation(lambda r: "no", [{"request": "x" * letters, "expected": "so"}]).rows[1].where == f"{shown} → no"


def test_a_request_that_is_used_up_is_whole_again():
    cases = [{"request": [1, 2, 3], "expected": 6}, {"request": {"a": [1]}, "expected": 1}]

    def answer(request):
        if isinstance(request, dict):
            return request["a"].pop()
        total = 0
        while request:
            total += request.pop()
        return total

    def judge(case, response):
        wanted = case.pop("expected")
        return "" if response == wanted else "wrong"

    first = check.task_evaluation(answer, cases, judge)
    assert first.require() and check.task_evaluation(answer, cases, judge, before=first).require()
    assert cases == [{"request": [1, 2, 3], "expected": 6}, {"request": {"a": [1]}, "expected": 1}]


def test_a_budget_that_is_just_kept(monkeypatch):
    """By a clock on which every answer takes a second, and the last one three."""
    ticks = iter([t for i in range(4) for t in (10 * i, 10 * i + 1)] + [50, 53])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    report = check.task_evaluation(_add, CASES[:5], budget=1.0).require()
    assert report.seconds == (1, 3) and report["latency"].verdict == "the median is within 1 s" and report["latency"].worst == 1
