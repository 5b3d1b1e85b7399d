"""The demo is the first thing a user sees; the README shows what it prints."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

README = (Path(__file__).parents[2] / "README.md").read_text()


def words(line: str) -> str:
    """Without the seconds, which are not the same twice."""
    return re.sub(r"\d+\.\d( s)?$", "", " ".join(line.split())).rstrip(" ,")


def test_the_demo_proves_itself_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "tidegauge.cli.main", "demo", "--keep", str(tmp_path / "shop")],
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Proven: the warehouse has every row of the source" in demo.stdout
    assert "Proven: every layer is what it would be" in demo.stdout
    [shown] = re.findall(r"```\n\$ tidegauge demo\n(.*?)```", README, re.DOTALL)
    printed = {words(line) for line in demo.stdout.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() and words(line) not in printed] == []
    # The demo's own proof is not taken at its word.
    source, target = tables(tmp_path / "shop")
    assert [len(rows) for rows in source.values()] == [4624, 215221, 86175, 463]
    assert target == source
    assert gold(tmp_path / "shop" / "layers") == revenue(tmp_path / "shop" / "layers" / "shop.db")


def revenue(shop: Path) -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(shop)) as connection:
        return set(
            connection.execute(
                "SELECT ifnull(city, 'unknown'), count(*), sum(total_cents) FROM orders JOIN customers"
                " ON customers.id = customer_id WHERE status IN ('paid', 'shipped') GROUP BY city"
            ).fetchall()
        )


def gold(folder: Path) -> set[tuple[Any, ...]]:
    table = DeltaTable(folder / "gold" / "revenue")
    found = QueryBuilder().register("revenue", table).execute("SELECT * FROM revenue").read_all()
    return {tuple(row.values()) for row in pa.table(found).to_pylist()}


def tables(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every table of the shop, and of the warehouse that was made of it."""
    names = ("customers", "order_items", "orders", "products")
    with (
        closing(sqlite3.connect(folder / "shop.db")) as shop,
        duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as warehouse,
    ):
        source = {name: set(shop.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
        landed = {name: warehouse.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    assert all(len(rows) == len({*rows}) for rows in landed.values())
    return source, {name: set(rows) for name, rows in landed.items()}
