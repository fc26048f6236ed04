import re

import numpy as np
import pytest

from byhand import toy, worked
from byhand.numpy import step


def test_paths_norms_and_sums_are_said():
    norms = {("loss", "logits"): 1.0, ("logits", "a"): [3.0, 4.0], ("logits", "b"): 0.1, ("a", "x"): 0.2, ("b", "x"): 1e-17, ("loss", "x"): 0.4}
    shown = worked.reversed_graph(norms, {"loss": (0, 0), "logits": (0, 1), "a": (-1, 2), "b": (1, 2), "x": (0, 3)})
    assert "logits to a, length 5" in shown.alt and "b to x, length 0" in shown.alt and shown.alt.endswith("summed at x.")


def test_a_way_that_carries_nothing_is_dotted():
    def dotted(norm):
        return worked.reversed_graph({("loss", "a"): 1.0, ("a", "b"): norm}, {"loss": (0, 0), "a": (0, 1), "b": (0, 2)}).svg.count("stroke-dasharray")

    assert dotted(0.5) == 0 < dotted(0.0)


@pytest.mark.parametrize("norms, message", [({}, "norms was empty"), ({("a", "b"): np.nan}, "not finite")])
def test_refuses_what_is_no_graph(norms, message):
    with pytest.raises(ValueError, match=message):
        worked.reversed_graph(norms, {"a": (0, 0), "b": (0, 1)})


def test_places_must_name_every_node():
    with pytest.raises(ValueError, match="places lacked b"):
        worked.reversed_graph({("a", "b"): 1.0}, places={"a": (0, 0)})


@pytest.mark.parametrize("name", ["document", "lively"])
def test_the_whole_model_shows_every_way_back(name):
    """What a picture says of one layer a side is every `.via_` of the backward pass, with its norm."""
    stages = step.run(getattr(toy, name)()).gradients.stages
    shown = worked.reversed_model(stages, digits=6)
    ways = [name for name in stages if ".via_" in name]
    assert len(ways) == 16
    said = [float(number) for number in re.findall(r", length ([\d.e-]*\d)", shown.alt)]
    for way in ways:
        norm = np.linalg.norm(stages[way])
        assert any(abs(norm - number) <= 1e-5 * max(norm, 1e-6) for number in said), way
    for node in ("memory", "decoder norm 2", "decoder norm 1", "decoder rows", "encoder norm 1", "encoder rows"):
        assert node in shown.alt.rpartition("summed at ")[2]
    assert ("length 0;" in shown.alt) == (name == "document")


def test_only_one_layer_a_side_is_drawn():
    with pytest.raises(ValueError, match="one layer a side"):
        worked.reversed_model(step.run(toy.generic()).gradients.stages)
