"""From a database into Delta tables, and through flows to gold, as a user types it."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import Database, Ran, here, postgres_database, sqlite_database
from tests.support.servers import Postgres
from tidegauge.spark import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOWS = """\
flows:
  silver:
    inputs: {orders: {path: bronze/orders}, customers: {path: bronze/customers}}
    transform: silver.sql
    output: {path: silver, key: id}
  gold:
    inputs: {silver: {path: silver}}
    transform: gold.sql
    output: {path: gold, key: name}
  alone: {inputs: {customers: {path: bronze/customers}}, output: {path: alone, key: id}}
"""
SILVER = "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id"
GOLD = "SELECT name, count(*) AS n, CAST(sum(amount) AS decimal(12,2)) AS total FROM silver GROUP BY name"
OPTIONS = "cursor: at, settle: 0s, rename: '{table}'"


class Shop:
    """A database of two tables, its Delta tables, and the Spark of both the project and its user."""

    def __init__(self, spark: SparkSession, folder: Path, database: Database) -> None:
        self.spark, self.folder, self.database = spark, folder, database
        self.file = folder / "tidegauge.yml"
        self.clock = 0
        database.execute(
            f"CREATE TABLE customers (id INT PRIMARY KEY, name {database.word}, at {database.moment})",
            "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(10,2),"
            f" at {database.moment})",
        )
        (folder / "silver.sql").write_text(SILVER)
        (folder / "gold.sql").write_text(GOLD)

    def write(self, options: str = OPTIONS, *, flows: str = "", via: str = "") -> None:
        self.file.write_text(
            f"pipeline: shop\nconnections:\n  app: {self.database.connection}\n"
            "  raw: {type: parquet, path: raw}\n  bronze: {type: delta, path: bronze}\n"
            f"sync:\n  - {{from: app, {via}to: bronze, tables: [customers, orders], {options}}}\n{flows}"
        )

    def put(self, table: str, *rows: tuple[Any, ...]) -> None:
        """Insert or replace, with the next second as the moment of each."""
        for row in rows:
            self.clock += 1
            at = f"'2025-01-01 00:{self.clock // 60:02d}:{self.clock % 60:02d}'"
            values = ", ".join("NULL" if one is None else repr(one) for one in row)
            self.database.execute(
                f"DELETE FROM {table} WHERE id = {row[0]}", f"INSERT INTO {table} VALUES ({values}, {at})"
            )

    def type(self, *words: object, code: int = 0) -> Ran:
        ran = here(*words, "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, *words: object, code: int = 0) -> Ran:
        return self.type("run", "--json", *words, code=code)

    def states(self, ran: Ran) -> dict[str, str]:
        return {one["flow"].removeprefix("public."): one["state"] for one in ran.json["flows"]}

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        found = self.spark.sql(f"SELECT {columns} FROM delta.`{self.folder}/{table}`").collect()
        return sorted(tuple(row) for row in found)

    def check(self) -> None:
        """Every layer is what its SQL makes of the database, computed without Tidegauge and Spark."""
        customers = {row[0]: row[1] for row in self.database.rows("SELECT id, name FROM customers")}
        orders = [
            (id_, customer, Decimal(str(amount)).quantize(Decimal("0.01")))
            for id_, customer, amount in self.database.rows("SELECT id, customer, amount FROM orders")
        ]
        assert self.rows("bronze/customers", "id, name") == sorted(customers.items())
        assert self.rows("bronze/orders", "id, customer, CAST(amount AS decimal(10,2))") == sorted(orders)
        silver = sorted((id_, customers[c], amount) for id_, c, amount in orders if c in customers)
        assert self.rows("silver", "id, name, CAST(amount AS decimal(10,2))") == silver
        names = {name for _, name, _ in silver}
        totals = {name: [amount for _, other, amount in silver if other == name] for name in names}
        gold = sorted((name, len(amounts), sum(amounts)) for name, amounts in totals.items())
        assert self.rows("gold", "name, n, total") == gold


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path, sqlite_database(tmp_path / "shop.db"))


def test_one_run_goes_from_postgresql_to_gold_and_the_next_moves_what_changed(
    spark: SparkSession, tmp_path: Path, postgres: Postgres
) -> None:
    shop = Shop(spark, tmp_path, postgres_database(postgres))
    shop.write(f"{OPTIONS}, deletes: hard, deletes_limit: 50%", flows=FLOWS)
    shop.put("customers", (1, "ann"), (2, "bob"))
    shop.put("orders", (1, 1, 10.5), (2, 2, 3), (3, 9, 7))
    assert shop.type("plan").code == 0
    assert set(shop.states(shop.run()).values()) == {"SUCCESS"}
    shop.check()

    shop.put("customers", (9, "cat"), (2, "ben"))
    shop.put("orders", (1, 2, 11), (4, 1, None))
    shop.database.execute("DELETE FROM orders WHERE id IN (2, 4)")
    second = shop.run()
    orders = second.flow("public.orders")
    assert (orders["rows_inserted"], orders["rows_updated"], orders["rows_deleted"]) == (0, 1, 1)
    shop.check()

    assert set(shop.states(shop.run()).values()) == {"SKIPPED"}
    verified = shop.type("verify", "--json").json["tables"]
    names = {"public.customers", "public.orders", "silver", "gold", "alone"}
    assert {one["table"] for one in verified if one["equal"]} == names
    (tmp_path / ".tidegauge" / "ledger.db").unlink()
    assert "the ledger knows nothing of them" in str(shop.run(code=1).flow("public.orders")["error"])
    shop.type("ledger", "rebuild", "--yes", "--reason", "lost")
    shop.put("orders", (5, 1, 1))
    assert shop.run().flow("public.orders")["rows_written"] == 1
    shop.check()


@pytest.mark.long
def test_a_failed_sync_stops_what_reads_it_and_nothing_else(shop: Shop) -> None:
    shop.write(flows=FLOWS)
    shop.put("customers", (1, "ann"))
    shop.put("orders", (1, 1, 5))
    shop.run()
    shop.put("customers", (2, "bob"))
    shutil.rmtree(shop.folder / "bronze/orders")
    ran = shop.run(code=1)
    assert shop.states(ran) == {
        "customers": "SUCCESS",
        "orders": "FAILED",
        "silver": "SKIPPED",
        "gold": "SKIPPED",
        "alone": "SUCCESS",
    }
    error = ran.flow("orders")["error"]
    assert "the ledger says batch 1 was committed" in error["message"]
    assert "run --select orders --full-refresh" in error["hint"]
    shop.type("run", "--select", "orders", "--full-refresh", "--yes", "--reason", "dropped")
    assert shop.rows("bronze/orders", "id") == [(1,)]
    # What reads it stands on another table, and says so until it is told to begin again.
    refused = shop.run(code=1).flow("silver")
    assert refused["error"]["type"] == "TableReplaced", refused
    shop.type("watermark", "reset", "--select", "silver", "--yes", "--reason", "made anew")
    shop.run()
    shop.check()


@pytest.mark.long
def test_append_through_a_lake_keeps_every_version_and_many_rows_go_by_tasks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "FEW", 1)
    shop.write(f"{OPTIONS}, mode: append, batch_rows: 4", via="via: raw, ")
    shop.put("orders", (1, 1, 5), (2, 1, 6), (3, 1, 7))
    shop.run()
    shop.put("orders", (1, 1, 8))
    ran = shop.run("--select", "orders")
    assert ran.flow("orders/load")["rows_inserted"] == 1
    assert [row[:1] for row in shop.rows("bronze/orders", "id, at")] == [(1,), (1,), (2,), (3,)]
    assert shop.rows("bronze/customers") == []
    assert shop.type("verify", "--json").json["tables"][0]["equal"]
    shop.type("watermark", "reset", "-t", "orders", "--stage", "load", "--yes", "--reason", "x", code=2)
    shop.type("run", "-t", "orders", "--full-refresh", "--yes", "--reason", "again")
    assert [row[:1] for row in shop.rows("bronze/orders", "id, at")] == [(1,), (2,), (3,)]


@pytest.mark.long
def test_a_merge_through_a_lake_takes_the_last_of_versions_that_come_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "FEW", 1)
    shop.write(f"{OPTIONS}, batch_rows: 2", via="via: raw, ")
    shop.put("orders", (1, 1, 5), (2, 1, 6), (3, 1, 7))
    shop.run("--stage", "extract")
    shop.put("orders", (1, 1, 8), (3, 1, 9), (4, 1, 1))
    shop.run("--stage", "extract")
    shop.run("--stage", "load")
    assert shop.rows("bronze/orders", "id, int(amount)") == [(1, 8), (2, 6), (3, 9), (4, 1)]
    [manifest] = (shop.folder / "raw/orders/_tidegauge/0").glob("1.json")
    lost = next((shop.folder / "raw/orders/data").rglob("*.parquet"))
    shop.type("run", "-t", "orders", "--full-refresh", "--stage", "load", "--yes", "--reason", "x")
    assert manifest.is_file()
    shop.put("orders", (5, 1, 1))
    shop.run("--stage", "extract")
    lost = max((shop.folder / "raw/orders/data").rglob("*.parquet"), key=lambda path: path.stat().st_mtime)
    lost.write_bytes(b"")
    error = shop.run("--stage", "load", code=1).flow("orders/load")["error"]
    assert "was changed after it was committed: it has 0 bytes" in error["message"], error


@pytest.mark.parametrize(
    ("change", "drift", "said"),
    [
        ("ALTER TABLE {} ADD COLUMNS (mine STRING)", "evolve", None),
        (
            "ALTER TABLE {} ADD COLUMNS (mine STRING)",
            "fail",
            "column mine, which the source does not give",
        ),
        (
            "REPLACE TABLE {} USING delta AS SELECT string(id) id, at FROM {}",
            "evolve",
            "column id was string",
        ),
        ("TRUNCATE TABLE {}", "evolve", "was emptied by something else"),
        ("REPLACE TABLE {} (id BIGINT) USING delta", "evolve", "was emptied by something else"),
    ],
)
def test_what_somebody_does_to_a_table_between_two_runs_is_told_or_harmless(
    shop: Shop, change: str, drift: str, said: str | None
) -> None:
    shop.write(f"{OPTIONS}, drift: {drift}")
    shop.put("orders", (1, 1, 5))
    shop.run()
    shop.spark.sql(change.replace("{}", f"delta.`{shop.folder}/bronze/orders`"))
    shop.put("orders", (2, 1, 6), (1, 1, 7))
    ran = shop.run(code=0 if said is None else 1)
    if said is None:
        assert shop.rows("bronze/orders", "id, int(amount), mine") == [(1, 7, None), (2, 6, None)]
        return
    assert said in ran.flow("orders")["error"]["message"], ran.said
    assert "transform" not in str(ran.flow("orders")["error"])


def test_a_row_that_somebody_wrote_or_deleted_by_hand_is_found_by_verify(shop: Shop) -> None:
    shop.write()
    shop.put("orders", (1, 1, 5), (2, 1, 6))
    shop.run()
    table = f"delta.`{shop.folder}/bronze/orders`"
    shop.spark.sql(f"DELETE FROM {table} WHERE id = 1")
    shop.spark.sql(f"INSERT INTO {table} SELECT 7, customer, amount, at FROM {table}")
    [orders] = shop.type("verify", "-t", "orders", "--json", code=1).json["tables"]
    assert (orders["missing"], orders["extra"]) == (1, 1)
