import re

import pytest

import byhand.numpy as bn
from byhand import toy, worked

WORDS = ["je", "suis", "je"], ["<bos>", "i"], ["<bos>", "i", "am", "<eos>"]


@pytest.fixture(scope="module")
def run():
    return bn.step.run(toy.lively())


def test_every_box_holds_its_stage(run):
    for gradient, stages in ((False, run.output.activations), (True, run.gradients.stages)):
        shown = worked.one_sheet(stages, *WORDS, gradient=gradient, digits=4)
        boxes = re.findall(r"<figure>.*?<strong>(.*?)</strong>.*?</figure>", shown.html, re.S)
        assert len(boxes) == 16 and boxes[0] == ("dENC" if gradient else "X") and boxes[7] == ("dz" if gradient else "Y")
        for name in ("logits", "encoder.memory", "decoder.0.cross_attention.weights", "decoder.0.feed_forward.hidden"):
            for value in stages[name].ravel():
                assert worked.formatting.text(value, 4) in shown.html and worked.formatting.text(value, 4) in shown.text
    assert "&lt;bos&gt;" in shown.html and "<bos>" not in shown.html


def test_what_cannot_be_meant(run):
    stages = run.output.activations
    with pytest.raises(ValueError, match="no 'encoder.memory'"):
        worked.one_sheet({name: value for name, value in stages.items() if name != "encoder.memory"}, *WORDS)
    with pytest.raises(ValueError, match=r"decoder.out had shape \(2, 4\)"):
        worked.one_sheet(dict(stages) | {"decoder.out": stages["decoder.out"][0]}, *WORDS)
    with pytest.raises(ValueError):
        worked.one_sheet(stages, ["je"], *WORDS[1:])
