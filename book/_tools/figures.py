"""Figures in the book's prose, and where each comes from.

    python book/_tools/figures.py [PAGE ...]          says which figures have no source, or a wrong one

A figure names its source in a comment right behind it. The comment does not show, neither on the page nor in JupyterLab:

    The weight is 0.944<!-- claim: d1-softmax-a00 -->.

    claim: ID                     what book/claims.yml says is right
    claim: ID printed             what the document prints there; likewise literal, exact, extra, and: claim: ID extra NAME
    value: toy.document:NAME      computed by the package for that worked example (toy.document is meant where none is named).
                                  NAME is an activation (encoder.0.self_attention.weights), a parameter (output.w),
                                  gradient.STAGE or gradient.PARAMETER, logits, probabilities, loss, loss.mean, loss.sum,
                                  loss.last, parameters (how many there are) or config.FIELD
    value: = EXPRESSION           numbers, such names, + - * / **, E, pi, sqrt, exp, log, tanh, ..., noam(step, d_model)
    output: WORDS                 the number that follows these words in an output of this page, which nbval keeps current
    free                          not a result: a year, a page, a version; a reason may follow: <!-- free: a year -->

Behind a source may stand an index, [0,1], and a factor: <!-- claim: d1-softmax-a[0,1] * 100 --> for 5.6 %. The figure must be the
value rounded half up to the digits shown. One comment can serve a vector or a matrix, in prose [0.944, 0.056]<!-- ... --> or in
mathematics, $a = [0.944, 0.056]$<!-- claim: d1-softmax-a[0] -->; several sources in one comment, parted by semicolons, serve the
figures before it in their order: $0.535 - 0.025 = 0.510$<!-- claim: d1-p-0 printed; value: = 0.1/4; claim: d1-bwd-dz-0 printed -->.

What counts as a figure: decimals, scientific notation, percentages and, outside mathematics, whole numbers from 1000 on. Not: powers of
ten (within 1e-12), years from 2010 to 2029, what stands in code, headings, links, citations and roles, and numbers of sections, equations, figures,
tables and versions (section 5.4, Python 3.11).
"""

import functools
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import claims  # noqa: E402

BOOK = Path(__file__).resolve().parent.parent


# ---- pages and their prose --------------------------------------------------
class Prose(NamedTuple):
    """One piece of prose: a Markdown cell of a notebook, or a whole Markdown page."""

    page: Path
    cell: int | None
    text: str


class Problem(NamedTuple):
    """A figure without a source, or one that is not what its source says."""

    page: Path
    cell: int | None
    text: str
    complaint: str

    def __str__(self):
        where = f"{self.page}" if self.cell is None else f"{self.page}, cell {self.cell}"
        return f"{where}: {self.complaint}: ...{self.text}..."


def pages(folder=BOOK):
    """Every page below a folder, in order: notebooks and Markdown files, but for the list of other people's works."""
    found = (path for path in sorted(Path(folder).rglob("*")) if path.suffix in (".ipynb", ".md") and path.name != "bibliography.md")
    return [path for path in found if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)]


def prose_of(page):
    """The pieces of prose on a page."""
    if page.suffix == ".md":
        return [Prose(page, None, page.read_text(encoding="utf-8"))]
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return [Prose(page, number, _joined(c["source"])) for number, c in enumerate(cells, 1) if c["cell_type"] == "markdown"]


def output_text_of(page):
    """What the code on a page shows as text, but for what may differ from run to run."""
    if page.suffix == ".md":
        return ""
    texts = []
    for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
        if "nbval-ignore-output" in cell["metadata"].get("tags", []):
            continue
        for output in cell.get("outputs", []):
            texts.append(_joined(output.get("text") or output.get("data", {}).get("text/plain", "")))
    return "\n".join(texts)


def _joined(value):
    return "".join(value)


