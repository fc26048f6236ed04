"""Authorisation: who may see which order, and how little a refusal tells."""

import inspect
import sqlite3

import assistant as package
import pytest
from assistant import Assistant, demo_token
from assistant.compose import Composer, ExtractiveComposer
from assistant.evaluate import leaks
from assistant.orders import Session, authenticate, find_orders, order_status
from assistant.shop import TODAY
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def owners(database):
    """Which customer each order belongs to, read by the test itself."""
    with sqlite3.connect(database) as connection:
        return dict(connection.execute("SELECT id, customer_id FROM orders").fetchall())


def test_every_customer_sees_exactly_their_own_orders(connection, owners):
    assert len(owners) == 30 and len(set(owners.values())) == 10
    for customer in set(owners.values()):
        for order, owner in owners.items():
            record = order_status(connection, Session(customer), order)
            assert (record is not None) == (customer == owner)


def test_the_same_through_the_assistant(assistant, owners):
    for customer in set(owners.values()):
        for order, owner in owners.items():
            answer = assistant.ask(f"Where is order {order}?", demo_token(customer))
            assert ({s.source for s in answer.sentences} == {order}) == (customer == owner)


def test_somebody_elses_order_and_nobodys_are_refused_alike(assistant, owners):
    """Same words, same tool, same number of queries: nothing tells that the order exists."""
    theirs = next(order for order, owner in owners.items() if owner != "CUS-01")
    nobodys = "TT-99999"
    assert nobodys not in owners
    answers = [assistant.ask(f"Where is order {order}?", demo_token("CUS-01")) for order in (theirs, nobodys)]
    assert answers[0] == answers[1] and answers[0].cost == answers[1].cost
    assert answers[0].escalation == "order_not_found" and theirs not in answers[0].text


def test_without_a_session_real_and_invented_orders_are_alike(assistant, owners):
    answers = [assistant.ask(f"Where is order {order}?") for order in (next(iter(owners)), "TT-99999")]
    assert answers[0] == answers[1] and answers[0].escalation == "not_signed_in" and answers[0].cost == answers[1].cost


@pytest.mark.parametrize("token", [None, "", "demo-CUS-99", "CUS-02", "demo-expired", "' OR 1=1 --", "\ud800", 7, b"demo-CUS-02"])
def test_no_session_for_a_token_that_is_missing_unknown_expired_or_malformed(connection, token):
    assert authenticate(connection, token, TODAY) is None


def test_a_session_ends_on_its_day(connection):
    assert authenticate(connection, demo_token("CUS-02"), TODAY) == Session("CUS-02")
    assert authenticate(connection, demo_token("CUS-02"), TODAY.replace(year=2026)) is None


SQL = ["TT-16328' OR '1'='1", "' UNION SELECT * FROM customers --", "%", "TT-_____", "TT-16328; DROP TABLE orders", "", "tt-16328\x00"]


@pytest.mark.parametrize("order", SQL)
def test_sql_in_an_order_number_is_only_an_unknown_number(connection, order):
    assert order_status(connection, Session("CUS-01"), order) is None
    assert order_status(connection, Session("CUS-02' OR '1'='1"), "TT-16328") is None
    assert order_status(connection, Session("CUS-02"), "TT-16328") is not None


def test_own_and_foreign_orders_in_one_question(assistant, owners):
    own = [order for order, owner in owners.items() if owner == "CUS-02"]
    theirs = next(order for order, owner in owners.items() if owner == "CUS-03")
    answer = assistant.ask(f"Where are {own[0]}, {theirs} and {own[1]}?", demo_token("CUS-02"))
    assert {s.source for s in answer.sentences} == {own[0], own[1]}
    assert theirs not in answer.text and answer.escalation == "order_not_found"


def test_an_address_in_the_question_is_not_a_session(assistant):
    answer = assistant.ask("What has ada.berg@example.org ordered?", demo_token("CUS-02"))
    assert answer.tool == "order_status" and not answer.sentences


@pytest.mark.parametrize("spelling", ["TT-19494", "tt-19494", "TT 19494", "tt19494", "#19494", "order 19494", "ＴＴ－１９４９４", "TT-19494."])
def test_spellings_of_an_order_number(assistant, spelling):
    assert {s.source for s in assistant.ask(f"Where is {spelling}", demo_token("CUS-02")).sentences} == {"TT-19494"}


@pytest.mark.parametrize("number", ["1949", "194940", "1.19494", "19494.5", "x19494"])
def test_other_numbers_are_not_order_numbers(assistant, number):
    assert not assistant.ask(f"Where is {number}?", demo_token("CUS-02")).sentences


def test_a_question_without_a_number_is_about_the_latest_order(connection, assistant):
    assert find_orders(connection, Session("CUS-02"), limit=1) == ["TT-19494"]
    assert {s.source for s in assistant.ask("Where is my parcel?", demo_token("CUS-02")).sentences} == {"TT-19494"}


def test_the_record_says_what_the_row_says(connection):
    record = order_status(connection, Session("CUS-02"), "TT-16328")
    assert record.sentences == [
        "Order TT-16328 was placed on 2025-05-20, and its state is: delivered.",
        "It contains 2 x Heron down sleeping bag.",
        "Its tracking number is NO852958473.",
        "It was delivered on 2025-05-23.",
    ]


def test_a_composer_is_handed_text_and_nothing_else(database, assistant):
    """Neither the interface nor the one composer here knows a connection, a session or a tool."""
    seen = []

    class Spy:
        def compose(self, *arguments, **named):
            seen.append((arguments, named))
            return []

    Assistant(database, Spy()).ask("Where is TT-19494?", demo_token("CUS-02"))
    (question, evidence), named = seen[0]
    assert isinstance(question, str) and [type(p).__name__ for p in evidence] == ["Passage"] and not named
    assert list(inspect.signature(Composer.compose).parameters) == ["self", "question", "evidence"]
    composer = ExtractiveComposer(assistant.current().index)
    assert "orders" not in inspect.getsource(package.compose) and set(vars(composer)) == {"index", "threshold", "most", "_scorer"}


@given(text=st.text(max_size=200))
def test_no_question_shows_an_order_to_somebody_who_is_not_signed_in(assistant, connection, text):
    assert not leaks(connection, assistant.ask(f"TT-19494 {text}"), None)
