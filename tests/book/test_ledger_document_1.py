"""Every claim of document 1 that code can check is recomputed from the package, and the check turns red if either side changes."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import claims
import ledger
import pytest
import sympy

ROOT = Path(__file__).parents[2]

ENTRIES = [entry for entry in claims.load().values() if entry["document"] == 1]
BY_CODE = [entry for entry in ENTRIES if entry["checked_by"] == "code"]


def by_id(entries):
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry["id"])


@by_id(BY_CODE)
def test_recomputed(entry):
    assert list(ledger.complaints(entry)) == []


def test_no_entry_is_left_out():
    """203 of 203, each by one function or look-up, and none for an entry that code cannot check."""
    recomputed = {claim_id for claim_id in ledger.recomputed() if claims.lookup(claim_id)["document"] == 1}
    assert recomputed == {entry["id"] for entry in BY_CODE}
    assert len(BY_CODE) == 203


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
    """Another value of the same structure, near the first."""
    if isinstance(value, dict):
        key = next(iter(value))
        return value | {key: moved(value[key])}
    if isinstance(value, list):
        return [moved(value[0]), *value[1:]]
    if isinstance(value, bool):
        return not value
    return value + 1e-6 * max(1, abs(value)) if isinstance(value, int | float) else f"not {value}"


@by_id(BY_CODE)
def test_red_if_the_file_changes(entry):
    """What is right, the verdict and each further figure, changed one at a time."""
    right = "computed" if "computed" in entry else "exact"
    changed = [entry | {"agrees": not entry["agrees"]}]
    if not ledger.is_formula(entry):
        changed.append(entry | {right: moved(entry[right])})
    changed += [entry | {"extra": entry["extra"] | {name: moved(value)}, "computed_extra": {}} for name, value in entry.get("extra", {}).items()]
    for other in changed:
        assert list(ledger.complaints(deepcopy(other))), other


@by_id([entry for entry in BY_CODE if claims.has_print(entry) and entry["agrees"]])
def test_red_if_a_print_changes(entry):
    first = claims.flat(entry["printed"])[0]
    last_digit = next(i for i in reversed(range(len(first.partition("e")[0]))) if first[i].isdigit())
    other = f"{first[:last_digit]}{(int(first[last_digit]) + 1) % 10}{first[last_digit + 1 :]}"
    text = json.dumps(entry["printed"]).replace(f'"{first}"', f'"{other}"', 1)
    assert list(ledger.complaints(entry | {"printed": json.loads(text)}))


# Each breaks the package in one place, and names claims that must notice.
BROKEN = {
    "softmax.softmax_backward = lambda dy, cache: (cache.y * dy, {})": {"d1-bwd-ds", "d1-bwd-dq", "d1-bwd-dk", "d1-bwd-dwq"},
    "attention.math.sqrt = lambda x: 1.0": {"d1-scores", "d1-softmax-a00", "d1-qkv-attention-formula", "d1-bwd-dq", "d1-cross-o"},
    "loss.position_weights = lambda targets, *a, **k: np.ones(targets.shape)": {"d1-loss-value", "d1-end-loss"},
    "optimizer.noam = lambda step, d_model, warmup=4000: 1e-3": {"d1-adam-lr1", "d1-adam-w1", "d1-adam-lr-formula"},
}


@pytest.mark.parametrize("change", BROKEN)
def test_red_if_the_package_changes(change):
    program = (
        "import sys; sys.path.insert(0, 'book/_tools')\n"
        "import numpy as np\n"
        "from byhand.numpy import attention, loss, optimizer, softmax\n"
        f"{change}\n"
        "attention.softmax_backward = softmax.softmax_backward\n"
        "import claims, ledger\n"
        f"for claim_id in {sorted(BROKEN[change])}:\n"
        "    if any(ledger.complaints(claims.lookup(claim_id))):\n"
        "        print(claim_id)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True)
    assert set(run.stdout.split()) == BROKEN[change], run.stderr


# ---- figures that notes and setups speak of -----------------------------------------------------


def test_step_at_which_am_overtakes():
    from ledger.document_1_update import training_of_the_output_layer_alone

    entry = claims.lookup("d1-adam-run-length")
    assert training_of_the_output_layer_alone()[1] == entry["exact"]["step_am_overtakes_when_example_repeated"]


def test_memory_with_positions_and_both_heads_alike():
    """The other completion of the toy, whose memory row the notes on positions quote."""
    from dataclasses import replace

    import numpy as np
    from ledger.document_1_encoder import HEAD, memory_of

    from byhand import toy

    case = toy.exact()
    head_1 = case.params[f"{HEAD}.w_v"][:, :2]
    memory = memory_of(replace(case, config=replace(case.config, eps=0.0)), **{f"{HEAD}.w_v": np.hstack([head_1, head_1])})
    np.testing.assert_allclose(memory, claims.lookup("d1-enc")["extra"]["enc_with_true_pe_sum"], rtol=0, atol=1e-12)


# ---- the pages ----------------------------------------------------------------------------------


def test_every_entry_names_its_page():
    assert all(entry["page"] == "intro" or entry["page"].startswith("step/") for entry in ENTRIES)