# ---- finding figures --------------------------------------------------------
_POWER = r"(?:\\times|\\cdot|×|·)\s?10\^(?:\{[-−]?\d+\}|[-−]?\d+)"
NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[-−]?)(?P<whole>\d{{1,3}}(?:(?:,|\{{,\}}|\\,)\d{{3}})+|\d+)(?P<decimals>\.\d+)?"
    rf"(?P<power>[eE][-−+]?\d+|\s?{_POWER})?(?P<percent>\s?\\?%)?(?!\w|\.\d)"
)
COMMENT = re.compile(r"<!--\s*(?P<source>(?:claim|value|output|free)\b.*?)\s*-->", re.S)
MATHS = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$(?!\s)[^$\n]+?(?:\n[^$\n]+?)*(?<![\s\\])\$(?!\d)|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", re.S)
NUMBERED = re.compile(
    r"(?:\b(?:sections?|chapters?|equations?|eqs?\.|figures?|tables?|pages?|appendix|versions?|Python|PyTorch|NumPy|SymPy|arXiv:?)"
    r"|§)[\s\N{NO-BREAK SPACE}]*$",
    re.I,
)
YEARS = range(2010, 2030)

# What is not prose, each replaced by as many blanks. Order matters: fences before code spans, code before links.
_NOT_PROSE = [
    re.compile(r"\A---\n.*?\n---\n", re.S),  # front matter
    re.compile(r"^(?P<fence>`{3,}|~{3,})(?!\{)[^\n]*\n.*?^(?P=fence)`*~*[ ]*$", re.S | re.M),  # code
    re.compile(r"^(?P<fence>[`:~]{3,})\{(?:code|code-block|code-cell|literalinclude|image|mermaid|bibliography|toctree)\b.*?^(?P=fence)[ ]*$", re.S | re.M),
    re.compile(r"^[ ]*[`:~]{3,}.*$", re.M),  # the first and last line of a directive
    re.compile(r"^[ ]*:[\w-]+:.*$", re.M),  # its options
    re.compile(r"^[ ]*%.*$", re.M),  # comments
    re.compile(r"^\([^)\n]+\)=[ ]*$", re.M),  # targets
    re.compile(r"^#{1,6}[ ].*$", re.M),  # headings
    re.compile(r"\{[\w:.-]+\}(?P<role>`+).+?(?P=role)", re.S),  # roles
    re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.S),  # code in a line
    re.compile(r"(?<=\[)[^\]\n]*(?=\]\([^)\n]*bibliography\.md#)"),  # citations
    re.compile(r"(?<=\])\([^)\n]*\)"),  # where links lead
    re.compile(r"^\[[^\]\n]+\]:.*$", re.M),  # and their definitions
    re.compile(r"<?\bhttps?://[^\s>)]+>?"),
    re.compile(r"<!--(?!\s*(?:claim|value|output|free)\b).*?-->", re.S),  # comments that name no source
    re.compile(r"</?[A-Za-z][^<>]*>"),  # HTML tags
]


def blanked(text):
    """The text with everything that is not prose blanked out; every other character keeps its place."""
    for pattern in _NOT_PROSE:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


class Figure(NamedTuple):
    """A number in prose: where it stands, how it is written, and whether it needs a source."""

    start: int
    end: int
    text: str
    needs_source: bool


def numbers(text, start=0, end=None, maths=False):
    """Every number in a stretch of prose, small whole numbers too."""
    found = []
    for match in NUMBER.finditer(text, start, len(text) if end is None else end):
        written = re.sub(r"\{,\}|\\,", ",", match[0]).replace("\\", "").strip()
        written = re.sub(r"\s?(?:times|cdot|×|·)\s?10\^\{?([-−]?\d+)\}?", r"e\1", written)
        found.append(Figure(match.start(), match.end(), written, _needs_source(match, text, maths)))
    return found


def _needs_source(match, text, maths):
    if NUMBERED.search(text, max(0, match.start() - 20), match.start()):
        return False
    if match["percent"] or match["decimals"]:
        return True
    whole = int(re.sub(r"\D", "", match["whole"]))
    if match["power"]:
        return whole != 1
    return not maths and whole >= 1000 and not (whole in YEARS and match["whole"].isdigit())


class Group(NamedTuple):
    """The figures that one comment speaks for."""

    figures: list[Figure]
    start: int
    source: str
    in_maths: bool


