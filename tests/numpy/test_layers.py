"""A layer is short enough to be read on a page: its code, and the lines of it that pages print."""

import ast
import inspect
import textwrap
from pathlib import Path

import nbformat
import numpy as np
import pytest

from byhand import Config
from byhand.numpy import attention, decoder, embedding, feed_forward, layers, linear, loss, norm, position, softmax, transformer
from byhand.parameters import decoder_shapes

ROOMS = (attention, decoder, embedding, feed_forward, layers, linear, loss, norm, position, softmax, transformer)
PASSES = [function for room in ROOMS for name, function in vars(room).items() if inspect.isfunction(function) and function.__module__ == room.__name__]
BOOK = Path(__file__).parents[2] / "book"


def code_lines(function):
    """Lines that hold a statement of the function, or a part of one: no signature, docstring, comment or blank line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    body = tree.body[ast.get_docstring(tree) is not None :]
    return len({line for part in body for node in ast.walk(part) if hasattr(node, "lineno") for line in (node.lineno, node.end_lineno)})


@pytest.mark.parametrize("function", PASSES, ids=lambda function: f"{function.__module__.rpartition('.')[2]}.{function.__name__}")
def test_no_pass_has_more_than_20_lines_of_code(function):
    assert code_lines(function) <= 20


def test_the_count_counts():
    assert code_lines(code_lines) == 3
    assert len(PASSES) > 60 and layers.decoder_layer_backward in PASSES


def test_printed_source_has_at_most_88_characters_a_line():
    printed = 0
    examples = {BOOK / "stack/12-assistant.ipynb", BOOK / "workshop/kit.ipynb"}  # which print an example's code
    for page in sorted(set(BOOK.rglob("*.ipynb")) - examples):
        for cell in nbformat.read(page, as_version=4).cells:
            if cell.cell_type == "code" and "show_source(" in cell.source:
                for output in cell.outputs:
                    lines = "".join(output.get("data", {}).get("text/plain", "")).splitlines()
                    printed += len(lines)
                    assert [line for line in lines if len(line) > 88] == [], page.name
    assert printed > 500


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_a_block_sees_the_past_alone_unless_it_is_told(norm_position):
    config = Config(d_model=4, n_heads=2, d_ff=6, n_layers=1, source_vocab=1, target_vocab=5, norm=norm_position)
    rng = np.random.default_rng(0)
    rooms = layers.Rooms({name: rng.normal(size=shape) for name, shape in decoder_shapes(config).items()}, config, "block.0")
    block = {"pre": layers.pre_norm_block, "post": layers.post_norm_block}[norm_position]
    x = rng.normal(size=(2, 3, 4))
    later = x.copy()
    later[:, 2] = rng.normal(size=(2, 4))
    assert (block(x, rooms)[0] == block(later, rooms)[0])[:, :2].all()
    assert not (block(x, rooms, causal=False)[0] == block(later, rooms, causal=False)[0])[:, :2].any()
