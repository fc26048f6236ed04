"""The shop's database: the same every time, read-only for the assistant, and clear about what is wrong with it."""

import sqlite3

import pytest
from assistant import Assistant, ShopUnavailable, build, demo_token, open_shop
from assistant.shop import token_hash

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
        owner.execute("DELETE FROM documents")
    with pytest.raises(ValueError, match="passages: there are none"):
        Assistant(open_shop(path))


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
    """An order question is answered honestly; what is indexed already still answers; afterwards all is well again."""
    path, owner = locked
    assistant = Assistant(open_shop(path, timeout=0.01))
    owner.execute("BEGIN EXCLUSIVE")
    answer = assistant.ask(*OWN)
    assert (answer.tool, answer.sentences, answer.escalation) == ("order_status", (), "unavailable")
    assert "cannot reach the shop's records" in answer.text
    assert assistant.ask("Do you ship to Norway?").sentences
    owner.execute("ROLLBACK")
    assert assistant.ask(*OWN).sentences


def test_a_database_that_was_closed(database):
    connection = open_shop(database)
    assistant = Assistant(connection)
    connection.close()
    assert assistant.ask(*OWN).escalation == "unavailable"