def groups_and_rest(text):
    """The figures of a blanked text: those with a comment behind them, in groups, and the others."""
    prose = COMMENT.sub(lambda match: " " * len(match[0]), text)
    spans = [match.span() for match in MATHS.finditer(prose)]
    outside = "".join(" " if any(a <= i < b for a, b in spans) else character for i, character in enumerate(prose))
    in_prose = numbers(outside)
    in_maths = [numbers(prose, a, b, maths=True) for a, b in spans]
    groups, taken = [], set()
    for comment in COMMENT.finditer(text):
        group = _figures_before(prose, comment.start(), spans, in_maths, in_prose)
        groups.append(group._replace(source=comment["source"]))
        taken.update(figure.start for figure in group.figures)
    every = sorted([*in_prose, *(figure for figures in in_maths for figure in figures)])
    return groups, [figure for figure in every if figure.needs_source and figure.start not in taken]


def _figures_before(prose, place, spans, in_maths, in_prose):
    """The figures of the formula, list or number that ends at a place, closing marks between them or not."""
    end = len(prose[:place].rstrip())
    for (start, stop), figures in zip(spans, in_maths, strict=True):
        if stop == end or (start < end < stop):
            return Group(figures, start, "", True)
    end = len(prose[:end].rstrip("*_)"))
    if prose[:end].endswith("]"):
        start = prose.rfind("[", 0, end)
        return Group([figure for figure in in_prose if start < figure.start < end], start, "", False)
    last = [figure for figure in in_prose if figure.end == end]
    return Group(last, last[0].start if last else end, "", False)


# ---- sources ----------------------------------------------------------------
_SOURCE = re.compile(r"(?P<kind>claim|value|output|free)(?:\s*:\s*(?P<rest>.*))?\Z", re.S)


def expected(source, output_text=""):
    """What one source says: a list of values, in order, and whether they are prints; None for `free`."""
    match = _SOURCE.match(source.strip())
    if not match or (match["kind"] != "free" and not match["rest"]):
        raise ValueError("a source reads `claim: ID`, `value: NAME`, `output: WORDS` or `free`")
    if match["kind"] == "free":
        return None
    rest = match["rest"].strip()
    if match["kind"] == "output":
        return [_from_output(rest, output_text)]
    if match["kind"] == "value":
        value = claims.evaluate(rest.removeprefix("="), named, noam=_noam)
    else:
        words, tail = re.match(r"([^[*/]*)(.*)", rest, re.S).groups()
        value = _from_claims(words)
        if tail:  # a print is a string until it is calculated with
            value = np.array(value, dtype=float if re.search("[*/]", tail) else object)
            value = claims.evaluate(f"claim{tail}", {"claim": value}.get)
    values = claims.flat(value)
    if any(isinstance(v, bool) or (isinstance(v, str) and not claims.is_figure(v)) for v in values):
        raise ValueError(f"{rest} is {values}, not numbers")
    return values


def _from_claims(words):
    claim_id, *path = words.split()
    entry = claims.lookup(claim_id)
    if not path:
        return claims.right_value(entry)
    field, *keys = path
    field = "literal_value" if field == "literal" else field
    if field not in entry and isinstance(claims.right_value(entry), dict):
        field, keys = None, path
    value = claims.right_value(entry) if field is None else entry.get(field)
    if field == "extra":
        value = entry.get("extra", {}) | entry.get("computed_extra", {})
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"{claim_id} has no {' '.join(path)}")
        value = value[key]
    if value is None:
        raise ValueError(f"{claim_id} has no {' '.join(path)}")
    return value


def _from_output(words, output_text):
    found = re.findall(re.escape(words) + r"[\s:=≈]*(" + NUMBER.pattern + ")", output_text)
    values = {match[0].strip() for match in found}
    if len(values) != 1:
        raise ValueError(f"{'no output' if not values else 'more than one output'} of this page has {words!r} before a number")
    return [*values][0]


# ---- the package's values ---------------------------------------------------
def _noam(step, d_model):
    from byhand.numpy import optimizer

    return optimizer.noam(int(step), int(d_model))


