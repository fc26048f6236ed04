"""The shop's source of truth: a deterministic SQLite file with catalogue, policies, customers, sessions and orders."""

import hashlib
import os
import random
import sqlite3
import tempfile
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote

import yaml

HERE = Path(__file__).parent
TODAY = date(2025, 6, 16)  # the exercise's day: versions, sessions and orders are judged against it

SCHEMA = """
CREATE TABLE products  (id TEXT PRIMARY KEY, name TEXT NOT NULL, price TEXT NOT NULL, stock INTEGER NOT NULL, about TEXT NOT NULL);
CREATE TABLE papers    (id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('policy', 'leaflet')), topic TEXT NOT NULL,
                        title TEXT NOT NULL, valid_from TEXT, valid_until TEXT, text TEXT NOT NULL);
CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE sessions  (token_hash TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, expires TEXT NOT NULL);
CREATE TABLE orders    (id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, placed TEXT NOT NULL, state TEXT NOT NULL,
                        tracking TEXT, due TEXT, delivered TEXT);
CREATE TABLE lines     (order_id TEXT NOT NULL REFERENCES orders, product_id TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL);
-- Everything that can be cited. A product's price and stock become sentences here, when they are read, so that no copy of them grows old.
CREATE VIEW documents AS
  SELECT id, kind, topic, title, valid_from, valid_until, text FROM papers
  UNION ALL
  SELECT id, 'catalogue', id, name, NULL, NULL, about || ' The price of the ' || name || ' is ' || price || ' euros and '
         || CASE WHEN stock > 0 THEN stock || ' are in stock' ELSE 'it is out of stock' END || '.' FROM products;
"""

NAMES = ("Ada Berg", "Bram Costa", "Chloe Dahl", "Dario Eng", "Edda Falk", "Finn Greco", "Gila Holm", "Hugo Ibsen", "Ines Jansen", "Jonas Kern")


def load_data(path: Path = HERE / "data" / "shop.yaml") -> dict:
    """The shop's hand-written half: products, policies, leaflets."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def token_hash(token: str) -> str:
    """SHA-256 of a session token: the database never holds the token itself."""
    return hashlib.sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def demo_token(customer_id: str) -> str:
    """A repeatable session token for the exercise (a real shop draws one with `secrets`)."""
    return f"demo-{customer_id}"


def build(path: str | Path, seed: int = 7) -> Path:
    """Write the whole shop to a new SQLite file and return its path; the same seed gives the same rows.

    The file is written under another name and gets its own when it is complete: whoever is stopped half-way leaves
    no half shop, and nothing that the next `build` trips over.
    """
    path = Path(path)
    if path.exists():
        raise ValueError(f"path: {path} exists already; it must name a new file")
    handle, unfinished = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".unfinished", dir=path.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(unfinished)) as connection, connection:
            connection.executescript(SCHEMA)
            _goods_and_papers(connection)
            _people_and_orders(connection, random.Random(seed), [row[0] for row in connection.execute("SELECT id FROM products ORDER BY id")])
        os.link(unfinished, path)  # unlike a renaming, this overwrites nothing that appeared meanwhile
    except FileExistsError:
        raise ValueError(f"path: {path} exists already; it must name a new file") from None
    finally:
        os.unlink(unfinished)
    return path


def _goods_and_papers(connection: sqlite3.Connection) -> None:
    data = load_data()
    for p in data["products"]:
        connection.execute("INSERT INTO products VALUES (:id, :name, :price, :stock, :about)", p)
    for d in data["policies"]:
        row = (d["id"], d["topic"], d["title"], d.get("from"), d.get("until"), d["text"])
        connection.execute("INSERT INTO papers VALUES (?, 'policy', ?, ?, ?, ?, ?)", row)
    for d in data["leaflets"]:
        connection.execute("INSERT INTO papers VALUES (?, 'leaflet', ?, ?, NULL, NULL, ?)", (d["id"], d["product"], d["title"], d["text"]))


def _people_and_orders(connection: sqlite3.Connection, rng: random.Random, product_ids: list[str]) -> None:
    """Ten customers with three orders each; one more session, of customer 10, has expired."""
    numbers = iter(rng.sample(range(10_000, 100_000), 3 * len(NAMES)))
    for i, name in enumerate(NAMES, start=1):
        customer = f"CUS-{i:02d}"
        connection.execute("INSERT INTO customers VALUES (?, ?, ?)", (customer, name, name.lower().replace(" ", ".") + "@example.org"))
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", (token_hash(demo_token(customer)), customer, str(TODAY + timedelta(days=1))))
        for days_ago, state in ((rng.randint(40, 200), rng.choice(("delivered", "delivered", "returned", "cancelled"))),
                                (rng.randint(12, 35), "delivered"), (rng.randint(0, 4), rng.choice(("being packed", "shipped")))):
            placed = TODAY - timedelta(days=days_ago)
            left = state in ("shipped", "delivered", "returned")
            order = f"TT-{next(numbers)}"
            connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
                               (order, customer, str(placed), state, f"NO{rng.randrange(10**9):09d}" if left else None,
                                str(placed + timedelta(days=6)) if state in ("shipped", "being packed") else None,
                                str(placed + timedelta(days=rng.randint(2, 5))) if state in ("delivered", "returned") else None))
            for product in rng.sample(product_ids, rng.randint(1, 2)):
                connection.execute("INSERT INTO lines VALUES (?, ?, ?)", (order, product, rng.randint(1, 2)))
    connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", (token_hash("demo-expired"), "CUS-10", str(TODAY - timedelta(days=1))))


class ShopUnavailable(RuntimeError):
    """The shop's database cannot be read at present."""


def unavailable(path: str | Path, error: sqlite3.Error) -> ShopUnavailable:
    """What is wrong, and what can be done about it: a damaged file needs its owner, a locked one a moment."""
    damaged = getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "malformed" in str(error)
    advice = "; the file is damaged: restore it from a backup, or build it anew" if damaged else ""
    return ShopUnavailable(f"the shop database at {path} cannot be read: {error}{advice}")


def open_shop(path: str | Path, timeout: float = 0.2) -> sqlite3.Connection:
    """A read-only connection to an existing shop; says clearly what is wrong when there is none. One request, one connection."""
    path = Path(path)
    if not path.is_file():
        raise ShopUnavailable(f"no shop database at {path}; make one with assistant.shop.build(path)")
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=timeout)
        connection.row_factory = sqlite3.Row
        connection.execute("SELECT 1 FROM documents LIMIT 1").fetchall()
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise unavailable(path, error) from error
    return connection


def check_shop(path: str | Path) -> None:
    """Read every page once: a damaged one is named now, and not by the first customer who needs it."""
    try:
        with closing(open_shop(path)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    if found != ["ok"]:
        raise unavailable(path, sqlite3.DatabaseError("malformed: " + "; ".join(" ".join(line.split()) for line in found)))
