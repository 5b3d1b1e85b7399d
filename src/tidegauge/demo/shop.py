"""A shop's database in one SQLite file: four tables, each with many rows of the same timestamp (ties)."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

_SCHEMA = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, updated_at TEXT NOT NULL);
CREATE TABLE products (
    sku TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL, price_cents INTEGER NOT NULL,
    updated_at TEXT NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, status TEXT NOT NULL, total_cents INTEGER NOT NULL,
    note TEXT, updated_at TEXT NOT NULL);
CREATE TABLE order_items (
    order_id INTEGER NOT NULL, line INTEGER NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
    updated_at TEXT NOT NULL, PRIMARY KEY (order_id, line));
CREATE INDEX customers_by_time ON customers (updated_at, id);
CREATE INDEX products_by_time ON products (updated_at, sku);
CREATE INDEX orders_by_time ON orders (updated_at, id);
CREATE INDEX order_items_by_time ON order_items (updated_at, order_id, line);
"""
SETTLED = 3
"""Seconds to wait until the newest rows are older than the demo's `settle`."""
_CITIES = ("Bergen", "Porto", "Košice", "Århus", "Kraków", None)
_NOTES = (None, None, "gift", "leave at the door", "it's “fragile” 🎁", "line one\nline two")


def make_shop(file: Path, *, orders: int, seed: int = 7) -> None:
    """Make a shop with about three and a half rows for each order, all older than a day."""
    chance = random.Random(seed)  # noqa: S311 - the same shop each time
    start = datetime.now(UTC) - timedelta(days=30)
    with open_shop(file) as shop:
        shop.executescript(_SCHEMA)
        shop.executemany(
            "INSERT INTO customers VALUES (?, ?, ?, ?)",
            (
                (n, f"Customer {n}", chance.choice(_CITIES), _moment(start, n * 29 % 86400))
                for n in range(1, orders // 12 + 2)
            ),
        )
        # All products have the same timestamp, as after an import of the whole catalogue: one large tie.
        shop.executemany(
            "INSERT INTO products VALUES (?, ?, ?, ?)",
            (
                (f"SKU-{n:05d}", f"Product {n}", 100 + n * 7 % 9900, _moment(start, 0))
                for n in range(orders // 120 + 5)
            ),
        )
        began = datetime.now(UTC) - timedelta(days=1, seconds=orders // 100)
        add_orders(shop, first=1, count=orders, began=began, to_a_second=100, chance=chance)


def add_orders(
    shop: sqlite3.Connection,
    *,
    first: int,
    count: int,
    began: datetime,
    to_a_second: int,
    chance: random.Random,
) -> None:
    """Add orders and their lines, with so many in one second that every batch ends inside a tie."""
    products = shop.execute("SELECT count(*) FROM products").fetchone()[0]
    customers = shop.execute("SELECT count(*) FROM customers").fetchone()[0]
    lines = []
    orders = []
    for n in range(count):
        at = _moment(began, n // to_a_second)
        orders.append(
            (
                first + n,
                chance.randint(1, customers),
                chance.choice(("new", "paid", "shipped")),
                chance.randint(100, 90000),
                chance.choice(_NOTES),
                at,
            )
        )
        for line in range(1, chance.randint(2, 3) + 1):
            lines.append((first + n, line, f"SKU-{chance.randrange(products):05d}", chance.randint(1, 5), at))
    shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", orders)
    shop.executemany("INSERT INTO order_items VALUES (?, ?, ?, ?, ?)", lines)


def delete_orders(shop: sqlite3.Connection, *, first: int, count: int) -> None:
    """Delete orders and their lines, which no cursor can notice."""
    numbers = (first, first + count - 1)
    shop.execute("DELETE FROM order_items WHERE order_id BETWEEN ? AND ?", numbers)
    shop.execute("DELETE FROM orders WHERE id BETWEEN ? AND ?", numbers)


@contextmanager
def open_shop(file: Path) -> Iterator[sqlite3.Connection]:
    """Open the shop; everything in the block is one transaction."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file, timeout=30)) as shop, shop:
        yield shop


def as_text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _moment(base: datetime, seconds: float) -> str:
    return as_text(base + timedelta(seconds=seconds))
