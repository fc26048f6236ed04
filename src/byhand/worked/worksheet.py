"""A problem on one sheet of paper, and its solution: as HTML that prints, as Markdown, and as a notebook whose blanks are fields.

    python -m byhand worksheet --topic attention --seed 3
"""

import html
import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from byhand import toy
from byhand.check.derivatives import numerical_gradient
from byhand.check.measure import difference
from byhand.check.witnesses import loss_with
from byhand.doors import whole
from byhand.numpy import step
from byhand.numpy.optimizer import adam
from byhand.worked import formatting as f
from byhand.worked.by_hand import ByHand
from byhand.worked.display import Written
from byhand.worked.matrices import write_matrix
from byhand.worked.problems import BOUNDS, TOPICS, problem
from byhand.worked.sheets import one_sheet

BLANK = "\u2003" * 4  # a place to write in


class Worksheet:
    """A problem that is ready to be handed out. Raises ValueError for an unknown topic, a seed below 0, or one that has no fit draw."""

    def __init__(self, topic: str, seed: int):
        self.problem = problem(topic, seed)
        self.topic = TOPICS[topic]

    def html(self, solution: bool = False) -> str:
        """The sheet, or its solution, as a page of its own that needs nothing else."""
        return _page(self._title(solution), "solution" if solution else "sheet", "".join(_as_html(*block) for block in self._blocks(solution)))

    def markdown(self, solution: bool = False) -> str:
        return "\n\n".join(_as_markdown(*block) for block in self._blocks(solution)) + "\n"

    def notebook(self, solution: bool = False) -> str:
        """The sheet with a field for each blank, which knows the slips; or the solution, as in Markdown."""
        cells = [_cell(_as_markdown(*block)) for block in self._blocks(solution) if solution or block[0] != "row"]
        if not solution:
            code = "from byhand.worked.worksheet import Worksheet\n\nsheet = Worksheet({!r}, {})"
            fields = [piece for row in self.problem.rows for piece in (_cell(f"**{_inline(row.name)}**: {_inline(row.rule)}"), self._fields(row.name))]
            cells[-1:-1] = [_cell(code.format(self.problem.topic, self.problem.seed), []), *fields]
        return _notebook(cells)

    def fields(self, name: str) -> "Fields":
        """A field for each blank of a row, by its name, in which the reader types the number and hears which slip it is."""
        rows = {row.name: row for row in self.problem.rows}
        if name not in rows:
            raise ValueError(f"name was {name!r}; it must be one of {', '.join(rows)}")
        row, fields = rows[name], []
        for place in np.ndindex(row.values.shape):
            slips = {slip.name: float(slip.values[place]) for slip in self.problem.slips if slip.row == name}
            told = {slip: value for slip, value in slips.items() if abs(value - row.values[place]) >= 2.5 * 10.0**-row.digits}
            label = f"{name}[{', '.join(map(str, place))}]" + (f" ({row.heads[place[-1]]})" if row.heads else "")
            fields.append(ByHand(f"`{label}` =", row.values[place], row.digits, told))
        return Fields(fields)

    def _fields(self, name):
        fields = self.fields(name)
        return _cell(f"sheet.fields({name!r})", [{"text/plain": repr(fields), "text/html": fields._repr_html_()}])

    def _title(self, solution):
        return f"{self.topic.title}{': solution' if solution else ''}"

    def _blocks(self, solution):
        """(kind, content): what stands on the sheet, from the top down."""
        p, t = self.problem, self.topic
        yield "head", (self._title(solution), f"{p.topic}, seed {p.seed}", *(() if solution else (f"about {p.minutes} minutes", f"Name {BLANK * 3}")))
        yield "text", t.story
        yield "given", t.shown(p.given)
        if not solution:
            yield "text", "Write each number down as it is asked for, and go on with what you wrote: the last decimal may then differ by one."
        for row in p.rows:
            yield "row", (row, _cells(row.values, row.digits) if solution else [[""] * row.values.shape[-1]] * np.atleast_2d(row.values).shape[0])
        if solution:
            yield "heading", "Worked"
            for written in t.written(p.given, {row.name: row.values for row in p.rows}):
                yield "written", written
            yield "heading", "Usual slips, and what each would give"
            rows = {row.name: row for row in p.rows}
            yield "table", (("slip", "gives"), [(s.name, f"{s.row} = {_numbers(s.values, rows[s.row].digits)}") for s in p.slips])
            yield "foot", f"Also found by {self.checks()}. The page {t.page} of the book derives it."
        else:
            yield "foot", f"{p.blanks} blanks. After the book One training step, by hand, page {t.page}."

    def checks(self) -> str:
        """Which rows each witness finds too."""
        rows = {witness: [row for row, who in self.problem.witnesses.items() if witness in who] for witness in BOUNDS}
        return "; ".join(f"{witness}: {', '.join(found)}" for witness, found in rows.items() if found)


