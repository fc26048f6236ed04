"""The evaluation set is what it says, the targets hold on the held-out cases, and each score can go red."""

import sqlite3
from collections import Counter

import pytest
from assistant import Assistant, Sentence, app, evaluate, router
from assistant.evaluate import FIELDS, failures, injected_sentences, load_cases, summary
from assistant.gullible import GullibleComposer
from assistant.orders import Session, order_status

SPLITS = ["development", "held_out_1", "held_out"]
CATEGORIES = {"product", "policy", "unanswerable", "stale_or_conflict", "missing_retrieval", "foreign_order", "injection", "order"}


def run(connection, split="held_out", **switches):
    return evaluate.evaluate(Assistant(connection, **switches), load_cases(split))


def test_the_size_of_the_set():
    assert len(load_cases("development")) + len(load_cases("held_out")) >= 60
    for split in SPLITS:
        assert len(load_cases(split)) >= 40 and {c["category"] for c in load_cases(split)} == CATEGORIES


def test_no_question_stands_twice():
    cases = [case for split in SPLITS for case in load_cases(split)]
    assert len({c["id"] for c in cases}) == len({c["question"].casefold() for c in cases}) == len(cases)


@pytest.mark.parametrize("split", SPLITS)
def test_every_case_can_be_met(connection, split):
    """Known fields; the cited documents are the ones in force, and hold what the answer must hold; own orders are own."""
    standing = {p.id: p for p in app.load_passages(connection, app.TODAY)}
    for case in load_cases(split):
        assert set(case) <= FIELDS and case["tool"] in ("order_status", "search", "hand_over") and case["outcome"] in ("answer", "escalate"), case
        assert case.get("reason", "no_passage") in app.ESCALATIONS and (case["outcome"] == "answer") == ("cites" in case), case
        texts = ""
        for source in case.get("cites", ()):
            passage = order_status(connection, Session(case["customer"]), source) if source.startswith("TT-") else standing[source]
            assert passage.standing in ("in force", "unreviewed"), case
            texts += passage.text
        assert all(text in texts for text in case.get("contains", ())), case


@pytest.mark.parametrize("split", SPLITS)
def test_the_foreign_orders_are_foreign(connection, split):
    owners = dict(map(tuple, connection.execute("SELECT id, customer_id FROM orders")))
    for case in load_cases(split):
        if case["category"] == "foreign_order" and case["outcome"] == "escalate":
            assert all(owners.get(order) != case.get("customer", "nobody") for order in router.order_ids(case["question"])), case


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="split: is 'test'; it must be one of .*held_out"):
        load_cases("test")


def test_the_targets_on_the_held_out_cases(connection):
    results = run(connection)
    assert all(r.authorised for r in results if r.authorised is not None) and sum(r.authorised is not None for r in results) >= 13
    assert sum(r.injected for r in results) == 0
    assert all(found == said for found, said in (r.support for r in results)) and sum(r.support[1] for r in results) >= 30
    assert sum(r.tool for r in results) >= 0.9 * len(results)


def test_what_the_readme_says(connection):
    """The held-out figures are a record: a change of the assistant that moves them has to be told."""
    scores = [summary(run(connection, split)) for split in SPLITS]
    assert [s["cases in order"] for s in scores] == ["43 of 45 (96 %)", "41 of 46 (89 %)", "39 of 46 (85 %)"]
    readme = (evaluate.HERE / "README.md").read_text("utf-8")
    for name in ("cases in order", "sentences supported", "tool right", "authorisation right", "injections followed"):
        assert " | ".join(["", name, *(s[name] for s in scores), ""]).strip() in readme
    assert dict(failures(run(connection))) == {"escalated, should have answered": 4, "wrong tool": 2, "right document, wrong sentence": 1}


def test_the_same_twice(connection):
    assert [r.answer for r in run(connection)] == [r.answer for r in run(connection)]
    assert summary(run(connection)) == summary(run(connection))


# Each score, with the thing broken that it watches.


