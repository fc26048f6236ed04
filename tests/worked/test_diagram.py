import re

import pytest

from byhand.worked import Around, Box, diagram, table


def _two(**changes):
    boxes = {"x": Box(0, 0, "x", "rows"), "f": Box(0, 1, "f(x)", "mlp", small="(T, d)"), "y": Box(0, 2, "x + f(x)")}
    return diagram(boxes | changes, [("x", "f"), ("f", "y"), Around("x", "y", label="residual")], "x goes through f and around it")


def test_draws_boxes_and_arrows_with_alternative_text():
    shown = _two()
    assert shown.alt == "x goes through f and around it"
    assert "prefers-color-scheme:dark" in shown.svg and "currentColor" in shown.svg
    assert shown.svg == _two().svg  # the same from run to run
    assert len(re.findall("#3b82c4", shown.svg)) < len(re.findall("#3b82c4", _two(y=Box(0, 2, "y", "mlp")).svg))


def test_frame_and_title():
    boxes = {"a": Box(0, 0, "a"), "b": Box(4, 0, "b")}
    plain = diagram(boxes, [("a", "b"), ("b", "a")], "two")
    assert len(diagram(boxes, [("a", "b"), ("b", "a")], "two", frames={"both": ("a", "b")}, titles={"T": (2, 1)}).svg) > len(plain.svg)


@pytest.mark.parametrize(
    "choices, complaint",
    [
        ({"boxes": {}, "arrows": []}, "boxes was empty"),
        ({"boxes": {"a": Box(0, 0, "a")}, "arrows": [("a", "b")]}, "no box 'b'"),
        ({"boxes": {"a": Box(0, 0, "a")}, "arrows": [], "frames": {"f": ("c",)}}, "no box 'c'"),
        ({"boxes": {"a": Box(0, 0, "a", "magic")}, "arrows": []}, "had kind 'magic'"),
    ],
)
def test_refuses(choices, complaint):
    with pytest.raises(ValueError, match=complaint):
        diagram(alt="a", **choices)


def test_table_as_text_and_html():
    shown = table(["part", "numbers"], [["w_q", 48], ["<b>", 7]], caption="Sizes")
    assert shown.text.splitlines() == ["Sizes", "part  numbers", "w_q        48", "<b>         7"]
    assert "&lt;b&gt;" in shown.html and "<caption" in shown.html
    with pytest.raises(ValueError, match="a row had 1 cells"):
        table(["part", "numbers"], [["w_q"]])