class Fields:
    """Several fields under one another, as the output of one cell."""

    def __init__(self, fields: Sequence[ByHand]):
        self.fields = list(fields)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.fields))

    def _repr_html_(self) -> str:
        return "\n".join(field._repr_html_() for field in self.fields)


def write(topic: str, seed: int, folder: str | Path) -> list[Path]:
    """The sheet and its solution in three formats, {topic}-{seed}[-solution].{html,md,ipynb}; for "step" the solved reference alone."""
    if topic == "step":
        title, blocks = "The whole step, solved", list(_whole_step(seed))
        texts = {
            f"step-{seed}.html": _page(title, "solution", "".join(_as_html(*block) for block in blocks)),
            f"step-{seed}.md": "\n\n".join(_as_markdown(*block) for block in blocks) + "\n",
            f"step-{seed}.ipynb": _notebook([_cell(_as_markdown(*block)) for block in blocks]),
        }
    else:
        sheet, formats = Worksheet(topic, seed), ("html", "markdown", "notebook")
        texts = {
            f"{topic}-{seed}{'-solution' * solution}.{end}": getattr(sheet, name)(solution)
            for solution in (False, True)
            for end, name in zip(("html", "md", "ipynb"), formats)
        }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


# ---- the whole step ------------------------------------------------------------------------------------


def whole_step(seed: int) -> toy.Case:
    """A step at `lively`'s sizes: seed 0 is `lively`; another draws weights in quarters.

    Rejected are draws in which a softmax is all but sure, a unit stands near its kink, or a parameter's whole gradient nearly vanishes.
    """
    whole("seed", seed, 0)
    case, rng = toy.lively(), np.random.default_rng(seed)
    while seed:
        case = replace(case, params={name: _weights(rng, name, value.shape) for name, value in case.params.items()})
        run = step.run(case)
        stages = run.output.activations
        sure = max(value.max() for name, value in stages.items() if name.endswith(("encoder.0.self_attention.weights", "cross_attention.weights")))
        near = min(np.abs(value).min() for name, value in stages.items() if name.endswith("feed_forward.hidden"))
        if sure <= 0.95 and near >= 0.02 and min(np.abs(value).max() for value in run.gradients.params.values()) >= 0.01:
            break
    return case


def _weights(rng, name, shape):
    if name.endswith("gamma"):
        return rng.choice([0.5, 1.5, 2.0], shape)
    return rng.integers(-3, 4, shape) / 4 if len(shape) == 2 else rng.choice([-0.5, -0.25, 0.25, 0.5], shape)


def _whole_step(seed, lr=0.001):
    """The blocks of the reference; ArithmeticError where PyTorch or a nudged weight finds another gradient."""
    case = whole_step(seed)
    run = step.run(case)
    grads, after = run.gradients.params, adam(case.params, run.gradients.params, None, lr)[0]
    witnesses = {"central differences": ({name: _nudged(case, name) for name in case.params}, BOUNDS["central differences"])}
    if importlib.util.find_spec("torch"):
        from byhand.torch import step as torch_step

        witnesses["PyTorch"] = (torch_step.run(case).gradients.params, BOUNDS["PyTorch"])
    for witness, (found, bound) in witnesses.items():
        for name, gradient in grads.items():
            if not difference(gradient, found[name]).holds(bound) and gradient.any():
                raise ArithmeticError(f"{name}: another gradient by hand than by {witness}")
    source, target = ([case.names[side][k] for k in words[0]] for side, words in (("source", case.source), ("target", case.decoder_input)))
    words = (source, target, case.names["target"])
    yield "head", ("The whole step, solved", "lively" if seed == 0 else f"step, seed {seed}", f"loss {f.text(run.loss, 4)}")
    yield "text", f"{' '.join(source)} is read, {' '.join(target)} has been written. Adam's first step has lr = {lr}."
    for title, stages, backward in (("Forward", run.output.activations, False), ("Backward", run.gradients.stages, True)):
        yield "heading", title
        yield "written", one_sheet(stages, *words, gradient=backward)
    yield "heading", "Each weight, its gradient, and the weight after the step"
    for name, value in case.params.items():
        yield "written", Written(f"{name}\n{_beside(value, grads[name], after[name])}")
    yield "foot", f"Gradients of all {sum(v.size for v in grads.values())} weights: also found by {' and by '.join(witnesses)}."


