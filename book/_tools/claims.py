"""The ledger of the two documents' claims, book/claims.yml: reading it, and comparing a value with a print.

Computes nothing with the package, so that what checks the package's figures does not rest on them; a number is rounded as the pages round it.
"""

import ast
import difflib
import functools
import math
import operator
import re
from pathlib import Path

import yaml

from byhand.worked.formatting import printed_decimal, rounded_like, rounds_half_up

CLAIMS = Path(__file__).resolve().parent.parent / "claims.yml"


# ---- reading ----------------------------------------------------------------
@functools.cache
def load(path=CLAIMS):
    """Every entry under its id, in the file's order."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries = yaml.load(Path(path).read_text(encoding="utf-8"), loader)["claims"]
    found = {entry["id"]: entry for entry in entries}
    if len(found) != len(entries):
        raise ValueError(f"{path} holds an id twice")
    return found


def lookup(claim_id, claims=None):
    """The entry with this id; ValueError, with the nearest ids, where there is none."""
    claims = load() if claims is None else claims
    if claim_id not in claims:
        near = ", ".join(difflib.get_close_matches(claim_id, claims, 3)) or "none is near"
        raise ValueError(f"no claim has the id {claim_id!r} (nearest: {near})")
    return claims[claim_id]


def right_value(entry):
    """What is right: the book's own figure where the entry has one, the recomputed one otherwise."""
    return entry.get("computed", entry["exact"])


def flat(value):
    """The leaves of nested lists, dicts and arrays, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


# ---- figures ----------------------------------------------------------------
def is_figure(text):
    """Whether a print is a number at all ('n' and '1/sqrt(2)' are not)."""
    try:
        printed_decimal(text)
    except ValueError:
        return False
    return True


def shown(value, printed):
    """The value written with the digits of a print: shown(0.8915, '0.891') is '0.892', shown(1.747e-7, '1.75e-7') '1.75e-7'."""
    rounded = rounded_like(printed, value)
    rounded = abs(rounded) if rounded == 0 else rounded
    if "e" not in str(printed):
        return f"{rounded:,f}" if "," in str(printed) else f"{rounded:f}"
    digits = str(printed).split("e")[0].partition(".")[2]
    mantissa, _, exponent = f"{rounded:.{len(digits)}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


# ---- verdicts ---------------------------------------------------------------
def has_print(entry):
    """Whether the entry prints figures that a value can be compared with."""
    return entry.get("compare") != "none" and entry["printed"] is not None and all(map(is_figure, flat(entry["printed"])))


def print_agrees(entry, value):
    """Whether the print is the value: to the printed digits, or fully where the document did not round."""
    prints, values = flat(entry["printed"]), flat(value)
    if len(prints) != len(values):
        return False
    if entry["rounding"] == "exact":
        return all(abs(float(printed_decimal(p)) - v) <= 1e-12 * max(1, abs(v)) for p, v in zip(prints, values, strict=True))
    return all(rounds_half_up(v, p) for p, v in zip(prints, values, strict=True))


VERDICTS = ("agrees", "agrees, but misleading", "differs", "holds", "holds, but misleading", "does not hold")


def verdict(entry):
    """One of VERDICTS. A print agrees or differs; a statement without one holds or does not."""
    yes, no = ("agrees", "differs") if has_print(entry) else ("holds", "does not hold")
    if not entry["agrees"]:
        return no
    return f"{yes}, but misleading" if entry.get("misleading") else yes


# ---- expressions ------------------------------------------------------------
_CONSTANTS = {"E": math.e, "e": math.e, "pi": math.pi}
_FUNCTIONS = {name: getattr(math, name) for name in ("sqrt", "exp", "log", "log10", "sin", "cos", "tanh", "cosh", "sinh")}
_FUNCTIONS |= {"Rational": operator.truediv, "abs": abs}
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_DOTTED = re.compile(r"'[^']*'|[A-Za-z_]\w*(?:[.:]\w+)+")


def evaluate(expression, named=None, **more):
    """The value of a closed form such as '1/(1+exp(-2*sqrt(2)))', or of an expression such as 'sum(toy.exact:logits[0,1]) < 1e-12'.

    Numbers, + - * / // ** @, comparisons, and, or, not, E, pi and a few functions. named: gives the value of any other name, which may
    have points and a colon in it; a named value and what a function returns may be indexed. more: further functions, by name. Nothing
    else is understood, so an expression can do no more than these functions can.
    """
    functions, dotted = _FUNCTIONS | more, {}

    def stand_in(match):
        if match[0].startswith("'"):  # words, no name
            return match[0]
        key = f"_{len(dotted)}"
        dotted[key] = match[0]
        return key

    def value_of(name):
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if named is None:
            raise KeyError(name)
        return named(dotted.get(name, name))

    try:
        return _evaluate(ast.parse(_DOTTED.sub(stand_in, str(expression).strip()), mode="eval").body, value_of, functions)
    except IndexError as error:
        raise ValueError(f"{expression}: the index does not fit: {error}") from None
    except (SyntaxError, KeyError, TypeError) as error:
        known = ", ".join([*_CONSTANTS, *functions])
        raise ValueError(f"{expression!r} is not an expression of numbers, + - * / **, {known}") from error


def _evaluate(node, value_of, functions):
    def value(part):
        return _evaluate(part, value_of, functions)

    match node:
        case ast.Constant(value=int() | float() | str() as constant) if not isinstance(constant, bool):
            return constant
        case ast.Name(id=name):
            return value_of(name)
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](value(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(map(value, parts))
        case ast.Subscript(value=ast.Name() | ast.Call() | ast.Subscript() as whole, slice=index):
            return value(whole)[value(index)]
        case ast.Tuple(elts=parts):
            return tuple(map(value, parts))
        case ast.List(elts=parts):
            return list(map(value, parts))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if bound is None else value(bound) for bound in (lower, upper, step)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return functions[name](*map(value, args), **{keyword.arg: value(keyword.value) for keyword in keywords})
    raise TypeError(type(node).__name__)
