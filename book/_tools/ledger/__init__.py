"""The ledger: every claim of claims.yml that code can check, recomputed with the package.

An entry says itself how it is recomputed, in expressions (see claims.evaluate), where one line is enough:

    recompute: encoder.0.self_attention.q[0,0,0,0]     what `exact` (or `computed`) must be; or a list or dict of expressions
    recompute_extra: {ratio_to_lr1: ...}               the figures under `extra`
    holds: masked_weight == 0                          for a statement without a print, whether it holds, from what was found

A name is a value of toy.document(), or of another example, toy.lively:NAME; in `holds` also one of the figures found, or `found` itself.
Functions are those of FUNCTIONS, and what the modules document_*.py declare with @named. What takes more stands in these modules:

    @claim("d1-p-minus-q")                                          the function's value is what `exact` (or `computed`) must be
    @extra("d1-bwd-ln-formula")                                     the figures under `extra`
    @as_stated("d1-cross-h")                                        `exact`, where `computed` takes its place

A statement that says nowhere when it holds holds where all its figures that are questions are answered with yes. A formula's
function returns the largest difference between what the package computes and an independent computation.
"""

import functools
import importlib
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import claims  # noqa: E402
import figures  # noqa: E402

from byhand.numpy import optimizer, position, softmax  # noqa: E402

from . import samples  # noqa: E402

TOLERANCE = 1e-9  # relative; below 1e-14 in size, a difference is rounding in float64

_VALUES, _EXTRAS, _AS_STATED = {}, {}, {}


def printed(claim_id):
    """The figures that a document prints."""
    return np.array(claims.lookup(claim_id)["printed"], dtype=float)


# What an expression may call, beside what the modules declare.
FUNCTIONS = {
    name: getattr(np, name)
    for name in ("abs", "arctan2", "exp", "eye", "float16", "float32", "log", "max", "mean", "min", "round", "shape", "sqrt", "sum", "transpose", "var")
}
FUNCTIONS |= {function.__name__: function for function in (printed, samples.draw, samples.entropy, samples.largest)}
FUNCTIONS |= {"noam": optimizer.noam, "norm": np.linalg.norm, "sinusoidal": position.sinusoidal, "softmax": lambda scores: softmax.softmax(scores)[0]}


def named(function):
    """Let expressions call a function by its name."""
    if function.__name__ in FUNCTIONS:
        raise ValueError(f"expressions know a {function.__name__} already")
    FUNCTIONS[function.__name__] = function
    return function


def claim(claim_id):
    """Recompute one entry by a function without arguments."""
    return lambda function: _register(_VALUES, claim_id, function, "recompute")


def extra(claim_id):
    """Recompute the further figures of one entry: a dict with their names."""
    return lambda function: _register(_EXTRAS, claim_id, function, "recompute_extra")


def as_stated(claim_id):
    """Recompute `exact` of an entry whose `computed` takes its place."""
    return lambda function: _register(_AS_STATED, claim_id, function, "recompute_as_stated")


def _register(table, claim_id, function, field):
    if claim_id in table or field in claims.lookup(claim_id):
        raise ValueError(f"{claim_id} is recomputed twice")
    table[claim_id] = functools.cache(function)
    return function


# ---- asking -----------------------------------------------------------------
@functools.cache
def documents():
    """Import every document_*.py beside this file, so that it registers its entries."""
    for path in sorted(Path(__file__).parent.glob("document_*.py")):
        importlib.import_module(f"{__name__}.{path.stem}")


def recomputed():
    """The ids that have a recomputation."""
    documents()
    return _VALUES.keys() | {claim_id for claim_id, entry in claims.load().items() if "recompute" in entry}


def recompute(entry):
    """What the package computes for one entry, as plain numbers, lists and dicts; None where nothing recomputes it."""
    return _found(entry, "recompute", _VALUES)


def _found(entry, field, table):
    documents()
    if field in entry:
        return evaluated(entry[field])
    return plain(table[entry["id"]]()) if entry["id"] in table else None


