"""Who is asking, and what may they see: called by the application only, never by a composer or a model."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from .retrieval import Passage
from .shop import token_hash


@dataclass(frozen=True)
class Session:
    """A signed-in customer. Only `authenticate` makes one from a token."""

    customer_id: str


def authenticate(connection: sqlite3.Connection, token: str | None, today: date) -> Session | None:
    """The session that belongs to a token, or None for a missing, unknown or expired one."""
    if not isinstance(token, str):
        return None
    row = connection.execute("SELECT customer_id FROM sessions WHERE token_hash = ? AND expires >= ?", (token_hash(token), str(today))).fetchone()
    return Session(row["customer_id"]) if row else None


def order_status(connection: sqlite3.Connection, session: Session, order_id: str) -> Passage | None:
    """The order's record as evidence, if it is this customer's. Somebody else's order and nobody's are the same empty row."""
    row = connection.execute("SELECT * FROM orders WHERE id = ? AND customer_id = ?", (order_id, session.customer_id)).fetchone()
    if row is None:
        return None
    goods = "SELECT quantity, name FROM lines JOIN products ON products.id = product_id WHERE order_id = ? ORDER BY name"
    text = _describe(row, connection.execute(goods, (order_id,)).fetchall())
    return Passage(order_id, "order", order_id, f"Order {order_id}", text, "in force")


def find_orders(
    connection: sqlite3.Connection, session: Session, *, first: date = date.min, last: date = date.max, state: str | None = None,
    products: Sequence[str] = (), limit: int = -1,
) -> list[str]:
    """The ids of this customer's orders, newest first: placed from `first` to `last`, in that state, with one of those products. -1: all of them."""
    marks = ", ".join("?" * len(products))
    wanted = f"AND EXISTS (SELECT 1 FROM lines WHERE order_id = orders.id AND product_id IN ({marks}))" if products else ""
    rows = connection.execute(
        f"SELECT id FROM orders WHERE customer_id = ? AND placed BETWEEN ? AND ? AND state = coalesce(?, state) {wanted} ORDER BY placed DESC, id LIMIT ?",
        (session.customer_id, str(first), str(last), state, *products, limit))  # fmt: skip
    return [row["id"] for row in rows]


def _describe(order: sqlite3.Row, lines: Sequence[sqlite3.Row]) -> str:
    """The record in sentences: nothing that is not in the row."""
    goods = ", ".join(f"{line['quantity']} x {line['name']}" for line in lines)
    parts = [f"Order {order['id']} was placed on {order['placed']}, and its state is: {order['state']}.", f"It contains {goods}."]
    if order["tracking"]:
        parts.append(f"Its tracking number is {order['tracking']}.")
    if order["due"]:
        parts.append(f"It is due on {order['due']}.")
    if order["delivered"]:
        parts.append(f"It was delivered on {order['delivered']}.")
    return " ".join(parts)
