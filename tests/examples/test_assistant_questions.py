"""Bad input: a question that is empty, huge, full of control characters, or meant for a database."""

import sqlite3

import pytest
from assistant import demo_token
from assistant.evaluate import in_database
from assistant.router import LONGEST_QUESTION, choose_tool, order_ids, read_question


@pytest.mark.parametrize("question", ["", " ", "\n\t\r\n", "\u200b\u200d", "\u00a0"])
def test_an_empty_question(assistant, question):
    answer = assistant.ask(question)
    assert (answer.escalation, answer.sentences) == ("bad_question", ()) and answer.text == "I cannot read this question: it is empty."


def test_a_huge_question(assistant):
    answer = assistant.ask("Do you ship to Norway? " * 100_000)
    assert answer.text == f"I cannot read this question: it has 2300000 characters, and I read at most {LONGEST_QUESTION}."
    assert assistant.ask("Do you ship to Norway?".ljust(LONGEST_QUESTION)).sentences


@pytest.mark.parametrize("character, name", [("\x00", "U+0000"), ("\x1b", "U+001B"), ("\x7f", "U+007F"), ("\x85", "U+0085"), ("\ud800", "U+D800")])
def test_control_characters(assistant, character, name):
    answer = assistant.ask(f"Where is TT-19494{character}?", demo_token("CUS-02"))
    assert answer.sentences == () and answer.text == f"I cannot read this question: it contains the control character {name}."


def test_line_breaks_and_invisible_characters_do_no_harm(assistant):
    assert assistant.ask("Do you ship\n\tto Nor\u200bway?").sentences == assistant.ask("Do you ship to Norway?").sentences != ()


@pytest.mark.parametrize("question", [None, 7, b"Where is TT-19494?", ["x"]])
def test_a_question_that_is_no_text(assistant, question):
    with pytest.raises(ValueError, match=r"question: is a \w+; it must be a str"):
        assistant.ask(question)


SQL = ["'; DROP TABLE orders; --", "TT-19494' OR '1'='1", "TT-19494 UNION SELECT email FROM customers", "Robert'); DELETE FROM sessions;--", "1 OR 1=1"]


@pytest.mark.parametrize("question", SQL)
@pytest.mark.parametrize("customer", [None, "CUS-01"])
def test_sql_in_a_question(assistant, database, question, customer):
    """Never an answer from another account, never a change, never an exception."""
    answer = assistant.ask(question, demo_token(customer) if customer else None)
    assert answer.sentences == () and answer.escalation in ("not_signed_in", "order_not_found", "no_passage", "needs_person")
    with sqlite3.connect(database) as owner:
        assert owner.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM sessions)").fetchone() == (30, 11)


@pytest.mark.parametrize("question", ["{detail}", "%s %n", "{0.__class__}", "${jndi:ldap://x}", "<script>alert(1)</script>", "{question}", "../../etc/passwd"])
def test_templates_and_markup_in_a_question(assistant, connection, question):
    """Nothing is filled in, echoed or opened; what is left are words, and words may find a document ('detail' does)."""
    answer = assistant.ask(question)
    assert all(in_database(connection, s.text, s.source) for s in answer.sentences)
    assert question not in answer.text and (answer.sentences or answer.escalation == "no_passage")


def test_regular_expressions_stay_quick_on_the_longest_question():
    """No pattern here may hang on a question that is built to make it backtrack: then it takes years, and otherwise a few hundredths of a second."""
    import time

    start = time.perf_counter()
    for piece in ("please cancel my a ", "my ", "talk to a b c ", "has a@", "1", "TT-", "a.", "all b "):
        question = (piece * LONGEST_QUESTION)[:LONGEST_QUESTION]
        read_question(question), choose_tool(question), order_ids(question)
    assert time.perf_counter() - start < 600


@pytest.mark.parametrize("question, tool", [
    ("Cancel my order", "hand_over"), ("Can I cancel an order?", "search"), ("Until when may I cancel my order?", "search"),
    ("Where is my order?", "order_status"), ("What happens if my parcel gets lost?", "search"), ("TT-19494", "order_status"),
    ("Cancel TT-19494", "hand_over"), ("", "search"),
])  # fmt: skip
def test_confusions_that_matter(question, tool):
    assert choose_tool(question) == tool
