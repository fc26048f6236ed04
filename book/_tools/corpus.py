"""The prose of this repository as plain sentences: how book/stack/corpus.txt was made, once.

    python book/_tools/corpus.py > book/stack/corpus.txt

It takes the Markdown of every page, the READMEs, the ledger's claims, the shop's leaflets and the docstrings, in the order of
their paths, and keeps the whole sentences: no code, no mathematics, no tables, no link targets, nothing twice. The committed file
is frozen, so that editing a page changes no tokenizer and no training run; a test holds its checksum.
"""

import ast
import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = re.compile(r"""["(]?[A-Z][A-Za-z0-9 ,;:'"()./%-]*[.?]""")
_DROPPED = [
    re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)`*~*[ ]*$", re.S | re.M),
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"^(?:[ ]*[|#:%].*|\([^)\n]+\)=)$", re.M),  # tables, headings, options, comments, targets
    re.compile(r"</?[A-Za-z][^<>]*>"),
]
_KEPT = [
    (re.compile(r"\{[\w:.-]+\}`([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),  # roles: their words
    (re.compile(r"\[([^\]\n]+)\]\([^)\n]*\)"), r"\1"),  # links: their words
    (re.compile(r"[*_`]{1,2}(?=\S)([^*`\n]+?)(?<=\S)[*_`]{1,2}(?!\w)"), r"\1"),  # emphasis, code in a line
    (re.compile(r"\$([A-Za-z]|\d+)\$"), r"\1"),  # a letter or a number is read as it stands
    (re.compile("\N{RIGHT SINGLE QUOTATION MARK}"), "'"),
]


def sentences(text):
    """The whole sentences of each paragraph; one that holds mathematics, code or an unusual character is left out."""
    for pattern in _DROPPED:
        text = pattern.sub("", text)
    for pattern, words in _KEPT:
        text = pattern.sub(words, text)
    for paragraph in re.split(r"\n\s*\n|\n[ ]*(?:[-*]|\d+\.)[ ]", text):
        pieces = re.split(r"(?<=[.?])\s+(?=[\"(]?[A-Z$`])", " ".join(paragraph.split()))
        yield [piece for piece in pieces if SENTENCE.fullmatch(piece) and len(piece.split()) > 3 and "://" not in piece and "_" not in piece]


def texts(root=ROOT):
    """Every text of the repository, in the order of its path."""
    kinds = {".ipynb": _of_notebook, ".md": lambda path: [path.read_text("utf-8")], ".py": _of_module, ".yml": _of_yaml, ".yaml": _of_yaml}
    for path in sorted(path for folder in ("book", "src", "examples", "benchmarks", "tests") for path in (root / folder).rglob("*")):
        if path.suffix in kinds and "vendor" not in path.parts and not any(part.startswith(".") for part in path.parts[len(root.parts) :]):
            yield from kinds[path.suffix](path)
    for name in ("README.md", "CONTRIBUTING.md"):
        yield (root / name).read_text("utf-8")


def _of_notebook(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def _of_module(path):
    tree = ast.parse(path.read_text("utf-8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _of_yaml(path):
    def words(value):
        if isinstance(value, str):
            yield value
        parts = [part for key, part in value.items() if key != "section"] if isinstance(value, dict) else value  # a document's headings are not ours
        for part in parts if isinstance(parts, list) else ():
            yield from words(part)

    return list(words(yaml.safe_load(path.read_text("utf-8"))))


def corpus(root=ROOT):
    """One paragraph a line, each sentence once."""
    seen, lines = set(), []
    for text in texts(root):
        for paragraph in sentences(text):
            new = [sentence for sentence in dict.fromkeys(paragraph) if sentence not in seen]
            seen.update(new)
            lines += [" ".join(new)] if new else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(corpus())
