"""What differs between Snowflake and a target, found and mended without hashes: of a table without a cursor,
and by `repair`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_without_cursor import Shop
from tests.support.project import duckdb_database, snowflake_database
from tests.support.snowflake_server import SnowflakeServer


@pytest.fixture
def shop(snowflake: SnowflakeServer, tmp_path: Path) -> Shop:
    return Shop(tmp_path, snowflake_database(snowflake), duckdb_database(tmp_path / "copy.duckdb"))


def compare(shop: Shop, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of the target, which have to be the source's."""
    found = shop.copy.rows(query)
    assert found == shop.app.rows(query)
    return found


def test_a_table_without_a_cursor_is_compared_and_only_the_difference_is_committed(shop: Shop) -> None:
    rows = ", ".join(f"({n}, 'é''{n % 2}', 'film {n}')" for n in range(1, 31))
    shop.app.execute(
        "CREATE TABLE film (id INT, part VARCHAR, title VARCHAR)", f"INSERT INTO film VALUES {rows}"
    )
    shop.write("FILM", more=", without_cursor: snapshot, key: [ID, PART], deletes: hard")
    assert shop.run() == {"FILM": ("SUCCESS", 30, 30, 0, 0)}
    assert shop.run() == {"FILM": ("SKIPPED", 0, 0, 0, 0)}
    shop.app.execute(
        "UPDATE film SET title = 'seen' WHERE id IN (7, 8)",
        "DELETE FROM film WHERE id = 10",
        "INSERT INTO film VALUES (40, 'new', NULL)",
    )
    assert shop.run() == {"FILM": ("SUCCESS", 3, 1, 2, 1)}
    assert len(compare(shop, "SELECT id, part, title FROM film ORDER BY id")) == 30
    assert shop.verify()["FILM"]["equal"]


def test_repair_moves_the_rows_that_somebody_changed_in_the_target(shop: Shop) -> None:
    rows = ", ".join(f"({n}, {n * 10}, '2025-01-01')" for n in range(1, 31))
    shop.app.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, total INT, seen TIMESTAMP_NTZ)",
        f"INSERT INTO orders VALUES {rows}",
    )
    shop.write("ORDERS", more=", cursor: SEEN")
    assert shop.run() == {"ORDERS": ("SUCCESS", 30, 30, 0, 0)}
    shop.copy.execute("UPDATE orders SET total = 0 WHERE id < 3", "DELETE FROM orders WHERE id = 9")
    shop.do("repair", "-t", "ORDERS", "--reason", "somebody's hand", "--yes")
    assert len(compare(shop, "SELECT id, total FROM orders ORDER BY id")) == 30
    assert shop.verify()["ORDERS"]["equal"]
