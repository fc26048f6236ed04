import html
import re
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import numpy as np
import pytest
import sympy

from byhand import Config, toy, worked
from byhand.numpy import transformer

rng = np.random.default_rng(5)


def checked(picture):
    """Well-formed SVG with alternative text, colours for both themes, and nothing loaded from elsewhere."""
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == f"Picture: {picture.alt}"
    source = re.search(r'src="data:image/svg\+xml,([^"]+)"', bundle["text/html"]).group(1)
    assert not set(source) & set("\"'<>#\n")
    assert unquote(source) == picture.svg
    root = ET.fromstring(picture.svg)
    assert root.get("role") == "img" and root.find("{http://www.w3.org/2000/svg}title").text == picture.alt
    assert "prefers-color-scheme:dark" in picture.svg and "currentColor" in picture.svg and "var(--paper)" in picture.svg
    assert not re.search(r'href="(?!#|data:)', picture.svg)
    assert f'alt="{html.escape(picture.alt)}"' in bundle["text/html"] and "<script" not in bundle["text/html"]
    return picture


def test_heatmap():
    weights = np.array([[0.944, 0.056], [0.056, 0.944]])
    shown = checked(worked.heatmap(weights, ["je", "<bos>"], ["je", "suis"], "Attention"))
    assert shown.alt == "Attention: 2 by 2 cells, values from 0.06 to 0.94"
    assert checked(worked.heatmap(weights, alt="Two <dark> cells & more")).alt == "Two <dark> cells & more"


def test_heatmap_of_heads_masks_and_exact_numbers():
    checked(worked.heatmap(rng.normal(size=(2, 3, 4)), mask=np.tri(3, 4, dtype=bool)))
    checked(worked.heatmap(sympy.Matrix([[sympy.sqrt(2), 0]])))
    checked(worked.heatmap([[0.0, -np.inf], [1.0, 2.0]]))  # what is not finite is hatched


def test_a_product_has_each_entry_where_its_row_and_column_meet():
    shown = checked(worked.product([[2.0], [-1.0]], [[3.0, 0.5]], names=("dW", "h", "dz"), cols=["i", "am"]))
    assert "dW [6, 1], [-3, -0.5]" in shown.alt and "dz [3, 0.5]" in shown.alt
    with pytest.raises(ValueError, match=r"h had shape \(2, 2\) and dz \(1, 2\)"):
        worked.product(np.ones((2, 2)), np.ones((1, 2)), names=("dW", "h", "dz"))


def test_heatmaps_side_by_side_each_with_its_own_scale():
    shown = checked(worked.heatmaps({"A": [[0.5, 0.5]], "dA": [[2.0, -1.0]], "dS": [[0.001, -0.001]]}, ["i"], ["je", "suis"], digits=3))
    assert shown.alt == "Side by side: A [0.5, 0.5]; dA [2, -1]; dS [0.001, -0.001]"
    alone = worked.heatmaps({"dS": [[0.001, -0.001]]}).svg
    fill = re.findall(r"fill: ?(#[0-9a-f]{6})", alone)
    assert fill and set(fill) <= set(re.findall(r"fill: ?(#[0-9a-f]{6})", shown.svg))  # as strong beside larger numbers as alone
    assert "36 cells" not in shown.alt and "7 by 7 cells" in worked.heatmaps({"A": rng.random((7, 7))}).alt
    for panels in ({}, {"A": [1.0]}, {"A": [[1.0]], "B": [[1.0, 2.0]]}):
        with pytest.raises(ValueError, match="panels had shapes"):
            worked.heatmaps(panels)


def test_a_large_heatmap_is_one_image():
    shown = checked(worked.heatmap(rng.normal(size=(60, 64)), title="Positions"))
    assert "data:image/png" in shown.svg and len(shown.svg) < 60_000


@pytest.mark.parametrize("columns, image", [(20, False), (21, True)])
def test_numbers_stand_only_where_they_do_not_overlap(columns, image):
    assert ("data:image/png" in worked.heatmap(rng.normal(size=(2, columns))).svg) == image


def test_the_same_data_give_the_same_picture():
    weights = rng.random((3, 3))
    assert worked.heatmap(weights).svg == worked.heatmap(weights).svg
    assert "date" not in worked.heatmap(weights).svg.lower() and "matplotlib" not in worked.heatmap(weights).svg.lower()


@pytest.mark.parametrize(
    "args, message",
    [
        (dict(array=[1.0, 2.0]), r"array had shape \(2,\)"),
        (dict(array=[[1.0]], rows=["a", "b"]), "rows had 2 labels"),
        (dict(array=[[1.0]], mask=[[1]]), "hold bools"),
        (dict(array=[[1.0]], mask=np.ones((2, 2), dtype=bool)), r"mask had shape \(2, 2\)"),
        (dict(array=[["a"]]), "real numbers"),
    ],
)
def test_heatmap_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.heatmap(**args)


def test_any_figure_becomes_a_picture_and_is_closed():
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots()
    axis.plot([1, 2])
    checked_svg = worked.picture(figure, "A line")
    assert checked_svg.svg.startswith("<svg") and figure.number not in plt.get_fignums()
    for alt in ("", "  ", None):
        with pytest.raises(ValueError, match="alt was"):
            worked.picture(plt.figure(), alt)
    plt.close("all")


def test_use_book_style_and_no_figure_left_open():
    import matplotlib
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        worked.use_book_style()
        assert matplotlib.rcParams["svg.hashsalt"] == "byhand" and matplotlib.rcParams["svg.fonttype"] == "path"
    worked.heatmap([[1.0]])
    assert not plt.get_fignums()


def test_architecture_has_the_model_s_own_stages():
    case = toy.document()
    out = transformer.forward(case.params, case.config, case.source, case.decoder_input)
    shown = checked(worked.architecture(out.activations))
    for words in ("self-attention", "cross-attention", "feed-forward", "memory", "logits", "1 layer a side"):
        assert words in shown.alt
    config = Config(d_model=8, n_heads=2, d_ff=16, n_layers=3, source_vocab=9, target_vocab=9, d_v=3)
    assert "3 layers a side" in checked(worked.architecture(config)).alt
    with pytest.raises(ValueError, match="model was a int"):
        worked.architecture(3)
    with pytest.raises(ValueError, match="no stages named encoder"):
        worked.architecture({"block.0.norm_1": np.zeros(2)})


def test_bars_lines_projections():
    assert "am 0.07" in checked(worked.bars({"p": [0.5, 0.07], "q": [0.1, 0.9]}, ["i", "am"])).alt
    checked(worked.bars(rng.normal(size=100)))
    assert "lr goes from 1 to 0.5" in checked(worked.lines([1, 2], {"lr": [1, 0.5]}, "step", logy=True)).alt
    assert "what is left" in checked(worked.projections([0.1, 0.2, -0.3], [1.0, 2, 4], [1.5, 0.5, 2])).alt
    for call, message in (
        (lambda: worked.bars({"p": [1.0], "q": [1.0, 2.0]}), "values had shapes"),
        (lambda: worked.bars([1.0], ["a", "b"]), "labels had 2"),
        (lambda: worked.lines([1, 2], {"a": [1.0]}), "series had shapes"),
        (lambda: worked.lines([1, 2], {}), "series had shapes"),
        (lambda: worked.projections([1.0, 2.0], [1.0, 1.0], eps=0), "x has a constant row"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