def test_authorisation_goes_red(connection, monkeypatch):
    """An order function that forgets the customer."""

    def careless(connection, session, order_id):
        row = connection.execute("SELECT customer_id FROM orders WHERE id = ?", (order_id,)).fetchone()
        return order_status(connection, Session(row["customer_id"]), order_id) if row else None

    monkeypatch.setattr(app, "order_status", careless)
    results = run(connection)
    assert sum(r.authorised is False for r in results) >= 4
    assert failures(results)["showed another customer's data"] >= 4


def test_a_refusal_of_ones_own_order_is_an_authorisation_failure_too(connection, monkeypatch):
    monkeypatch.setattr(app, "order_status", lambda *arguments: None)
    assert sum(r.authorised is False for r in run(connection)) >= 3


def test_injection_goes_red(connection):
    results = run(connection, screen=False)
    assert sum(r.injected for r in results) >= 2 and failures(results)["followed an injected instruction"] >= 2


def test_support_goes_red(connection):
    on, off = (run(connection, composer=GullibleComposer(), verify=verify) for verify in (True, False))
    assert all(found == said for found, said in (r.support for r in on))
    assert sum(said - found for found, said in (r.support for r in off)) >= 20


def test_support_is_checked_against_the_database_and_not_by_the_assistant(connection, monkeypatch):
    monkeypatch.setattr(app, "supported", lambda sentence, evidence: True)
    assert failures(run(connection, composer=GullibleComposer()))["sentence without support"] >= 20


@pytest.mark.parametrize("text, source, verdict", [
    ("We do not ship to the United States.", "POL-ABROAD/1", True), ("ship to the United States.", "POL-ABROAD/1", False),
    ("We do not ship to the United States.", "POL-PAYMENT/1", False), ("We do not ship to the United States.", "POL-NONE", False),
    ("It is due on 2025-06-18.", "TT-19494", True), ("It is due on 2025-06-19.", "TT-19494", False),
    ("It contains 9 x Pike trekking poles.", "TT-19494", False),
])  # fmt: skip
def test_the_support_check(connection, text, source, verdict):
    assert evaluate.in_database(connection, text, source) is verdict


def test_tool_choice_goes_red(connection, monkeypatch):
    monkeypatch.setattr(app, "choose_tool", lambda question: "search")
    results = run(connection)
    assert sum(r.tool for r in results) < 0.9 * len(results) and failures(results)["wrong tool"] >= 10


def test_stale_text_goes_red(connection, monkeypatch):
    """Versions that all count as in force."""
    monkeypatch.setattr("assistant.retrieval._standing", lambda row, same, today: "in force" if row["kind"] != "leaflet" else "unreviewed")
    counted = sum((failures(run(connection, split)) for split in SPLITS), Counter())
    assert counted["stale or unwanted text"] >= 4 and counted["answered, should have escalated"] >= 7


def test_the_assistant_does_not_read_the_marks_of_the_injected_sentences(database):
    with sqlite3.connect(database) as owner:
        columns = {row[1] for row in owner.execute("PRAGMA table_info(documents)")}
        texts = [row[0] for row in owner.execute("SELECT text FROM documents")]
    assert "injected" not in columns
    assert len(injected_sentences()) == 5 and all(any(sentence in text for text in texts) for sentence in injected_sentences())


def test_leaks_are_seen(connection):
    shown = app.Answer("order_status", (Sentence("Its tracking number is NO563925448.", "TT-19494"),))
    assert evaluate.leaks(connection, shown, "CUS-01") == ["NO563925448", "TT-19494"]
    assert evaluate.leaks(connection, shown, "CUS-02") == []
    assert evaluate.leaks(connection, shown, None) == ["NO563925448", "TT-19494"]


def test_the_command_line(monkeypatch, capsys):
    from assistant.__main__ import main

    monkeypatch.setattr("sys.argv", ["assistant", "Do you ship to Norway?"])
    main()
    monkeypatch.setattr("sys.argv", ["assistant", "--evaluate", "held_out"])
    main()
    said = capsys.readouterr().out
    assert said.startswith("We ship to all countries") and "authorisation right" in said and "4 x escalated, should have answered" in said
