"""Every claim that code can check is recomputed from the package, and the check turns red if either side changes; both documents alike."""

import json

import claims
import ledger
import pytest
import sympy

ENTRIES = list(claims.load().values())
BY_CODE = [entry for entry in ENTRIES if entry["checked_by"] == "code"]


def by_id(entries):
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry["id"])


def is_printed(entry):
    """Whether the document prints something to compare: figures, letters or an expression."""
    return entry["printed"] is not None and entry.get("compare") != "none"


@by_id(BY_CODE)
def test_recomputed(entry):
    assert list(ledger.complaints(entry)) == []


@pytest.mark.parametrize(("document", "count"), [(1, 203), (2, 144)])
def test_no_entry_is_left_out(document, count):
    """Each by one function or look-up, and none for an entry that code cannot check."""
    recomputed = {claim_id for claim_id in ledger.recomputed() if claims.lookup(claim_id)["document"] == document}
    assert recomputed == {entry["id"] for entry in BY_CODE if entry["document"] == document}
    assert len(recomputed) == count


# ---- the file by itself -------------------------------------------------------------------------


@by_id([entry for entry in ENTRIES if claims.has_print(entry)])
def test_verdict_follows_from_the_print(entry):
    assert claims.print_agrees(entry, entry["exact"]) == entry["agrees"]


@by_id([entry for entry in ENTRIES if "closed_form" in entry])
def test_closed_form_is_exact(entry):
    forms, values = claims.flat(entry["closed_form"]), claims.flat(entry["exact"])
    for form, value in zip(forms, values, strict=True):
        assert abs(sympy.N(sympy.sympify(str(form)), 30) - value) <= 1e-12 * max(1, abs(value))


@by_id([entry for entry in ENTRIES if "literal" in entry])
def test_literal_arithmetic(entry):
    value = claims.evaluate(entry["literal"])
    assert abs(value - entry["literal_value"]) <= 1e-12 * abs(value)
    assert claims.rounds_half_up(value, entry["printed"]) == entry["literal_agrees"]


@by_id([entry for entry in ENTRIES if "computed" in entry or "computed_extra" in entry])
def test_own_figures_say_how_they_came_about(entry):
    assert entry["setup"]
    assert entry.get("computed_extra", {}).keys() <= entry.get("extra", {}).keys()


# ---- the check itself ---------------------------------------------------------------------------


def moved(value):
    """Other values of the same structure, near the first: each has one of its parts changed."""
    if isinstance(value, dict):
        yield from (value | {key: other} for key, part in value.items() for other in moved(part))
    elif isinstance(value, list):
        yield from (value[:i] + [other] + value[i + 1 :] for i, part in enumerate(value) for other in moved(part))
    elif isinstance(value, bool):
        yield not value
    else:
        yield value + 1e-6 * max(1, abs(value)) if isinstance(value, int | float) else f"not {value}"


@by_id(BY_CODE)
def test_red_if_the_file_changes(entry):
    """The verdict, and every part of what is right and of each further figure, changed one at a time."""
    right = "computed" if "computed" in entry else "exact"
    changed = [entry | {"agrees": not entry["agrees"]}]
    if not ledger.is_formula(entry):
        changed += [entry | {right: other} for other in moved(entry[right])]
    changed += [entry | {"extra": other, "computed_extra": {}} for other in moved(entry.get("extra", {}))]
    for other in changed:
        assert list(ledger.complaints(other)), other


@by_id([entry for entry in BY_CODE if isinstance(entry.get("recompute"), str) and entry["kind"] != "shape"])
def test_red_if_an_expression_changes(entry):
    changed = entry["recompute"].replace("<", ">") if "<" in entry["recompute"] else f"({entry['recompute']}) * 1.000001 + 3e-6"
    assert list(ledger.complaints(entry | {"recompute": changed}))


def another(print_):
    """A print with another last digit, or with another letter."""
    mantissa = print_.partition("e")[0] if claims.is_figure(print_) else print_
    last = next((i for i in reversed(range(len(mantissa))) if mantissa[i].isdigit()), None)
    return f"{print_}x" if last is None else f"{print_[:last]}{(int(print_[last]) + 1) % 10}{print_[last + 1 :]}"


@by_id([entry for entry in BY_CODE if is_printed(entry) and entry["agrees"]])
def test_red_if_a_print_changes(entry):
    first = claims.flat(entry["printed"])[0]
    other = another(first)
    text = json.dumps(entry["printed"]).replace(f'"{first}"', f'"{other}"', 1)
    assert list(ledger.complaints(entry | {"printed": json.loads(text)}))