@functools.cache
def _run(example):
    """One worked example, computed: its sizes, parameters, activations, and the gradient of its loss at every stage and parameter."""
    from byhand import toy
    from byhand.numpy import loss, softmax, step

    room, _, name = example.partition(".")
    if room != "toy" or name not in ("document", "exact", "lively", "generic"):
        raise ValueError(f"there is no worked example {example!r}; they are toy.document, toy.exact, toy.lively and toy.generic")
    case = getattr(toy, name)()
    result = step.run(case)
    logits = result.output.logits
    values = case.params | result.output.activations | {"loss": result.loss, "probabilities": softmax.softmax(logits)[0]}
    values |= {f"gradient.{name}": value for name, value in (result.gradients.stages | result.gradients.params).items()}
    for reduction in ("mean", "sum", "last"):
        values[f"loss.{reduction}"] = loss.cross_entropy(logits, case.targets, case.smoothing, lengths=case.target_lengths, reduction=reduction)[0]
    values |= {f"config.{field}": value for field, value in vars(case.config).items()}
    return values | {"parameters": sum(array.size for array in case.params.values())}


def named(words):
    """The value that `toy.document:NAME` names, or NAME alone for that example: a number or an array."""
    example, _, name = words.rpartition(":")
    example = example or "toy.document"
    if name not in _run(example):
        raise ValueError(f"{example} has no {name!r}; it has activations, parameters, gradient.NAME, loss, probabilities, config.FIELD")
    return _run(example)[name]


# ---- checking ---------------------------------------------------------------
def problems_of(prose, output_text=""):
    """What is wrong with the figures in one piece of prose."""
    text = blanked(prose.text)
    groups, rest = groups_and_rest(text)
    found = []
    for group in groups:
        try:
            complaint = _complaint(text, group, output_text)
        except ValueError as error:
            complaint = str(error)
        if complaint:
            found.append((group.start, f"{complaint} <!-- {group.source} -->"))
    found += [(figure.start, f"{figure.text} has no source") for figure in rest]
    return [Problem(prose.page, prose.cell, _around(prose.text, start), complaint) for start, complaint in sorted(found)]


def _complaint(text, group, output_text):
    """What is wrong with one group of figures, or nothing."""
    if not group.figures:
        return "no figure stands right before the comment"
    sources = group.source.split(";")
    values = []
    for source in sources:
        says = expected(source, output_text)
        values += [(None, source)] if says is None else [(value, source) for value in says]
    if values == [(None, group.source)]:
        return ""
    figures = _matching(text, group, len(values))
    if len(figures) != len(values):
        return f"{len(figures)} figures, but {len(values)} values in the source"
    for figure, (value, source) in zip(figures, values, strict=True):
        if value is not None and not _is(figure.text, value):
            return f"{figure.text} is not {_digits(value, figure.text)} ({source.strip()} is {value})"
    return ""


def _matching(text, group, count):
    """Of the numbers in a formula, those that are meant: the figures, or all within its last brackets."""
    if not group.in_maths:
        return group.figures
    figures = [figure for figure in group.figures if figure.needs_source]
    if len(figures) == count:
        return figures
    last = group.figures[-1].end
    opening = max(text.rfind(bracket, group.start, last) for bracket in ("[", "matrix}", "("))
    bracketed = [figure for figure in group.figures if figure.start > opening]
    if len(bracketed) == count:
        return bracketed
    return group.figures[-1:] if count == 1 and not figures else figures


def _is(figure, value):
    if isinstance(value, str):  # a print, or a number in an output
        exact = claims.printed_decimal(value)
        written = claims.printed_decimal(figure)
        return written == exact or (written.as_tuple().exponent > exact.as_tuple().exponent and claims.rounds_half_up(value, written))
    return claims.rounds_half_up(value, str(claims.printed_decimal(figure)))


def _digits(value, figure):
    return claims.rounded_like(figure, claims.printed_decimal(value)) if claims.is_figure(value) else value


def _around(text, place, width=45):
    return " ".join(text[max(0, place - width) : place + width].split())


def problems(page):
    """What is wrong with the figures on one page."""
    output_text = output_text_of(page)
    return [problem for prose in prose_of(page) for problem in problems_of(prose, output_text)]


def main(paths):
    found = [problem for page in (map(Path, paths) if paths else pages()) for problem in problems(page)]
    print("\n".join(map(str, found)) or "every figure has a source and is what it says")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