def evaluated(expressions):
    """What an expression gives, or each of a list or dict of them."""
    if isinstance(expressions, dict):
        return {name: evaluated(expression) for name, expression in expressions.items()}
    if isinstance(expressions, list):
        return list(map(evaluated, expressions))
    return _evaluated(expressions)


@functools.cache
def _evaluated(expression):
    return plain(claims.evaluate(expression, figures.named, **FUNCTIONS))


def complaints(entry):
    """What differs between one entry of claims.yml and its recomputation; nothing where all is well."""
    found, right = recompute(entry), claims.right_value(entry)
    if found is None:
        yield "nothing recomputes it"
        return
    if is_formula(entry):
        yield from [] if found < TOLERANCE else [f"the formula differs from an independent computation by {found}"]
        holds = found < TOLERANCE
    else:
        yield from differences(found, right, "exact")
        holds = is_true(entry, found)
    if holds != entry["agrees"]:
        yield f"agrees is {entry['agrees']}, but the print or statement {'holds' if holds else 'does not hold'}"
    if entry["id"] in _AS_STATED:
        yield from differences(_found(entry, "recompute_as_stated", _AS_STATED), entry["exact"], "exact, as stated")
    if "extra" in entry:
        extras = _found(entry, "recompute_extra", _EXTRAS) or {}
        yield from differences(extras, entry["extra"] | entry.get("computed_extra", {}), "extra")


def is_true(entry, found):
    """Whether the print, or the statement where nothing is printed to compare, is true of what was found."""
    if claims.has_print(entry):
        return claims.print_agrees(entry, _found(entry, "recompute_as_stated", _AS_STATED) if "computed" in entry else found)
    if entry["printed"] is not None and entry.get("compare") != "none":
        return spells(entry["printed"], found)
    if "holds" in entry:
        own = {"found": found} | (found if isinstance(found, dict) else {})
        return bool(claims.evaluate(entry["holds"], lambda name: own[name] if name in own else figures.named(name), **FUNCTIONS))
    return every(found)


def every(found):
    """Whether all figures that are questions are answered with yes."""
    answers = [part for part in found.values() if isinstance(part, bool)]
    if not answers:
        raise ValueError(f"none of {', '.join(found)} is a question; the entry must say when it holds")
    return all(answers)


def spells(printed, found):
    """Whether a print in letters, such as a shape (n, d), or in expressions, such as 1/sqrt(2), is what was found."""
    if isinstance(printed, list):
        return len(printed) == len(found) and all(map(spells, printed, found))
    return printed == found if isinstance(found, str) else abs(claims.evaluate(printed) - found) <= TOLERANCE


def is_formula(entry):
    """Whether what is right is an identity, and the check its residual."""
    return str(entry["exact"]).startswith("identity")


def differences(found, right, name):
    """Where two values of one structure differ: numbers by more than the tolerance, anything else at all."""
    if isinstance(right, dict) and isinstance(found, dict):
        if found.keys() != right.keys():
            yield f"{name}: has {sorted(found)}, must have {sorted(right)}"
        for key in found.keys() & right.keys():
            yield from differences(found[key], right[key], f"{name} {key}")
    elif isinstance(right, list) and isinstance(found, list):
        if len(found) != len(right):
            yield f"{name}: has {len(found)} entries, must have {len(right)}"
        for i, (a, b) in enumerate(zip(found, right, strict=False)):
            yield from differences(a, b, f"{name}[{i}]")
    elif _is_number(right) and _is_number(found):
        if not abs(found - right) <= TOLERANCE * abs(right) + 1e-14:
            yield f"{name}: recomputed {found!r}, but the file has {right!r}"
    elif found != right or isinstance(found, bool) != isinstance(right, bool):
        yield f"{name}: recomputed {found!r}, but the file has {right!r}"


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value):
    """Arrays and their scalars as lists and Python numbers."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
