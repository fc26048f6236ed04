"""The desk where people take over: a question that is passed on becomes a ticket with a number."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path

SCHEMA = """CREATE TABLE IF NOT EXISTS tickets (number INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, customer_id TEXT,
            reason TEXT NOT NULL, question TEXT NOT NULL)"""


class DeskUnavailable(RuntimeError):
    """The ticket could not be written, so nothing has been passed on."""


@dataclass(frozen=True)
class Ticket:
    number: str
    day: str
    customer_id: str | None  # from the session, never from the question
    reason: str
    question: str


class Desk:
    """Tickets in an SQLite file of their own: the shop's file stays read-only. Each call has its own connection."""

    def __init__(self, path: str | Path, timeout: float = 5.0):
        self.path, self.timeout = Path(path), timeout

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None)
        try:
            connection.execute(SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def write(self, day: date, customer_id: str | None, reason: str, question: str) -> str:
        """Store the ticket, and return its number once it is on the disk; `DeskUnavailable` when it is not."""
        try:
            with closing(self._connect()) as connection:
                values = (str(day), customer_id, reason, question)
                row = connection.execute("INSERT INTO tickets (day, customer_id, reason, question) VALUES (?, ?, ?, ?)", values)
                return f"T-{row.lastrowid:05d}"
        except sqlite3.Error as error:
            raise DeskUnavailable(f"the tickets at {self.path} cannot be written: {error}") from error

    def tickets(self) -> list[Ticket]:
        """All of them, oldest first."""
        try:
            with closing(self._connect()) as connection:
                return [Ticket(f"T-{number:05d}", *rest) for number, *rest in connection.execute("SELECT * FROM tickets ORDER BY number")]
        except sqlite3.Error as error:
            raise DeskUnavailable(f"the tickets at {self.path} cannot be read: {error}") from error
