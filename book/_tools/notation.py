"""The letters in the formulas of the first part, held against the tables of book/appendix/notation.ipynb: one name for one thing.

Each letter must stand in one of the tables under 'Sizes', 'Values' and 'Marks', or under 'Letters of single pages' with the page among those
that the table names. A shape under a letter must be one that the table gives. And no letter stands twice for all pages.
"""

import functools
import json
import re
from pathlib import Path

NOTATION = Path(__file__).resolve().parents[1] / "appendix/notation.ipynb"
FOR_ALL, FOR_SOME = ("Sizes", "Values", "Marks"), "Letters of single pages"
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+?)\$", re.S)
GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
WORDS = re.compile(rf"\\(?:text|operatorname|mathrm|begin|end)\*?\s*{GROUP}|\\[,;:! ]|\\\\(?:\[[^\]]*\])?")
INDEX = re.compile(rf"_(?:{GROUP}|\\[a-zA-Z]+|.)")
TOKEN = re.compile(r"\\(hat|mathcal|mathbb)\s*\{?\s*(\\?[a-zA-Z]+|1)|\\([a-zA-Z]+)|[a-zA-Z]+")
GREEK = set(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega".split()
)
NAMES = {"PE", "pos", "lr"}  # letters that belong together
SHAPE = re.compile(rf"\\underset\{{(\([^(){{}}]*(?:{GROUP}[^(){{}}]*)*\))\}}(\{{(?:[^{{}}]|{GROUP})*\}})")


def formulas(markdown):
    """The formulas of a text, without its code and its comments."""
    plain = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", " ", markdown, flags=re.S)
    return [match[1] or match[2] for match in FORMULA.finditer(plain)]


def letters(formula):
    """The letters of a formula without their indices, and without the d of a gradient: {'W', 'γ' as 'gamma', 'hat x', ...}."""
    found = set()
    for over, below, command, run in ((*m.groups(), m[0]) for m in TOKEN.finditer(INDEX.sub(" ", WORDS.sub(" ", formula)))):
        if over:
            found.add(f"{over} {below}")
        elif command:
            found |= {command} & GREEK
        elif run in NAMES:
            found.add(run)
        else:
            found |= set(run[1:] if run[0] == "d" and len(run) > 1 else run)
    return found


def _plain(text):
    """A name or a shape without spaces; d is d_model, and T the positions of whichever sentence."""
    text = re.sub(r"\\[,;]|\s", "", text).replace(r"d_{\text{model}}", "d")
    return re.sub(r"T_(?:\{\\text\{\w+\}\}|[a-z])", "T", text)


@functools.cache
def table(path=NOTATION):
    """{letter: pages, or None for all}, {name with index: its shapes}, and the names that stand twice in one table."""
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    known, single, shapes, twice = set(), {}, {}, []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        names = []
        for symbol, where, *_ in (line.strip("| ").split("|") for line in body.splitlines() if line.startswith("| $")):
            own = formulas(symbol)
            found = set().union(*map(letters, own))
            if title == FOR_SOME:
                for letter in found:
                    single.setdefault(letter, set()).update(re.findall(r"\d+[a-z]?", where))
            elif title in FOR_ALL:
                names += own
                known |= found
                given = [_plain(shape) for shape in formulas(where) if shape.startswith("(")]
                shapes |= {_plain(name): given for name in own if given}
        twice += sorted(name for name in set(names) if names.count(name) > 1)
    return known, single, shapes, twice


def complaints(page, prose):
    """What the formulas of a page of the first part say that the notation does not. page: its number and title, as its file is called."""
    known, single, shapes, twice = table()
    number = re.match(r"0*(\d+[a-z]?)", page)[1]
    yield from (f"{NOTATION.stem} has {name} twice" for name in twice)
    for formula in formulas(prose):
        own = {letter for letter in letters(formula) if number in single.get(letter, ())}
        for letter in sorted(letters(formula) - known - own):
            yield f"has the letter {letter} in ${' '.join(formula.split())[:60]}$, to which {NOTATION.stem} gives no meaning on this page"
        for shape, name in SHAPE.findall(formula):
            name, shape = _plain(name[1:-1]), _plain(shape)
            if name in shapes and shape not in shapes[name] and not letters(name) & own:
                yield f"gives {name} the shape {shape}; {NOTATION.stem} has {' or '.join(shapes[name])}"
