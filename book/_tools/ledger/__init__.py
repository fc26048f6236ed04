"""The ledger: every claim of claims.yml that code can check, recomputed with the package.

Modules document_*.py give each entry, by its id, a look-up or a small function:

    look_up({"d1-q-00": "encoder.0.self_attention.q[0,0,0,0]"})     a value of toy.document(), or toy.lively:NAME[...]
    @claim("d1-softmax-exp")                                        the function's value is what `exact` (or `computed`) must be
    @claim("d1-p-confidently-wrong", holds=lambda found: ...)       ... and for a statement without a print, whether it holds
    @claim("d2-take-routing", holds=every)                          ... where that is: all of what was found is true
    @extra("d1-p")                                                  the figures under `extra`
    @as_stated("d1-cross-h")                                        `exact`, where `computed` takes its place

A formula's function returns the largest difference between what the package computes and an independent computation.
"""

import functools
import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import claims  # noqa: E402
import figures  # noqa: E402

TOLERANCE = 1e-9  # relative; below 1e-14 in size, a difference is rounding in float64

_VALUES, _EXTRAS, _AS_STATED, _HOLDS = {}, {}, {}, {}


def look_up(table):
    """Recompute each entry of the table as one named value of a worked example."""
    for claim_id, expression in table.items():
        _register(_VALUES, claim_id, functools.partial(figures.array_of, expression))


def claim(claim_id, holds=None):
    """Recompute one entry by a function without arguments."""

    def decorate(function):
        _register(_VALUES, claim_id, function)
        if holds is not None:
            _HOLDS[claim_id] = holds
        return function

    return decorate


def every(found):
    """All figures of an entry are true: for a statement whose figures are all questions with yes for an answer."""
    return all(found.values())


def extra(claim_id):
    """Recompute the further figures of one entry: a dict with their names."""
    return functools.partial(_register, _EXTRAS, claim_id)


def as_stated(claim_id):
    """Recompute `exact` of an entry whose `computed` takes its place."""
    return functools.partial(_register, _AS_STATED, claim_id)


def _register(table, claim_id, function):
    claims.lookup(claim_id)
    if claim_id in table:
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
    return _VALUES.keys()


def recompute(claim_id):
    """What the package computes for one entry, as plain numbers, lists and dicts."""
    documents()
    return plain(_VALUES[claim_id]())


def complaints(entry):
    """What differs between one entry of claims.yml and its recomputation; nothing where all is well."""
    documents()
    claim_id = entry["id"]
    if claim_id not in _VALUES:
        yield "nothing recomputes it"
        return
    found = recompute(claim_id)
    right = claims.right_value(entry)
    if is_formula(entry):
        yield from [] if found < TOLERANCE else [f"the formula differs from an independent computation by {found}"]
        holds = found < TOLERANCE
    else:
        yield from differences(found, right, "exact")
        holds = is_true(entry, found)
    if holds != entry["agrees"]:
        yield f"agrees is {entry['agrees']}, but the print or statement {'holds' if holds else 'does not hold'}"
    if claim_id in _AS_STATED:
        yield from differences(plain(_AS_STATED[claim_id]()), entry["exact"], "exact, as stated")
    if "extra" in entry:
        extras = plain(_EXTRAS[claim_id]()) if claim_id in _EXTRAS else {}
        yield from differences(extras, entry["extra"] | entry.get("computed_extra", {}), "extra")


def is_true(entry, found):
    """Whether the print, or the statement where nothing is printed to compare, is true of what was found."""
    if claims.has_print(entry):
        return claims.print_agrees(entry, plain(_AS_STATED[entry["id"]]()) if "computed" in entry else found)
    if entry["printed"] is not None and entry.get("compare") != "none":
        return spells(entry["printed"], found)
    return bool(_HOLDS[entry["id"]](found))


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
