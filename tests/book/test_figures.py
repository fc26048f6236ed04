"""Every figure in the book's prose has a source and is what the source says; and the check finds what it should."""

from pathlib import Path

import claims
import figures
import nbformat
import numpy as np
import pytest


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.relative_to(figures.BOOK).as_posix())
def test_figures_of_the_page(page):
    found = figures.problems(page)
    assert not found, "\n" + "\n".join(map(str, found))


# ---- what a comment may say ---------------------------------------------------------------------

RIGHT = [
    "The weight is 0.944<!-- claim: d1-softmax-a00 -->, the other 0.0558<!-- claim: d1-softmax-a[0,1] -->.",
    "It is 94.4 %<!-- claim: d1-softmax-a00 * 100 --> of it.",
    "The variance is 0.892<!-- claim: d1-ln-var0 -->, not 0.891<!-- claim: d1-ln-var0 printed -->.",
    "From the rounded operands comes 0.8911<!-- claim: d1-ln-var0 literal -->.",
    "The printed entries add up to 1.001<!-- claim: d1-p extra sum_of_printed -->.",
    "Entropy 1.164<!-- claim: d1-p-confidently-wrong entropy_nats --> nats.",
    "A **0.944**<!-- value: toy.document:encoder.0.self_attention.weights[0,0,0,0] --> weight.",
    "Width 512<!-- claim: d1-setup-dmodel[1] -->, here 4<!-- value: config.d_model -->, of 2048<!-- claim: d1-setup-dff[1] -->.",
    "Loss 2.5265<!-- value: loss -->, over both 2.0765<!-- value: toy.document:loss.mean -->, 428<!-- value: parameters --> weights.",
    "Gradient −0.853<!-- value: gradient.logits[0,1,2] --> and 1.8957<!-- value: toy.lively:loss -->.",
    "The row [0.509, 0.172, -0.853, 0.172]<!-- value: toy.document:gradient.output.w[0] --> of the gradient.",
    r"In mathematics $A_{00} \approx 0.944$<!-- claim: d1-softmax-a00 -->, $e^{\sqrt 2} = 4.1133$<!-- value: = exp(sqrt(2)) -->.",
    r"$a = [0.944, 0.056]$<!-- claim: d1-softmax-a[0] -->, $h = [1, 0, -1, 0]$<!-- claim: d1-z -->",
    "$0.535 - 0.025 = 0.510$<!-- claim: d1-p-0 printed; value: = 0.1/4; claim: d1-bwd-dz-0 printed -->",
    "$$\n\\begin{bmatrix} 0.944 & 0.056 \\\\ 0.056 & 0.944 \\end{bmatrix}\n$$\n<!-- claim: d1-softmax-a -->",
    r"The rate is $1.75 \times 10^{-7}$<!-- claim: d1-adam-lr1 -->, or 1.75e-7<!-- value: = noam(1, 512) -->.",
    "| weight | 0.944<!-- claim: d1-softmax-a00 --> | 0.056<!-- claim: d1-softmax-a01 --> |",
    "In 1998<!-- free: a year --> it was so.",
    "It is 2,404<!-- claim: d1-adam-run-length step_am_overtakes_when_example_repeated --> updates.",
    "Step 728<!-- output: overtakes at step --> and 0.25<!-- output: it is -->.",
]
NO_FIGURE = [
    "One of 2 heads, 3 rows, 428 weights, the 2017 paper, within 1e-12, section 5.4, equation 3.14, Python 3.11, arXiv 1706.03762.",
    "Code `0.944` and\n\n```python\nx = 0.944\n```\n\nand [a link](https://example.org/0.944) and {cite}`a2017.5` are no prose.",
    "# A heading with 0.944\n\n(target-0.5)=\n\n:::{figure} x.svg\n:width: 0.5\n:::",
    "```{code-block} python\nx = 0.944\n```\n% a comment with 0.944\n<!-- another with 0.944 -->",
    r"$x_{10000} + 10000^{2i/d}$",
]
WITHOUT_SOURCE = {
    "The weight is 0.944.": "0.944",
    "It rose by 12 %.": "12 %",
    "It took 4000 steps.": "4000",
    "It took 13,781 of 10<!-- free --> steps.": "13,781",
    "A rate of 1.75e-7.": "1.75e-7",
    r"In mathematics, $\sigma^2 = 0.892$.": "0.892",
    ":::{admonition} Note\n:class: dropdown\nThe weight is 0.944.\n:::": "0.944",
    "| 0.944 | 0.056<!-- claim: d1-softmax-a01 --> |": "0.944",
    "0.944<!-- claim: d1-softmax-a00 --> and 0.056.": "0.056",
}
WRONG = {
    "The weight is 0.945<!-- claim: d1-softmax-a00 -->.": "0.945 is not 0.944",
    "The variance is 0.891<!-- claim: d1-ln-var0 -->.": "0.891 is not 0.892",
    "The document prints 0.892<!-- claim: d1-ln-var0 printed -->.": "0.892 is not 0.891",
    "The loss is 2.52<!-- value: loss -->.": "2.52 is not 2.53",
    "The loss is -2.53<!-- value: loss -->.": "-2.53 is not 2.53",
    "The row [0.056, 0.944]<!-- claim: d1-softmax-a[0] -->.": "0.056 is not 0.944",
    "The row [0.944, 0.056, 0]<!-- claim: d1-softmax-a[0] -->.": "3 figures, but 2 values",
    "$0.944$<!-- claim: d1-softmax-a[0] -->": "1 figures, but 2 values",
    "0.944<!-- claim: d1-softmax-a0 -->": "no claim has the id",
    "0.944<!-- claim: d1-softmax-a[0,7] -->": "does not fit",
    "0.944<!-- claim: d1-softmax-a extra no_such -->": "has no extra no_such",
    "0.944<!-- value: encoder.0.self_attention.wieghts[0,0,0,0] -->": "has no",
    "0.944<!-- value: toy.other:loss -->": "there is no worked example",
    "0.944<!-- value: = __import__('os') -->": "is not an expression",
    "0.944<!-- claim -->": "a source reads",
    "The weight<!-- claim: d1-softmax-a00 --> is large.": "no figure stands right before",
    "Step 729<!-- output: overtakes at step -->.": "729 is not 728",
    "Step 728<!-- output: nowhere -->.": "no output",
    "True 1<!-- claim: d1-end-better-weights same_example_loss_falls -->": "not numbers",
}
OUTPUT = "am overtakes at step 728\nit is 0.25"


