"""The shop's database: the same every time, read-only for the assistant, and clear about what is wrong with it."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import date

import pytest
from assistant import Assistant, ShopUnavailable, build, demo_token, open_shop
from assistant.shop import HERE, token_hash

OWN = ("Where is my order TT-19494?", demo_token("CUS-02"))


def dump(path):
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())


def test_one_seed_gives_one_shop(database, tmp_path):
    assert dump(build(tmp_path / "again.sqlite")) == dump(database)


def test_another_seed_gives_other_orders(database, tmp_path):
    assert dump(build(tmp_path / "other.sqlite", seed=8)) != dump(database)


def test_nothing_is_overwritten(database):
    with pytest.raises(ValueError, match="path: .* exists already; it must name a new file"):
        build(database)


def test_no_session_token_is_stored(database):
    text = "\n".join(dump(database))
    assert demo_token("CUS-02") not in text and token_hash(demo_token("CUS-02")) in text


def test_a_missing_database_is_named(tmp_path):
    with pytest.raises(ShopUnavailable, match=r"no shop database at .*nowhere\.sqlite; make one with"):
        open_shop(tmp_path / "nowhere.sqlite")
    assert not (tmp_path / "nowhere.sqlite").exists()  # sqlite3.connect would have made an empty one


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "notes.sqlite"
    path.write_text("not a database at all, but long enough to be taken for one" * 20)
    with pytest.raises(ShopUnavailable, match="cannot be read: file is not a database"):
        open_shop(path)


def test_an_empty_database(tmp_path):
    path = tmp_path / "empty.sqlite"
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(ShopUnavailable, match="no such table"):
        open_shop(path)


def test_a_database_without_documents(tmp_path):
    path = build(tmp_path / "bare.sqlite")
    with sqlite3.connect(path) as owner:
        owner.execute("DELETE FROM papers")
        owner.execute("DELETE FROM products")
    with pytest.raises(ValueError, match="passages: there are none"):
        Assistant(path)


def test_a_path_with_characters_that_mean_something_in_a_uri(tmp_path):
    path = build(tmp_path / "a shop?mode=rwc#1%20.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        open_shop(path).execute("DELETE FROM orders")


@pytest.mark.parametrize("statement", ["DELETE FROM orders", "UPDATE orders SET customer_id = 'CUS-01'", "CREATE TABLE mine (x)"])
def test_the_assistant_cannot_write(connection, statement):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute(statement)


@pytest.fixture
def locked(tmp_path):
    """A shop whose owner can lock it."""
    path = build(tmp_path / "shop.sqlite")
    owner = sqlite3.connect(path, isolation_level=None)
    yield path, owner
    owner.close()


def test_a_locked_database_cannot_be_opened(locked):
    path, owner = locked
    owner.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ShopUnavailable, match="cannot be read: database is locked"):
        open_shop(path, timeout=0.01)


def test_a_database_that_gets_locked_later(locked):
    """Every question is answered honestly: what can not be read now is not said from memory. Afterwards all is well again."""
    path, owner = locked
    assistant = Assistant(path, timeout=0.01)
    owner.execute("BEGIN EXCLUSIVE")
    answer = assistant.ask(*OWN)
    assert (answer.sentences, answer.escalation, answer.ticket) == ((), "unavailable", None)
    assert "cannot reach the shop's records" in answer.text
    assert assistant.ask("Do you ship to Norway?").escalation == "unavailable"
    owner.execute("ROLLBACK")
    assert assistant.ask(*OWN).sentences


def test_a_database_that_is_taken_away(tmp_path, caplog):
    path = build(tmp_path / "shop.sqlite")
    assistant = Assistant(path)
    path.rename(tmp_path / "elsewhere.sqlite")
    assert assistant.ask(*OWN).escalation == "unavailable"
    assert "no shop database at" in caplog.text  # the operator reads why


def overwrite_a_page(path, table):
    """Noise over the first page of a table, as a failing disk would leave it."""
    with sqlite3.connect(path) as owner:
        size = owner.execute("PRAGMA page_size").fetchone()[0]
        page = owner.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(range(1, 251)) * (size // 250))


def test_a_damaged_page_is_named_at_the_start(tmp_path):
    for table in ("orders", "papers"):
        path = build(tmp_path / f"{table}.sqlite")
        overwrite_a_page(path, table)
        with pytest.raises(ShopUnavailable, match="cannot be read: .*malformed.*; the file is damaged: restore it from a backup, or build it anew"):
            Assistant(path)


def test_a_page_that_is_damaged_later(tmp_path, caplog):
    """The customer reads that the records cannot be reached; the log says that the file is damaged; other tables still answer."""
    path = build(tmp_path / "shop.sqlite")
    assistant = Assistant(path)
    overwrite_a_page(path, "orders")
    answer = assistant.ask(*OWN)
    assert (answer.sentences, answer.escalation) == ((), "unavailable") and "cannot reach the shop's records" in answer.text
    assert "malformed; the file is damaged: restore it" in caplog.text
    assert assistant.ask("Do you ship to Norway?").sentences


KILLED = """
import os, signal, sys
sys.path.insert(0, {examples!r})
from assistant import shop
people = shop._people_and_orders
def killed(*arguments):
    people(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
shop._people_and_orders = killed
shop.build({path!r})
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
def test_a_build_that_is_killed_leaves_nothing_in_the_way(tmp_path, database):
    path = tmp_path / "shop.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED.format(examples=str(HERE.parent), path=str(path))], timeout=2400)
    assert done.returncode == -signal.SIGKILL and not path.exists() and list(tmp_path.iterdir())  # it was under way
    assert dump(build(path)) == dump(database)


def test_a_build_that_fails_leaves_nothing_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr("assistant.shop._people_and_orders", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build(tmp_path / "shop.sqlite")
    assert not list(tmp_path.iterdir())


# What the shop changes is what is said next.


@pytest.fixture
def changing(tmp_path):
    path = build(tmp_path / "shop.sqlite")

    def change(statement):
        with sqlite3.connect(path) as owner:
            owner.execute(statement)

    return Assistant(path), change


def test_a_changed_policy_is_served_at_once(changing):
    assistant, change = changing
    assert "4.90" in assistant.ask("What does standard delivery cost?").text
    change("UPDATE papers SET text = replace(text, '4.90', '5.50') WHERE id = 'POL-DELIVERY/2'")
    answer = assistant.ask("What does standard delivery cost?").text
    assert "5.50" in answer and "4.90" not in answer


def test_changed_stock_and_price_are_served_at_once(changing):
    assistant, change = changing
    assert "14 are in stock" in assistant.ask("Is the Larch 2 in stock?").text
    change("UPDATE products SET stock = 0, price = '199.00' WHERE id = 'CAT-001'")
    answer = assistant.ask("Is the Larch 2 in stock?").text
    assert "it is out of stock" in answer and "199.00" in answer and "249.00" not in answer


def test_a_changed_order_is_served_at_once(changing):
    assistant, change = changing
    change("UPDATE orders SET state = 'delivered', delivered = '2025-06-16' WHERE id = 'TT-19494'")
    assert "its state is: delivered" in assistant.ask(*OWN).text


def test_the_day_is_the_questions(database):
    """One assistant over midnight: the version that holds is that of the day of the question, and so is a session."""
    assistant, question = Assistant(database), "How many days do I have to send unused goods back?"
    assert "30 days" in assistant.ask(question).text
    assert "60 days" in assistant.ask(question, day=date(2025, 9, 1)).text
    assert "14 days" in assistant.ask(question, day=date(2024, 8, 31)).text
    assert assistant.ask(*OWN, day=date(2025, 6, 18)).escalation == "not_signed_in"  # the session has ended
    days = iter([date(2025, 8, 31), date(2025, 8, 31), date(2025, 9, 1)])
    clocked = Assistant(database, today=lambda: next(days))
    assert "30 days" in clocked.ask(question).text and "60 days" in clocked.ask(question).text


# Many at once.


def ask_many(path, customer, rounds):
    """Each customer's own question, over and over: what came that should not have, or did not come that should."""
    assistant = Assistant(path)
    return [a.text for a in (assistant.ask("Where is my order?", demo_token(customer)) for _ in range(rounds)) if not a.sentences]


def own_orders(path):
    with sqlite3.connect(path) as owner:
        rows = owner.execute("SELECT customer_id, id FROM orders").fetchall()
    return {customer: {order for c, order in rows if c == customer} for customer, _ in rows}


def test_eight_threads_and_one_assistant(database):
    """160 questions of ten customers at once; everyone gets their own orders, and nobody else's."""
    assistant, own = Assistant(database), own_orders(database)
    questions = ["Show all my orders", "Is my order on its way, and how heavy is the Heron?", "What did I order in June?", "Wheres my parsel?"]
    jobs = [(customer, questions[i % 4]) for i in range(16) for customer in sorted(own)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda job: assistant.ask(job[1], demo_token(job[0])), jobs))
    alone = {job: assistant.ask(job[1], demo_token(job[0])) for job in set(jobs)}
    assert len(answers) == 160 and all(answer == alone[job] for answer, job in zip(answers, jobs))
    for answer, (customer, question) in zip(answers, jobs):
        shown = {s.source for s in answer.sentences if s.source.startswith("TT-")}
        assert shown and shown <= own[customer] and (question != questions[0] or shown == own[customer])


def test_two_processes(database):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        failed = [pool.submit(ask_many, database, customer, 10) for customer in ("CUS-01", "CUS-02", "CUS-03", "CUS-04")]
        assert [f.result(timeout=2400) for f in failed] == [[], [], [], []]
