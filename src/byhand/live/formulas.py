"""A small language of formulas, and a reader that evaluates them with arrays.

A formula is a line such as `sum(@: a * b) / root`. It speaks of operands by name, and of places by letters:

    + - * / ( )              with numbers, and exp log sqrt abs sq
    sum(c: e)  mean  top     the letter c runs through all its values; @ stands for the letters that the stage runs over
    when("why", test, e)     e where the test holds, else 0, for the reason given; `top` leaves it out altogether
    is(test)                 1 or 0; a test is `a = b`, `a > b`, or an operand that is not 0
    size(c)  #0              how many values a letter has; where we are along the stage's first axis

Each operand of a stage reads another stage by a pattern, one group of letters for each axis: `t,c`; `hk` for the heads' columns side by
side; `source@s,c` for the row of a table that the token at s picks. The page has a reader of its own (book/_static/live/step.js), which goes
entry by entry; this one shares nothing with it but the data.
"""

import ast
import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Arrays = dict[str, Array]

FUNCTIONS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "sq": np.square}
BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
REDUCTIONS = ("sum", "mean", "top")
# what the language has beside Python's grammar: the letters of a sum, #0, is(…) and a single =
OWN_SIGNS = re.compile(r'("[^"]*")|\b(sum|mean|top)\(\s*(\w+|@)\s*:|#(\d)|\b(is)\(|=')


class Node(NamedTuple):
    """One place of a formula's tree. over: the letters of a reduction; detail: a number, a name, an axis, a test or a reason."""

    kind: str
    parts: tuple["Node", ...] = ()
    over: str = ""
    detail: Any = None


class Stage(NamedTuple):
    """What a stage is called, its axes, the rule that gives it, the letters this runs over, and what each operand reads."""

    name: str
    axes: str
    rule: str
    over: str
    operands: dict[str, tuple[str, str]]  # the operand's name: stage, pattern


@lru_cache
def parse(text: str) -> Node:
    """The tree of a formula. Raises ValueError for what cannot be read."""
    try:
        return _node(ast.parse(OWN_SIGNS.sub(_in_python, text.strip()), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"formula was {text!r}; it must be of the kind that byhand.live.formulas describes: {error}") from None


def _in_python(match):
    """A sign that Python's grammar lacks, written as a call; words in quotation marks stay."""
    words, reduction, letters, axis, word = match.groups()
    return words or (reduction and f'{reduction}("{letters}",') or (axis and f"axis({axis})") or (word and "is_(") or "=="


def _node(tree) -> Node:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return Node("number", detail=float(number))
        case ast.Name(id=name):
            return Node("operand", detail=name)
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return Node("minus", (_node(part),))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGNS:
            return Node(SIGNS[type(sign)], (_node(left), _node(right)))
        case ast.Call(func=ast.Name(id="axis"), args=[ast.Constant(value=axis)]):
            return Node("axis", detail=axis)
        case ast.Call(func=ast.Name(id="size"), args=[ast.Name(id=letter)]):
            return Node("size", detail=letter)
        case ast.Call(func=ast.Name(id="is_"), args=[test]):
            return Node("is", (_test(test),))
        case ast.Call(func=ast.Name(id="when"), args=[ast.Constant(value=str() as reason), test, value]):
            return Node("when", (_test(test), _node(value)), detail=reason)
        case ast.Call(func=ast.Name(id=word), args=[ast.Constant(value=str() as letters), inner]) if word in REDUCTIONS:
            return Node(word, (_node(inner),), letters)
        case ast.Call(func=ast.Name(id=word), args=[inner]) if word in FUNCTIONS:
            return Node(word, (_node(inner),))
    raise ValueError(f"{ast.unparse(tree)} cannot stand there")


def _test(tree) -> Node:
    match tree:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Gt() as sign], comparators=[right]):
            return Node("test", (_node(left), _node(right)), detail="=" if isinstance(sign, ast.Eq) else ">")
    return Node("test", (_node(tree),), detail="")


