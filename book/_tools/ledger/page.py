"""The ledger as an output of a notebook: every claim with its print, the recomputed value, a verdict and the page that works it.

One folded section for each section of the document. The filter runs in the page itself, without a kernel; where scripts do not run,
the sections still open.
"""

import functools
import html
import re
import textwrap
from pathlib import Path

from . import claims, is_formula, recompute
from . import complaints as complaints_of

HERE = Path(__file__).parent
BOOK = HERE.parents[1]
SYMBOLS = {"agrees": "✓", "holds": "✓", "agrees, but misleading": "≈", "holds, but misleading": "≈", "differs": "✗", "does not hold": "✗"}
KINDS = {"✓": "right", "≈": "misleading", "✗": "wrong"}


class Ledger:
    """The claims of one document, recomputed as they are shown. Raises ValueError where the file and the package differ."""

    def __init__(self, document):
        self.document = document
        self.entries = [entry for entry in claims.load().values() if entry["document"] == document]
        self.by_code = [entry for entry in self.entries if entry["checked_by"] == "code"]
        wrong = [f"{entry['id']}: {complaint}" for entry in self.by_code for complaint in complaints_of(entry)]
        if wrong:
            raise ValueError("claims.yml and the package differ:\n" + "\n".join(wrong))
        self.sections = {}
        for entry in self.entries:
            self.sections.setdefault(entry["section"], []).append(entry)

    def summary(self):
        """How many claims, how they fared, and how many were recomputed, in one sentence."""
        count = tally(self.entries)
        verdicts = f"{count['right']} right, {count['misleading']} right but misleading, {count['wrong']} wrong"
        checked = f"all {len(self.by_code)} that code can check are recomputed here"
        return f"Document {self.document}: {len(self.entries)} claims, {verdicts}; {checked}."

    def __repr__(self):
        lines = [self.summary()]
        for section, entries in self.sections.items():
            lines += ["", section]
            for entry in entries:
                printed = f", printed {printed_text(entry)}" if printed_text(entry) else ""
                row = f"{symbol(entry)} {entry['id']}{printed}; right: {'; '.join(value_lines(entry))}"
                lines.append(textwrap.shorten(row, 150, placeholder=" ..."))
        return "\n".join(lines)

    def _repr_html_(self):
        sections = "".join(section_html(section, entries) for section, entries in self.sections.items())
        style, script = ((HERE / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
        return (
            f'<div class="byhand-ledger" data-document="{self.document}"><style>{style}</style>'
            f"<p>{html.escape(self.summary())}</p>"
            f'<div class="tools" hidden></div>{sections}</div><script>{script}</script>'
        )


# ---- words --------------------------------------------------------------------------------------


def symbol(entry):
    return SYMBOLS[claims.verdict(entry)]


def tally(entries):
    """How many are right, misleading and wrong."""
    kinds = [KINDS[symbol(entry)] for entry in entries]
    return {kind: kinds.count(kind) for kind in KINDS.values()}


def printed_text(entry):
    """What the document prints, or nothing."""
    return "" if entry["printed"] is None else in_brackets(entry["printed"])


def in_brackets(value, write=str):
    """Nested lists as text: [[0.944, 0.056], [0.056, 0.944]]."""
    if isinstance(value, list):
        return f"[{', '.join(in_brackets(part, write) for part in value)}]"
    return "yes" if value is True else "no" if value is False else write(value)


def number(value):
    """Six significant digits; what float64 leaves behind where the true value is 0 is 0."""
    if isinstance(value, str):
        return value
    return "0" if abs(value) < 1e-13 else f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")


def as_precise_as(entry):
    """How to write what is right beside a print: with three digits more than the print has, fewer only if they are all there are."""
    prints = [str(print_) for print_ in claims.flat(entry["printed"])]
    if any("e" in print_ for print_ in prints):
        return number
    places = max(len(print_.partition(".")[2]) for print_ in prints) + 3

    def write(value):
        rounded = f"{claims.rounded_like(f'{0:.{places}f}', value):f}"
        if abs(float(rounded) - value) < 1e-12:  # zeros at the end would say that it was rounded
            rounded = rounded.rstrip("0").rstrip(".")
        return "0" if rounded == "-0" else rounded

    return write


def value_lines(entry):
    """What is right, one line for each named figure."""
    value = recompute(entry) if entry["checked_by"] == "code" else claims.right_value(entry)
    if is_formula(entry):
        return [f"agrees with an independent computation within {'1e-12' if value < 1e-12 else '1e-9'}"]
    write = as_precise_as(entry) if claims.has_print(entry) else number
    if isinstance(value, dict):
        return [f"{label(name)}: {in_brackets(part, write)}" for name, part in value.items()]
    if "computed" in entry:
        both = {"in the book's setup": value, "as the document describes it": entry["exact"]}
        return [f"{name}: {in_brackets(part, write)}" for name, part in both.items()]
    return [in_brackets(value, write)]


def label(name):
    """A figure's name in words. Names have no points or signs within numbers: below_1e12 is below 1e-12, above_0_8 above 0.8."""
    words = re.sub(r"below 1e(?=\d)", "below 1e-", name.replace("_", " "))
    return re.sub(r"\b0 (?=\d)", "0.", words)


def checked_by(entry):
    """How the entry was checked, in a word or two."""
    ways = {"code": "recomputed here", "count": "counted in the text", "reference": "the paper or its code", "definition": "given by the document"}
    return ways[entry["checked_by"]]


# ---- HTML ---------------------------------------------------------------------------------------

COLUMNS = ("Claim", "Printed", "Right", "Verdict", "Page")


def section_html(section, entries):
    """One folded section: its name and how its claims fared, then a table."""
    count = ", ".join(f"{n} {kind}" for kind, n in tally(entries).items() if n)
    head = "".join(f'<th role="columnheader" scope="col">{column}</th>' for column in COLUMNS)
    rows = "".join(row_html(entry) for entry in entries)
    return (
        f"<details><summary>{html.escape(section)} <small>{count}</small></summary>"
        f'<table role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table></details>'
    )


def row_html(entry):
    """One claim. The roles keep the table a table where a narrow screen stacks its cells."""
    cells = (claim_html(entry), printed_html(entry), right_html(entry), verdict_html(entry), page_html(entry["page"]))
    named = zip(COLUMNS[1:], cells[1:], strict=True)
    rest = "".join(f'<td role="cell" data-label="{column}">{cell}</td>' for column, cell in named)
    return f'<tr role="row" id="{entry["id"]}" data-kind="{KINDS[symbol(entry)]}"><td role="cell">{cells[0]}</td>{rest}</tr>'


def claim_html(entry):
    parts = [html.escape(entry["claim"])]
    if entry.get("note"):
        parts.append(f"<small>{html.escape(entry['note'])}</small>")
    if entry.get("setup"):
        parts.append(f"<small>Computed with: {html.escape(entry['setup'])}.</small>")
    parts.append(f"<small><code>{entry['id']}</code>, line {entry['line']}, {checked_by(entry)}</small>")
    return "".join(parts)


def printed_html(entry):
    text = html.escape(printed_text(entry)) or '<span class="none">nothing</span>'
    if "literal" in entry and not entry["literal_agrees"]:
        value = claims.shown(entry["literal_value"], entry["printed"])
        text += f"<small>its own operands give {value}</small>"
    return text


def right_html(entry):
    lines = value_lines(entry)
    form = entry.get("closed_form")
    if form and not isinstance(form, list) and form not in lines:
        lines = [*lines, f"= {as_written(form)}"]
    return "<br>".join(map(html.escape, lines))


def as_written(form):
    """A closed form as a person writes it: no Rational, ^ for **."""
    return re.sub(r"Rational\((\d+),([\d*]+)\)", r"(\1/\2)", form).replace("**", "^").replace("E", "e")


def verdict_html(entry):
    return f'<span class="verdict">{symbol(entry)} {claims.verdict(entry)}</span>'


@functools.cache
def page_html(page):
    """The page's short name, as a link if the page is there. (Its title would tie this output to every other page's text.)"""
    name = page.rpartition("/")[2].replace("-", " ")
    if not (BOOK / f"{page}.ipynb").exists():
        return f'<span class="none">{name}</span>'
    return f'<a href="../{page}.html">{name}</a>'
