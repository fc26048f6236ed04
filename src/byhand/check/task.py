"""Whether a model is of use: requests that were held out, what went wrong with each, and how long it took."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .copies import fresh
from .doors import checked
from .report import Report, Row


class Result(NamedTuple):
    """One case, the response, why it is not in order ("" where it is), and the seconds it took."""

    case: Mapping[str, Any]
    response: Any
    failure: str
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class TaskReport(Report):
    results: tuple[Result, ...] = ()

    @property
    def share(self) -> float:
        """The part of the cases that is in order."""
        return sum(not result.failure for result in self.results) / len(self.results)

    @property
    def categories(self) -> Counter[str]:
        """How often each failure category occurs."""
        return Counter(result.failure for result in self.results if result.failure)

    @property
    def seconds(self) -> tuple[float, float]:
        """The median and the slowest."""
        times = [result.seconds for result in self.results]
        return statistics.median(times), max(times)

    def header(self) -> list[str]:
        return ["", "verdict", "for example"]

    def cells(self, row: Row) -> list[str]:
        return [row.name, row.verdict, row.where]


def expected(case: Mapping[str, Any], response: Any) -> str:
    """The judge that is used where none is given: the response must be case["expected"]."""
    return "" if np.array_equal(response, case["expected"]) else "another response than expected"


@checked()
def task_evaluation(
    answer: Callable[[Any], Any],
    cases: Sequence[Mapping[str, Any]],
    judge: Callable[[Mapping[str, Any], Any], str] = expected,
    development: Iterable[Mapping[str, Any]] = (),
    at_least: float = 1.0,
    budget: float | None = None,
    before: TaskReport | None = None,
) -> TaskReport:
    """share in order = |{cases: judge(case, answer(case["request"])) = ""}| / |cases|, and the failures by category

    judge names what went wrong, or returns "". Both get copies: a request that is used up is whole again for the next run. An answer that raises is a
    failure of that name, not the end. development: the cases that were looked at while building; none of them may be among `cases`. budget: seconds
    that the median answer may take.
    before: an earlier report on the same cases; what was in order then must be in order now.
    Raises ValueError for no cases, for a case without a request, and for a report on other cases.
    """
    cases = list(cases)
    if not cases or not all(isinstance(case, Mapping) and "request" in case for case in cases):
        raise ValueError(f"cases were {len(cases)}; there must be at least one, and each must have a 'request'")
    results = tuple(_result(answer, case, judge) for case in cases)
    report = TaskReport("", (), results)
    good = sum(not result.failure for result in results)
    rows = [Row("in order", report.share >= at_least, report.share, verdict=f"{good} of {len(cases)}, {at_least:.0%} needed")]
    development = list(development)
    if development:
        rows.append(_held_out(cases, development))
    for category, count in report.categories.most_common():
        example = next(result for result in results if result.failure == category)
        rows.append(Row(f"failure: {category}", None, count, f"{_short(example.case['request'])} → {_short(example.response)}", f"{count} of {len(cases)}"))
    if budget is not None:
        median = report.seconds[0]
        verdict = f"the median is within {budget:g} s" if median <= budget else f"the median is above {budget:g} s"
        rows.append(Row("latency", median <= budget, median, verdict=verdict))
    if before is not None:
        rows.append(_compared(results, before))
    return TaskReport(f"Task: {good} of {len(cases)} requests in order", tuple(rows), results)


def _result(answer, case, judge):
    request = fresh(case["request"])
    start = time.perf_counter()
    try:
        response = answer(request)
    except Exception as error:  # whatever it is, the user gets no answer
        return Result(case, None, f"raised {type(error).__name__}", time.perf_counter() - start)
    seconds = time.perf_counter() - start
    return Result(case, response, judge(fresh(case), response), seconds)


def _held_out(cases, development):
    seen = {_key(case["request"]) for case in development}
    both = [case for case in cases if _key(case["request"]) in seen]
    where = _short(both[0]["request"]) if both else ""
    return Row("held out", not both, len(both), where, f"fails, {len(both)} were looked at before" if both else "holds, none was looked at before")


def _compared(results, before):
    if [_key(r.case["request"]) for r in results] != [_key(r.case["request"]) for r in before.results]:
        raise ValueError("before was a report on other cases; it must be on the same, in the same order")
    worse = [now for now, then in zip(results, before.results, strict=True) if now.failure and not then.failure]
    where = _short(worse[0].case["request"]) if worse else ""
    return Row("as good as before, case by case", not worse, len(worse), where, f"fails, {len(worse)} were in order before" if worse else "holds")


def _key(request):
    return repr(np.asarray(request).tolist()) if not isinstance(request, str) else request


def _short(value, most=40):
    text = value if isinstance(value, str) else str(np.asarray(value).tolist())
    return text if len(text) <= most else f"{text[: most - 1]}…"