def problems_in(text):
    return figures.problems_of(figures.Prose(Path("page.ipynb"), 3, text), OUTPUT)


@pytest.mark.parametrize("text", [*RIGHT, *NO_FIGURE])
def test_accepts(text):
    assert problems_in(text) == []


@pytest.mark.parametrize(("text", "figure"), WITHOUT_SOURCE.items())
def test_finds_a_figure_without_a_source(text, figure):
    (problem,) = problems_in(text)
    assert problem.complaint == f"{figure} has no source"


@pytest.mark.parametrize(("text", "complaint"), WRONG.items())
def test_finds_a_wrong_figure(text, complaint):
    (problem,) = problems_in(text)
    assert complaint in problem.complaint


def test_says_page_and_cell(tmp_path):
    """Both kinds of mistake planted in a notebook: one report each, with its page, its cell and the words around it."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("All is well: 0.944<!-- claim: d1-softmax-a00 -->."),
            nbformat.v4.new_code_cell("x = 0.123"),
            nbformat.v4.new_markdown_cell("The second weight is 0.065<!-- claim: d1-softmax-a01 -->, and the third is 0.333."),
        ]
    )
    nbformat.write(notebook, tmp_path / "page.ipynb")
    wrong, missing = figures.problems(tmp_path / "page.ipynb")
    assert str(wrong).startswith(f"{tmp_path / 'page.ipynb'}, cell 3: 0.065 is not 0.056")
    assert str(missing).startswith(f"{tmp_path / 'page.ipynb'}, cell 3: 0.333 has no source") and "the third is 0.333" in str(missing)


def test_output_that_may_vary_is_no_source(tmp_path):
    output = nbformat.v4.new_output("stream", text="it took 1.25 s")
    cells = [
        nbformat.v4.new_code_cell("...", outputs=[output], metadata={"tags": ["nbval-ignore-output"]}),
        nbformat.v4.new_markdown_cell("It took 1.25<!-- output: it took --> s."),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "page.ipynb")
    (problem,) = figures.problems(tmp_path / "page.ipynb")
    assert "no output of this page" in problem.complaint


def test_pages_are_found(tmp_path):
    for name in ("intro.ipynb", "step/a.md", "_tools/b.md", ".ipynb_checkpoints/c.ipynb", "step/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [page.name for page in figures.pages(tmp_path)] == ["intro.ipynb", "a.md"]


# ---- the ledger's arithmetic --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "printed", "same"),
    [
        (0.0625, "0.063", True),  # a half goes up, where Python's round() goes to the even neighbour
        (-0.0625, "-0.063", True),
        (0.0624999, "0.063", False),
        (0.025, "0.03", True),
        (2.5, "3", True),
        (-0.0, "0.000", True),
        (-4e-17, "0", True),
        (1.7469e-7, "1.75e-7", True),
        (1.7449e-7, "1.75e-7", False),
        (13780.6, "13,781", True),
        (-0.8527, "−0.853", True),
        (0.8527, "-0.853", False),
        (1e-12, "1.000e-12", True),
    ],
)
def test_rounding_half_up(value, printed, same):
    assert claims.rounds_half_up(value, printed) is same


def test_shown_keeps_the_prints_digits():
    pairs = [(0.8915, "0.891"), (1.7469e-7, "1.75e-7"), (13780.6, "13,000"), (-0.0, "0.001"), (1e-12, "1.000e-12")]
    assert [claims.shown(value, printed) for value, printed in pairs] == ["0.892", "1.75e-7", "13,781", "0.000", "1.000e-12"]


@pytest.mark.parametrize("text", ["import os", "().__class__", "open('x')", "x", "True", "2 if 1 else 3", "[1][0]", "1 +"])
def test_expressions_are_safe(text):
    with pytest.raises(ValueError, match="is not an expression"):
        claims.evaluate(text)


NAMED = {"toy.exact:out.0": np.arange(6.0).reshape(2, 3), "x": 2, "found": {"a_-0.5": 3}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("toy.exact:out.0[1,:2] * x", [6, 8]),
        ("total(toy.exact:out.0, axis=0)[-1] // x", 3),
        ("toy.exact:out.0[0] @ toy.exact:out.0[1]", 14),
        ("found['a_-0.5'] >= 3 and not x == 3 or x < 0", True),
    ],
)
def test_expressions_of_named_values(text, value):
    found = claims.evaluate(text, NAMED.__getitem__, total=np.sum)
    assert np.array_equal(found, value)


@pytest.mark.parametrize("text", ["toy.exact:out.0.__class__", "(x).real", "total.__globals__", "y", "[n for n in x]", "total(*x)", "f'{x}'", "x[y]"])
def test_expressions_reach_nothing_else(text):
    with pytest.raises(ValueError, match="is not an expression"):
        claims.evaluate(text, NAMED.__getitem__, total=np.sum)


def test_unknown_claim_names_the_nearest():
    with pytest.raises(ValueError, match="d1-softmax-a00"):
        claims.lookup("d1-softmax-00")
