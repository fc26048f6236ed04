"""The shop's source of truth: a deterministic SQLite file with catalogue, policies, customers, sessions and orders."""

import hashlib
import random
import sqlite3
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote

import yaml

HERE = Path(__file__).parent
TODAY = date(2025, 6, 16)  # the exercise's day: versions, sessions and orders are judged against it

SCHEMA = """
CREATE TABLE products  (id TEXT PRIMARY KEY, name TEXT NOT NULL, price TEXT NOT NULL, stock INTEGER NOT NULL, about TEXT NOT NULL);
CREATE TABLE documents (id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('catalogue', 'policy', 'leaflet')), topic TEXT NOT NULL,
                        title TEXT NOT NULL, valid_from TEXT, valid_until TEXT, text TEXT NOT NULL);
CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE sessions  (token_hash TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, expires TEXT NOT NULL);
CREATE TABLE orders    (id TEXT PRIMARY KEY, customer_id TEXT NOT NULL REFERENCES customers, placed TEXT NOT NULL, state TEXT NOT NULL,
                        tracking TEXT, due TEXT, delivered TEXT);
CREATE TABLE lines     (order_id TEXT NOT NULL REFERENCES orders, product_id TEXT NOT NULL REFERENCES products, quantity INTEGER NOT NULL);
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


def catalogue_text(product: dict) -> str:
    """A product row as sentences, so that price and stock can be cited like everything else."""
    stock = f"{product['stock']} are in stock" if product["stock"] else "it is out of stock"
    return f"{product['about']} The price of the {product['name']} is {product['price']} euros and {stock}."


def build(path: str | Path, seed: int = 7) -> Path:
    """Write the whole shop to a new SQLite file and return its path; the same seed gives the same rows."""
    path = Path(path)
    if path.exists():
        raise ValueError(f"path: {path} exists already; it must name a new file")
    data, rng = load_data(), random.Random(seed)
    with sqlite3.connect(path) as connection:
        connection.executescript(SCHEMA)
        for p in data["products"]:
            connection.execute("INSERT INTO products VALUES (:id, :name, :price, :stock, :about)", p)
            connection.execute("INSERT INTO documents VALUES (?, 'catalogue', ?, ?, NULL, NULL, ?)", (p["id"], p["id"], p["name"], catalogue_text(p)))
        for d in data["policies"]:
            connection.execute("INSERT INTO documents VALUES (?, 'policy', ?, ?, ?, ?, ?)",
                               (d["id"], d["topic"], d["title"], d.get("from"), d.get("until"), d["text"]))
        for d in data["leaflets"]:
            connection.execute("INSERT INTO documents VALUES (?, 'leaflet', ?, ?, NULL, NULL, ?)", (d["id"], d["product"], d["title"], d["text"]))
        _people_and_orders(connection, rng, [p["id"] for p in data["products"]])
    connection.close()
    return path


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


def open_shop(path: str | Path, timeout: float = 0.2) -> sqlite3.Connection:
    """A read-only connection to an existing shop; says clearly what is wrong when there is none."""
    path = Path(path)
    if not path.is_file():
        raise ShopUnavailable(f"no shop database at {path}; make one with assistant.shop.build(path)")
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=timeout)
        connection.row_factory = sqlite3.Row
        connection.execute("SELECT 1 FROM documents LIMIT 1").fetchall()
    except sqlite3.Error as error:
        raise ShopUnavailable(f"the shop database at {path} cannot be read: {error}") from error
    return connection
