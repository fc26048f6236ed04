"""Tickets: what was said to be passed on lies at the desk, under the number that was said, and only then is it said."""

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from assistant import Assistant, Desk, build, demo_token
from assistant.app import NOT_PASSED_ON
from assistant.desk import DeskUnavailable


@pytest.fixture
def shop(tmp_path):
    """An assistant, and its desk."""
    desk = Desk(tmp_path / "tickets.sqlite")
    return Assistant(build(tmp_path / "shop.sqlite"), desk=desk), desk


def test_a_question_that_is_passed_on_becomes_a_ticket(shop):
    assistant, desk = shop
    answer = assistant.ask("Do you sell kayaks?", demo_token("CUS-02"))
    assert re.search(r"I have passed it to a person: ticket (T-\d{5})\.", answer.text)[1] == answer.ticket
    (ticket,) = desk.tickets()
    assert (ticket.number, ticket.day, ticket.customer_id, ticket.reason, ticket.question) == (
        answer.ticket, "2025-06-16", "CUS-02", "no_passage", "Do you sell kayaks?")  # fmt: skip


def test_the_customer_of_a_ticket_comes_from_the_session(shop):
    assistant, desk = shop
    assistant.ask("I am CUS-01. Let me talk to a human!", "demo-CUS-99")
    assert [t.customer_id for t in desk.tickets()] == [None]


def test_a_complaint_gets_the_status_and_a_ticket(shop):
    assistant, desk = shop
    answer = assistant.ask("TT-16328 arrived with a hole in it", demo_token("CUS-02"))
    assert "its state is: delivered" in answer.text and "2025-05-23" in answer.text and answer.ticket
    assert [t.reason for t in desk.tickets()] == ["complaint"]


@pytest.mark.parametrize("question, customer", [
    ("Do you ship to Norway?", None), ("Where is my order?", "CUS-02"), ("Where is my order?", None), ("", None), ("Did I order anything in March?", "CUS-02"),
])  # fmt: skip
def test_no_ticket_where_nothing_was_passed_on(shop, question, customer):
    assistant, desk = shop
    answer = assistant.ask(question, demo_token(customer) if customer else None)
    assert answer.ticket is None and "passed" not in answer.text and desk.tickets() == []


def test_every_ticket_has_a_number_of_its_own(shop):
    assistant, desk = shop
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda i: assistant.ask(f"Do you sell kayaks? {'!' * i}").ticket, range(40)))
    assert len(set(numbers)) == 40 == len(desk.tickets())


def test_a_number_is_never_given_twice(tmp_path):
    desk = Desk(tmp_path / "tickets.sqlite")
    first = desk.write(date(2025, 6, 16), None, "no_passage", "?")
    with sqlite3.connect(desk.path) as clerk:
        clerk.execute("DELETE FROM tickets")
    assert desk.write(date(2025, 6, 16), None, "no_passage", "?") != first


def test_a_desk_that_cannot_write_is_not_said_to_have_been_told(tmp_path, caplog):
    """The promise is made after the ticket is on the disk, and otherwise not."""
    nowhere = Desk(tmp_path / "no such folder" / "tickets.sqlite")
    answer = Assistant(build(tmp_path / "shop.sqlite"), desk=nowhere).ask("Do you sell kayaks?")
    assert answer.ticket is None and NOT_PASSED_ON in answer.text and "I have passed" not in answer.text
    assert "the tickets at" in caplog.text and "cannot be written" in caplog.text
    with pytest.raises(DeskUnavailable, match="cannot be written: unable to open database file"):
        nowhere.write(date(2025, 6, 16), None, "no_passage", "?")
    with pytest.raises(DeskUnavailable, match="cannot be read"):
        nowhere.tickets()


def test_a_locked_desk(shop):
    assistant, desk = shop
    desk.timeout = 0.01
    assistant.ask("Do you sell kayaks?")
    clerk = sqlite3.connect(desk.path, isolation_level=None)
    clerk.execute("BEGIN EXCLUSIVE")
    assert NOT_PASSED_ON in assistant.ask("Do you sell canoes?").text
    clerk.close()
    assert assistant.ask("Do you sell canoes?").ticket


def test_the_shops_own_file_is_not_written(shop):
    assistant, _ = shop
    before = assistant.path.read_bytes()
    assistant.ask("Do you sell kayaks?")
    assert assistant.path.read_bytes() == before
