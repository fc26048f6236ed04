import math

import numpy as np
import pytest

from byhand.worked import by_hand


def test_text_and_fallback_show_question_and_answer():
    field = by_hand("What is −1/3 of <one>?", -1 / 3, slips={"the sign is lost in the sum": 0.5})
    assert repr(field) == "By hand. What is −1/3 of <one>?\nThe answer: −0.333"
    shown = field._repr_html_()
    assert "What is −1/3 of &lt;one&gt;?" in shown and "<details><summary>Show the answer</summary><p>−0.333</p></details>" in shown
    assert "−0.000" not in repr(by_hand("?", -1e-9))
    assert "On <code>lively</code>?" in by_hand("On `lively`?", 1.0)._repr_html_()


@pytest.mark.parametrize("bad, message", [
    (dict(answer=math.nan), "answer was nan"),
    (dict(answer="3"), "answer was 3"),
    (dict(answer=1.0, digits=-1), "digits was -1"),
    (dict(answer=1.0, slips={"x": math.inf}), r"slips\['x'\] was inf"),
    (dict(answer=1.0, slips={"x": 1.001}), r"slips\['x'\] was 1.001; it must differ from the answer"),
])  # fmt: skip
def test_what_cannot_be_meant(bad, message):
    with pytest.raises(ValueError, match=message):
        by_hand("?", **bad)


def test_what_is_given_is_shown_as_it_is():
    field = by_hand("q · k?", 0.5, given={"q": np.array([1, -0.25]), "K": np.eye(2), "d": 2.0})
    assert "  q = [1, −0.25]\n  K = [1, 0; 0, 1]\n  d = 2\n" in repr(field)
    shown = field._repr_html_()
    assert "<dt>q</dt><dd>[1, −0.25]</dd>" in shown and "<dt>K</dt><dd>[1, 0]<br>[0, 1]</dd>" in shown


def test_the_question_and_what_is_given_stand_before_the_field():
    shown = by_hand("q · k?", 0.5, given={"d": 2.0})._repr_html_()
    places = [shown.index(f'class="{part}"') for part in ("question", "given", "controls", "result")]
    assert places == sorted(places) and shown.count('class="controls"') == 1
