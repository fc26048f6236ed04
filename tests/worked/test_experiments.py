import json
import re
from html import unescape

import numpy as np
import pytest

from byhand import worked

RUN = {"steps": [1, 5], "probabilities": [[0.75, 0.25], [0.1, 0.9]], "losses": [1.5, 0.5], "weight": [1.0, -0.5], "gradient": [0.25, -0.125]}


def test_a_training_course_shows_its_first_step_and_hands_over_the_others():
    shown = worked.TrainingCourse(["<bos>", "am"], "am", **RUN)._repr_html_()
    assert '<tr class="wanted"><th scope="row">am</th><td><i style="width:25.0%">' in shown and "&lt;bos&gt;" in shown
    assert "Step 1: loss 1.500. One of the weights is 1.000, its gradient +0.250." in shown
    settings = json.loads(unescape(re.search(r'data-settings="([^"]*)"', shown)[1]))
    assert settings == {"steps": [1, 5], "p": RUN["probabilities"], "loss": [1.5, 0.5], "w": [1.0, -0.5], "g": [0.25, -0.125]}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"wanted": "suis"}, "wanted was 'suis'"),
        ({"steps": [5, 1]}, "steps must be rising"),
        ({"losses": [1.0]}, "losses had shape"),
        ({"weight": [1.0, np.nan]}, "weight had shape .* finite"),
    ],
)
def test_a_training_course_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        worked.TrainingCourse(**{"words": ["<bos>", "am"], "wanted": "am"} | RUN | change)
