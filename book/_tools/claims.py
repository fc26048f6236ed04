"""The ledger of the two documents' claims, book/claims.yml: reading it, and comparing a value with a print.

Knows nothing of the package, so that what checks the package's figures does not rest on the package.
"""

import ast
import difflib
import functools
import math
import operator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from pathlib import Path

import yaml

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
    """The leaves of nested lists and dicts, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


# ---- figures ----------------------------------------------------------------
def as_decimal(figure):
    """A printed figure as an exact decimal: '−0.853', '13,781', '1.75e-7', '1.75 × 10^-7' and '94.4 %' (which is 94.4)."""
    text = str(figure).replace("−", "-").replace("%", "").replace(",", "").replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    for ten in ("×10^", "·10^", "x10^"):
        text = text.replace(ten, "e")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{figure!r} is not a figure") from None


def is_figure(text):
    """Whether a print is a number at all ('n' and '1/sqrt(2)' are not)."""
    try:
        as_decimal(text)
    except ValueError:
        return False
    return True


def rounded_half_up(value, printed):
    """The value at the precision of a print, halves rounded away from zero, as a Decimal."""
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be rounded")
    with localcontext() as context:
        context.prec = 400
        # repr, not the binary expansion: 0.025 is meant, not 0.02499999999999999861
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(as_decimal(printed).as_tuple().exponent), ROUND_HALF_UP)


def rounds_half_up(value, printed):
    """Whether the value, rounded half up to the digits of the print, is the print. −0 is 0."""
    return rounded_half_up(value, printed) == as_decimal(printed)


def shown(value, printed):
    """The value written with the digits of a print: shown(0.8915, '0.891') is '0.892', shown(1.747e-7, '1.75e-7') '1.75e-7'."""
    rounded = rounded_half_up(value, printed)
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
        return all(abs(float(as_decimal(p)) - v) <= 1e-12 * max(1, abs(v)) for p, v in zip(prints, values, strict=True))
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
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def evaluate(expression, **more):
    """The value of a closed form such as '1/(1+exp(-2*sqrt(2)))': numbers, + - * / **, E, pi and a few functions, nothing else.

    more: further functions, by name.
    """
    functions = _FUNCTIONS | more
    try:
        return _evaluate(ast.parse(str(expression).strip(), mode="eval").body, functions)
    except (SyntaxError, KeyError, TypeError) as error:
        known = ", ".join([*_CONSTANTS, *functions])
        raise ValueError(f"{expression!r} is not an expression of numbers, + - * / **, {known}") from error


def _evaluate(node, functions):
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_evaluate(operand, functions))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, functions), _evaluate(right, functions))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return functions[name](*(_evaluate(arg, functions) for arg in args))
    raise TypeError(type(node).__name__)