def _nudged(case, name):
    return numerical_gradient(lambda value: loss_with(case, name, value), case.params[name])


def _beside(*arrays):
    blocks = [write_matrix(f.TEXT, array, 3, f.scale_of(array), None).splitlines() for array in arrays]
    if arrays[0].shape[-1] > 4:  # too wide for a sheet
        return "\n".join(line for block in blocks for line in block)
    return "\n".join("    ".join(lines) for lines in zip(*blocks, strict=True))


# ---- blocks in each format -----------------------------------------------------------------------------


def _as_html(kind, content):
    match kind:
        case "head":
            return f"<h1>{html.escape(content[0])}</h1>\n<div class=head>{''.join(f'<span>{words}</span>' for words in content[1:])}</div>\n"
        case "heading":
            return f"<h2>{html.escape(content)}</h2>\n"
        case "text":
            return f"<p>{_inline(content)}</p>\n"
        case "foot":
            return f"<footer>{_inline(content)}</footer>\n"
        case "given":
            pairs = (f"<span class=pair><span>{_inline(name)} =</span>{_table(_cells(value))}</span>" for name, value in content.items())
            return f"<div class=given>{''.join(pairs)}</div>\n"
        case "row":
            row, cells = content
            return f"<div class=row><span><b>{_inline(row.name)}</b> &ensp; {_inline(row.rule)}</span>{_table(cells, 'b', row.heads)}</div>\n"
        case "table":
            return _table(content[1], "w", content[0])
        case "written":
            return content.html or f"<pre>{html.escape(content.text)}</pre>\n"


def _as_markdown(kind, content):
    match kind:
        case "head":
            return f"# {content[0]}\n\n{', '.join(content[1:])}"
        case "heading":
            return f"## {content}"
        case "text" | "foot":
            return _inline(content)
        case "given":
            return "\n".join(f"- {_inline(name)} = {html.escape(_numbers(value), quote=False)}" for name, value in content.items())
        case "row":
            row, cells = content
            heads = row.heads or [""] * len(cells[0])
            table = _pipes(heads, [[cell or BLANK for cell in line] for line in cells])
            return f"**{_inline(row.name)}**: {_inline(row.rule)}\n\n{table}"
        case "table":
            return _pipes(*content)
        case "written":
            return f"```\n{content.text}\n```" if content.latex is None else f"$$\n{content.latex}\n$$"


def _pipes(head, rows):
    return "\n".join(f"| {' | '.join(html.escape(cell, quote=False) for cell in line)} |" for line in (head, ["---"] * len(head), *rows))


def _table(rows, kind="m", head=()):
    if kind == "m" and len(rows) == len(rows[0]) == 1:  # a number needs no brackets
        return f"<span>{html.escape(rows[0][0])}</span>"
    above = f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>" if head else ""
    body = (f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in rows)
    return f"<table class={kind}>{above}{''.join(body)}</table>"


def _cells(value, digits=12):
    """A number, a vector, a matrix or a word as rows of cells, each number with the decimals that it has, at most so many."""
    if isinstance(value, str):
        return [[value]]
    return [[f.text(x, digits, 1.0).replace("-", "−") for x in line] for line in np.atleast_2d(value)]


def _numbers(values, digits=12):
    return "; ".join(", ".join(line) for line in _cells(values, digits))


def _inline(text):
    """Indices and powers, in the HTML that Markdown knows too."""
    return re.sub(r"\^(\w+|\(.*?\))", r"<sup>\1</sup>", re.sub(r"_(\w+)", r"<sub>\1</sub>", html.escape(text, quote=False)))


def _page(title, kind, body):
    style = (files("byhand") / "worked/worksheet.css").read_text("utf-8")
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>\n<style>\n{style}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body class={kind}>\n{body}</body></html>\n'


def _cell(source, outputs=None):
    if outputs is None:
        return {"cell_type": "markdown", "metadata": {}, "source": source}
    shown = [{"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data} for data in outputs]
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": shown, "source": source}


def _notebook(cells):
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [{"id": f"cell-{k}", **cell} for k, cell in enumerate(cells)]
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, ensure_ascii=False, indent=1) + "\n"
