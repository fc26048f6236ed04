"""The questions to the live step: right answers, the figures in their words, and where their numbers come from."""

import math
import re
from functools import lru_cache

import numpy as np
import pytest

from byhand import toy
from byhand.live import step
from byhand.live.questions import GRADIENT, LOSS, RATES, WHOLE, questions

ASKED = {question.key: question for question in questions()}


@lru_cache
def readings(key):
    """{variant: {meter: number}}"""
    table = {}
    for variant in ASKED[key].variants:
        values = variant.values()
        after = variant.after(values)
        table[variant.name] = {meter.label: meter.read(values, after) for meter in ASKED[key].meters}
    return table


def column(key, label):
    return [row[label] for row in readings(key).values()]


def word():
    am, bos = list(readings("word").values())[:2]
    signs = [np.sign(am[f"dz[{w}]"]) != np.sign(bos[f"dz[{w}]"]) for w in toy.TARGET_NAMES]
    return 2 if signs == [True, False, True, False] else None


def push():
    return 2 if np.all(np.diff(column("push", "its gradient")) > 0) else None


def trust():
    row = readings("trust")["document, lr 0.1"]
    rise = readings("trust")["lively, lr 0.002"]
    assert rise["loss after the step"] > rise["loss"] > readings("trust")["lively, lr 0.001"]["loss after the step"]
    return 1 if row["promised"] < row["loss after the step"] < row["loss"] else None


def ahead():
    table = list(readings("ahead").values())
    hidden, seen = table[:3], table[3:]
    assert len({row["logit of <bos> after the first word"] for row in seen}) == 3
    assert all(row[f"dY[second word, {c}]"] == 0 for row in hidden for c in range(4))
    return 1 if len({row["logit of <bos> after the first word"] for row in hidden}) == 1 else None


def sure():
    left = column("sure", "largest |dW_K|, cross-attention")
    assert np.ptp(column("sure", "loss")) < 1e-14
    return 2 if left[-1] < 1e-10 * left[0] else None


def road():
    source, output = column("road", "length of dE, source"), column("road", "length of dW_out")
    assert output[1] > output[0]
    return 2 if source[1] < source[0] / 1000 else None


def norms():
    length = column("norms", GRADIENT.label)
    assert round(length[0], 1) == 2.8
    return 2 if 9 < length[1] / length[0] < 12 else None


def order():
    loss = column("order", "loss")
    assert abs(loss[0] - loss[1]) > 0.01
    return 1 if abs(loss[2] - loss[3]) < 1e-14 else None


def twice():
    row = readings("twice")["je suis je"]
    assert abs(row["dX[first word, 0]"] + row["dX[third word, 0]"]) < 0.5 * abs(row["dX[first word, 0]"])
    return 1 if math.isclose(row["dE[je, 0]"], 2 * (row["dX[first word, 0]"] + row["dX[third word, 0]"]), rel_tol=1e-12) else None


def equal():
    return {424: 1}[column("equal", "gradients that are 0, of 428")[1]]


def zero():
    return 2 if column("zero", "gradients that are 0, of 428")[0] == 94 else None


def smooth():
    pull = column("smooth", "dz[am]")
    assert np.ptp(column("smooth", "−ln p(am)")) < 1e-15
    return 0 if pull[1] < pull[0] < 0 else None


def eps():
    length = column("eps", GRADIENT.label)
    return 2 if length[1] > 1e6 * length[0] else None


def heads():
    one = readings("heads")["one head of width 4"]
    assert one["largest |dW_V|"] < 1e-13
    return 1 if abs(one["A[<bos>, je], head 1"] - 0.5) < 1e-12 else None


def positions():
    row = readings("positions")["exact: positions, ε 1e-5"]
    assert row["largest |dW_Q|, cross-attention"] < 1e-13
    return 1 if abs(row["A[<bos>, je], cross-attention"] - 0.5) < 1e-9 else None


def padding():
    row = readings("padding")["je suis, and padding"]
    return 1 if all(row[f"dX[third word, {c}]"] == 0 for c in range(4)) else None


@pytest.mark.parametrize("key", ASKED)
def test_the_right_answer_is_right(key):
    assert globals()[key]() == ASKED[key].answer


def test_figures_in_the_words():
    """Every figure that stands in a question or its lesson, by its computed value or as a choice of ours."""
    first = list(readings("push").values())[1]
    known = {
        "0.51": round(first["its gradient"], 2), "2.8": round(list(readings("norms").values())[0][GRADIENT.label], 1),
        "428": sum(v.size for v in toy.document().params.values()),
        "0.925": 0.9 + 0.1 / 4, "0.5": column("heads", "A[<bos>, je], head 1")[1], "15": 15, "4": column("equal", "gradients that are 0, of 428")[1] - 420,
        "90": 90, "20": 20, "0.002": 0.002, "0.1": 0.1, "1e-9": 1e-9, "1": 1, "0": 0, "2": toy.document().config.d_k, "3": 3,
    }  # fmt: skip
    found = {
        figure for q in ASKED.values() for text in (q.ask, q.lesson, *q.choices) for figure in re.findall(r"(?<![\w₀-₉])\d+(?:\.\d+)?(?:e-\d+)?(?![\w])", text)
    }
    assert found <= known.keys(), found - known.keys()
    assert all(abs(float(figure) - known[figure]) < 1e-9 for figure in found)


def test_formulas_give_what_the_package_gives():
    """Where the package can run a setting, its numbers are stored, and the formulas read the same."""
    checked = 0
    for question in ASKED.values():
        for variant in question.variants:
            if variant.by_package:
                values, ours = variant.values(), step.run(variant.case, variant.lr)
                for meter in question.meters:
                    want = meter.read(values, 0.0)
                    assert abs(meter.read(ours | {"lr": np.array(variant.lr)}, 0.0) - want) <= 1e-12 * max(1, abs(want)), (question.key, meter.label)
                    checked += 1
    assert checked > 100


def test_questions_begin_with_the_ten():
    assert len(ASKED) == 16 and list(ASKED)[:10] == ["word", "push", "trust", "ahead", "sure", "road", "norms", "order", "twice", "equal"]
    assert all(variant.toy in RATES for question in ASKED.values() for variant in question.variants)
    assert LOSS.index == () and len(WHOLE) == 34
