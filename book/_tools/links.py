"""Links that lead somewhere wherever a page is read: on the site, in JupyterLab, on GitHub, in VS Code.

    python book/_tools/links.py      writes book/appendix/bibliography.md from book/references.bib

Only Sphinx knows its roles. Authors may write them; the normaliser makes each an ordinary link:

    {doc}`06-attention`       [Score, softmax, mix](06-attention.ipynb)
    {cite:p}`vaswani2017`     ([Vaswani et al. 2017](../appendix/bibliography.md#vaswani-et-al-2017)); {cite:t} leaves the parentheses out
    {term}`encoder`           [encoder](../appendix/glossary.md#term-encoder)
"""

import functools
import os
import re
import sys
from pathlib import Path

import pybtex.database
from pybtex.backends.markdown import Backend
from pybtex.style.formatting.plain import Style
from pybtex.style.template import field, sentence

sys.path.insert(0, str(Path(__file__).resolve().parent))
import toc  # noqa: E402

REFERENCES = toc.ROOT / "book/references.bib"
BIBLIOGRAPHY = toc.ROOT / "book/appendix/bibliography.md"
GLOSSARY = toc.ROOT / "book/appendix/glossary.md"
ROLE = re.compile(r"(?P<before>\(?)\{(?P<name>doc|term|cite(?::[pt])?)\}`(?:(?P<text>[^`<]+?)\s*<(?P<named>[^`>]+)>|(?P<target>[^`<]+))`")
INTRODUCTION = """\
# Bibliography

<!-- Written by book/_tools/links.py from book/references.bib. -->

The two documents that this book follows are *Transformer from Scratch: The Full Forward Pass, Backprop, and Weight Update Math*
and *The AI Stack: Transformers, Attention & Gradient Flow* by Nate Dinh. Figures carry over from them; sentences and code are this book's own.
"""


class Lean(Backend):
    """Markdown that is readable as it stands: full stops and hyphens need no backslash."""

    def format_str(self, str_):
        return re.sub(r"\\([.-])", r"\1", super().format_str(str_))


class AsPrinted(Style):
    """The plain style, but for titles: they keep their capitals."""

    def format_title(self, e, which_field, as_sentence=True):
        title = field(which_field)
        return sentence[title] if as_sentence else title


@functools.cache
def references():
    return pybtex.database.parse_file(REFERENCES)


@functools.cache
def labels():
    """{key: 'Vaswani et al. 2017'}; a second work of the same authors and year has a b behind it."""
    found = {}
    for key, entry in references().entries.items():
        names = [" ".join([*person.prelast_names, *person.last_names]) for person in entry.persons.get("author", [])]
        if len(names) > 2:
            names = [f"{names[0]} et al."]
        label = f"{' and '.join(names) or entry.fields['key']} {entry.fields.get('year', '')}".strip()
        same = sum(re.fullmatch(re.escape(label) + "[b-z]?", other) is not None for other in found.values())
        found[key] = label + ("" if not same else chr(ord("a") + same))
    return found


def anchor(heading):
    """The address of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")


def bibliography():
    """The page of all works, under headings that links can lead to."""
    entries = sorted(AsPrinted().format_bibliography(references()), key=lambda entry: labels()[entry.key].casefold())
    works = [f"## {labels()[entry.key]}\n\n{' '.join(entry.text.render(Lean()).split())}\n" for entry in entries]
    return "\n".join([INTRODUCTION, *works])


def plain(text, page):
    """The text of a page with ordinary links in the place of Sphinx's roles."""
    return ROLE.sub(lambda role: role["before"] + link(role, page), text)


def link(role, page):
    target = role["named"] or role["target"]
    if role["name"] == "doc":
        return to_page(target, role["text"], page)
    if role["name"] == "term":
        return f"[{role['text'] or target}]({relative(GLOSSARY, page)}#term-{anchor(target)})"
    cited = ", ".join(to_work(key.strip(), page) for key in target.split(","))
    return cited if role["before"] or role["name"] == "cite:t" else f"({cited})"


def to_page(target, text, page):
    start = toc.ROOT / target[1:] if target.startswith("/") else page.parent / target
    file = next((file for suffix in (".ipynb", ".md") if (file := start.with_name(start.name + suffix)).is_file()), None)
    if file is None:
        raise ValueError(f"{page}: {{doc}}`{target}` names no page")
    return f"[{text or toc.title(file)}]({relative(file, page)})"


def to_work(key, page):
    if key not in labels():
        raise ValueError(f"{page}: book/references.bib has no {key!r}; it has {', '.join(sorted(labels()))}")
    return f"[{labels()[key]}]({relative(BIBLIOGRAPHY, page)}#{anchor(labels()[key])})"


def relative(file, page):
    """How a link on a page names a file."""
    return Path(os.path.relpath(file, page.resolve().parent)).as_posix()


if __name__ == "__main__":
    BIBLIOGRAPHY.write_text(bibliography(), encoding="utf-8")
