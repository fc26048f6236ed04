"""The appendix page of claims: what it shows follows from the file, it can be searched in the page, and it refuses to show what is wrong."""

import re

import claims
import pytest
import yaml
from browser import PATIENCE
from ledger.page import Ledger, label

DOCUMENTS = [1, 2]


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    both = "".join(Ledger(document)._repr_html_() for document in DOCUMENTS)
    (folder / "page.html").write_text(f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>x</title></head><body>{both}</body></html>', "utf-8")
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE)
    page.goto((folder / "page.html").as_uri())
    yield page
    page.close()


def rows(page, document=1):
    return page.locator(f".byhand-ledger[data-document='{document}'] tbody tr:visible")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_claim_has_a_row_and_a_line(document):
    ledger = Ledger(document)
    ids = [entry["id"] for entries in ledger.sections.values() for entry in entries]
    assert sorted(ids) == sorted(entry["id"] for entry in claims.load().values() if entry["document"] == document)
    assert re.findall(r'<tr role="row" id="([^"]+)"', ledger._repr_html_()) == ids
    assert [line.split()[1].rstrip(",;") for line in repr(ledger).splitlines() if line[:1] in ("✓", "≈", "✗")] == ids


def test_folded_until_opened(page):
    page.evaluate("location.hash = ''")
    assert rows(page).count() == 0
    page.locator("summary", has_text="How do I score").click()
    assert rows(page).count() == 27
    page.locator("summary", has_text="How do I score").click()


@pytest.mark.parametrize(
    ("words", "verdict", "ids"),
    [
        ("variance", "wrong", ["d1-ln-var0", "d1-cross-h"]),
        ("d1-softmax-a0", "", ["d1-softmax-a00", "d1-softmax-a01"]),
        ("W_OUT updates", "", ["d1-adam-run-length"]),
        ("nothing has this", "", []),
    ],
)
def test_search(page, words, verdict, ids):
    page.fill("#find-1", words)
    page.select_option("#show-1", verdict)
    assert rows(page).evaluate_all("all => all.map(row => row.id)") == ids
    assert page.locator("[role=status]").first.inner_text() == f"{len(ids)} of 238 claims"
    page.fill("#find-1", "")
    page.select_option("#show-1", "")
    assert rows(page).count() == 0


def test_open_all_and_a_link_to_one_claim(page):
    page.get_by_role("button", name="Open all").first.click()
    assert rows(page).count() == 238
    page.get_by_role("button", name="Close all").click()
    page.evaluate("location.hash = 'd2-widget-mixed'")
    page.locator("#d2-widget-mixed").wait_for(state="visible")
    assert rows(page).count() == 0


def test_shows_print_value_and_verdict():
    lines = repr(Ledger(1)).splitlines()
    for expected in (
        "✓ d1-softmax-a00, printed 0.944; right: 0.944193",
        "✗ d1-ln-var0, printed 0.891; right: 0.891500",
        "✗ d1-cross-h, printed [1, 0, -1, 0]; right: in the book's setup: [1, 0, -1, 0]; as the document describes it: [-1.025",
        "✓ d1-adam-w1, printed 0.99999983; right: 0.99999982531",
        "✓ d1-bwd-dv, printed A^T dO; right: agrees with an independent computation within 1e-12",
    ):
        assert any(line.startswith(expected) for line in lines), expected


def test_refuses_a_file_that_differs_from_the_package(monkeypatch):
    changed = {name: entry | {"exact": 0.945} if name == "d1-softmax-a00" else entry for name, entry in claims.load().items()}
    monkeypatch.setattr(claims, "load", lambda: changed)
    with pytest.raises(ValueError, match=r"d1-softmax-a00: exact: recomputed 0\.94419\d+, but the file has 0\.945"):
        Ledger(1)


def test_refuses_a_claim_that_nothing_recomputes(monkeypatch):
    """So that every claim shown as recomputed is."""
    added = {field: value for field, value in claims.lookup("d1-softmax-a00").items() if field != "recompute"} | {"id": "d1-new"}
    monkeypatch.setattr(claims, "load", lambda: {"d1-new": added})
    with pytest.raises(ValueError, match="d1-new: nothing recomputes it"):
        Ledger(1)


def test_both_documents_are_recomputed_in_full():
    """408 claims; every one that code can check says so, with a value."""
    both = "".join(Ledger(document)._repr_html_() for document in DOCUMENTS)
    assert both.count('<tr role="row" id=') == 408
    assert both.count(", recomputed here</small>") == 203 + 144
    assert [Ledger(document).summary().rpartition("; ")[2] for document in DOCUMENTS] == [
        f"all {count} that code can check are recomputed here." for count in (203, 144)
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [("residual_below_1e12", "residual below 1e-12"), ("weights_T_0_5", "weights T 0.5"), ("limit_T_to_0", "limit T to 0"), ("error_at_1e-5", "error at 1e-5")],
)
def test_names_of_figures_in_words(name, words):
    assert label(name) == words


def test_pages_exist(root):
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    files = {file.removeprefix("book/") for file in re.findall(r"(?:root|file): (\S+)", toc)}
    assert {entry["page"] for entry in claims.load().values()} - files == set()


def test_file_reads_with_any_loader():
    text = claims.CLAIMS.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["claims"] == list(claims.load().values())