def evaluate(rules: dict[str, dict], stages: list[Stage], axes: dict[str, str], sizes: dict[str, int], leaves: Arrays, shown: bool = False) -> Arrays:
    """Every stage's array, in the order of the stages, from the leaves.

    axes gives the leaves' letters, sizes how many values each letter has. An array has one axis for each group of letters. shown=True
    evaluates the formulas as readers see them, where these differ. Raises ValueError for an array of the wrong shape.
    """
    letters = "".join(sizes)
    patterns = axes | {stage.name: stage.axes for stage in stages}
    values = {}
    for name, pattern in axes.items():
        values[name] = np.asarray(leaves[name], dtype=float)
        wanted = tuple(size for size, _ in _shape(pattern, sizes))
        if values[name].shape != wanted:
            raise ValueError(f"leaf {name!r} had shape {values[name].shape}; its axes {pattern!r} are {wanted} here")
    for stage in stages:
        rule = rules[stage.rule]
        text = rule.get("show", rule["formula"]) if shown else rule["formula"]
        reader = _Reader(stage, values, patterns, sizes, letters)
        values[stage.name] = reader.array(parse(" + ".join(stage.operands) if text == "+" else text))
    return values


def _shape(pattern, sizes):
    """(size, letters) of each axis."""
    groups = pattern.split(",") if pattern else []
    return [(int(np.prod([sizes[letter] for letter in group])), group) for group in groups]


class _Reader:
    """Evaluates one stage's formula. Every array has an axis for each letter there is, of size 1 where it does not depend on it."""

    def __init__(self, stage, values, patterns, sizes, letters):
        self.stage, self.values, self.patterns, self.sizes, self.letters = stage, values, patterns, sizes, letters

    def array(self, tree):
        own = [letter for _, group in _shape(self.stage.axes, self.sizes) for letter in group]
        full = self.value(tree)
        odd = [letter for letter, size in zip(self.letters, full.shape, strict=True) if size > 1 and letter not in own]
        if odd:
            raise ValueError(f"stage {self.stage.name!r} has the axes {self.stage.axes!r}, but its formula still depends on {odd}")
        full = np.broadcast_to(full, [self.sizes[letter] if letter in own else 1 for letter in self.letters])
        order = [self.letters.index(letter) for letter in own]
        small = full.transpose(order + [i for i in range(len(self.letters)) if i not in order])
        return small.reshape([size for size, _ in _shape(self.stage.axes, self.sizes)]).copy()

    def value(self, node, left_out=0.0):
        if node.kind == "number":
            return self.spread(np.array(node.detail), "")
        if node.kind == "size":
            return self.spread(np.array(float(self.sizes[node.detail])), "")
        if node.kind == "axis":
            group = self.stage.axes.split(",")[node.detail]
            return self.spread(np.arange(self.sizes[group]), group)
        if node.kind == "operand":
            return self.operand(*self.stage.operands[node.detail])
        if node.kind == "is":
            return self.truth(node.parts[0]).astype(float)
        if node.kind == "when":
            return np.where(self.truth(node.parts[0]), self.value(node.parts[1]), left_out)
        if node.kind in REDUCTIONS:
            over = self.stage.over if node.over == "@" else node.over
            inner = self.value(node.parts[0], -np.inf if node.kind == "top" else 0.0)
            inner = np.broadcast_to(inner, [self.sizes[c] if c in over else n for c, n in zip(self.letters, inner.shape, strict=True)])
            reduce = {"sum": np.sum, "mean": np.mean, "top": np.max}[node.kind]
            return reduce(inner, axis=tuple(self.letters.index(letter) for letter in over), keepdims=True)
        parts = [self.value(part) for part in node.parts]
        with np.errstate(all="ignore"):  # what is not finite is the caller's to see
            return -parts[0] if node.kind == "minus" else (FUNCTIONS | BINARY)[node.kind](*parts)

    def truth(self, test):
        values = [self.value(part) for part in test.parts]
        return values[0] == values[1] if test.detail == "=" else values[0] > values[1] if test.detail == ">" else values[0] != 0

    def operand(self, of, pattern):
        value, groups = self.values[of], pattern.split(",") if pattern else []
        letters = ""
        for axis, group in enumerate(groups):
            tokens, at, letter = group.partition("@")
            if at:
                value = np.take(value, self.values[tokens].astype(int), axis)
            letters += letter if at else group
        return self.spread(value.reshape([self.sizes[letter] for letter in letters]), letters)

    def spread(self, value, letters):
        """An array with the axes `letters` as one with an axis for every letter."""
        order = sorted(range(len(letters)), key=lambda i: self.letters.index(letters[i]))
        shape = [self.sizes[letter] if letter in letters else 1 for letter in self.letters]
        return np.asarray(value).transpose(order).reshape(shape)
