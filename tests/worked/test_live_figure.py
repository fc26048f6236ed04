"""The small live figures without a browser: their tables hold the package's numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

import byhand.numpy as bn
from byhand import toy
from byhand.worked.live_figure import FIGURES, live_figure


def by_package(key, place):
    """What the package computes at a place of the slider; None where it has no such option."""
    figure = live_figure(key)
    case, x = getattr(toy, figure.toy)(), figure.value(place)
    if key in ("tangent", "projections"):
        w = case.params["output.w"].astype(float)
        w[0, 0] = x
        case = replace(case, params=case.params | {"output.w": w})
        step = bn.step.run(case)
        gradients = step.gradients
        return [step.loss, gradients.params["output.w"][0, 0]] if key == "tangent" else gradients.stages["decoder.0.residual_3"][0, 1]
    activations = bn.step.run(case).output.activations
    if key == "temperature":
        weights, _ = bn.softmax.softmax(activations["encoder.0.self_attention.scores"][0, 0, 0] / x)
        return weights
    if key == "mask" and place == 1:
        p, _ = bn.softmax.softmax(activations["logits"][0, 0])
        return [*activations["decoder.0.self_attention.weights"][0, 0, 0], *p]
    return [x / (x + 1e-9)] if key == "adam" else None


@pytest.mark.parametrize("key", FIGURES)
def test_numbers_are_the_packages(key):
    figure = live_figure(key)
    compared = 0
    for place in figure.stops:
        want = by_package(key, place)
        if want is not None:
            np.testing.assert_allclose(figure.read(place), want, rtol=1e-12, atol=1e-12)
            compared += 1
    assert compared >= len(figure.stops) - (key == "mask")


@pytest.mark.parametrize("key", FIGURES)
def test_its_table_stands_there_without_a_script(key):
    figure = live_figure(key)
    page, text = figure._repr_html_(), repr(figure)
    assert page == live_figure(key)._repr_html_() and "<script" not in page and "http" not in page
    for x, values in figure.rows():
        assert f'<th scope="row">{x}</th>' in page and all(f"<td>{value}</td>" in page and value in text for value in values)
    assert figure.control.low <= figure.control.start <= figure.control.high and not re.search(r"−0(?![.\\d])", text)


def test_the_mask_hides():
    on, off = (live_figure("mask").read(place) for place in (1, 0))
    assert on[:2] == [1, 0] and 0 < off[1] < 1 and abs(on[2] - off[2]) > 0.1


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match="key was 'nothing'; it must be one of temperature, mask"):
        live_figure("nothing")
