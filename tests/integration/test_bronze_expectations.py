"""Expectations of a sync into Delta tables, and of rows that only Spark reads, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.support.project import Ran, here, postgres_database, sqlite_database
from tests.support.servers import Postgres
from tidegauge.spark import on_demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPECT = "expect: {n: {range: {min: 0}, action: quarantine}, word: {not_null: true, action: drop}}"
WHY = ("--reason", "a test", "--yes")
Row = tuple[int | None, str | None, int | None]


class Bronze:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.clock = spark, folder, 0
        self.database = sqlite_database(folder / "app.db")
        self.file = folder / "tidegauge.yml"
        self.database.execute(
            "CREATE TABLE t (id INTEGER, word TEXT, n INTEGER, at INTEGER, PRIMARY KEY (id))"
        )

    def write(self, options: str) -> None:
        self.file.write_text(
            f"pipeline: p\nconnections:\n  app: {self.database.connection}\n"
            "  bronze: {type: delta, path: bronze}\n"
            f"sync:\n  - {{from: app, to: bronze, tables: [t], cursor: at, {options}}}\n"
        )

    def put(self, *rows: Row) -> None:
        for row in rows:
            self.clock += 1
            values = ", ".join("NULL" if one is None else repr(one) for one in row)
            self.database.execute(f"INSERT OR REPLACE INTO t VALUES ({values}, {self.clock})")

    def type(self, *words: object, code: int = 0) -> Ran:
        ran = here(*words, "--project", self.file)
        assert ran.code == code, ran.said
        return ran

    def run(self, *words: object, code: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.type("run", "--json", *words, code=code).out)["flows"][0])

    def ids(self) -> list[int]:
        return sorted(
            row[0] for row in self.spark.sql(f"SELECT id FROM delta.`{self.folder}/bronze/t`").collect()
        )

    def aside(self) -> list[tuple[int, int, list[str]]]:
        found = self.spark.sql(f"SELECT row, _seq, _reasons FROM delta.`{self.folder}/bronze/t_quarantine`")
        return sorted((json.loads(row)["id"], seq, list(why)) for row, seq, why in found.collect())

    def verify(self, code: int = 0) -> None:
        self.type("verify", code=code)


@pytest.fixture
def bronze(spark: SparkSession, tmp_path: Path) -> Bronze:
    return Bronze(spark, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)], ids=["few", "many"])
def test_a_delta_table_is_the_rows_that_pass(bronze: Bronze, monkeypatch: Any, few: bool) -> None:
    if not few:
        monkeypatch.setattr(on_demand, "FEW", 0)
    why = ["n: range"]
    bronze.write(EXPECT)
    bronze.put((1, "a", 1), (2, "b", -2), (3, None, 3), (4, "d", None))
    done = bronze.run()
    assert (done["rows_quarantined"], done["expectations"]["dropped"]) == (1, 1)
    assert (bronze.ids(), bronze.aside()) == ([1, 4], [(2, 1, why)])
    bronze.verify()
    # Bad after it was good, and good again.
    bronze.put((1, "a", -1), (2, "b", 2), (5, "e", -5))
    bronze.run()
    assert (bronze.ids(), bronze.aside()) == ([2, 4], [(1, 2, why), (2, 1, why), (5, 2, why)])
    bronze.verify()
    bronze.write(EXPECT.replace("min: 0", "min: -2"))
    [done] = json.loads(bronze.type("quarantine", "replay", *WHY, "--json").out)["flows"]
    assert (done["rows"], done["left"], done["error"]) == (3, 1, None)
    assert (bronze.ids(), [key for key, *_ in bronze.aside()]) == ([1, 2, 4], [5])
    bronze.verify()
    bronze.write("expect: {word: [{not_null: true, action: drop}, unique]}")
    bronze.put((6, "d", 6))
    failed = bronze.run(code=1)["error"]
    assert "not as expected, `word: unique`" in failed["message"]
    bronze.put((6, "f", -6), (7, "g", 7))
    bronze.write(f"{EXPECT[:-1]}, row_count: {{min: 1}}}}")
    bronze.run("--full-refresh", *WHY)
    assert (bronze.ids(), [key for key, *_ in bronze.aside()]) == ([2, 4, 7], [1, 5, 6])
    bronze.type("quarantine", "discard", *WHY)
    assert bronze.aside() == []


@pytest.mark.long
def test_replay_adds_the_rows_themselves_to_a_delta_table_that_only_grows(bronze: Bronze) -> None:
    bronze.write(f"mode: append, {EXPECT}")
    bronze.put((1, "a", 1), (2, "b", -2), (3, "c", -3))
    bronze.run()
    bronze.write(f"mode: append, {EXPECT}".replace("min: 0", "min: -2"))
    bronze.type("quarantine", "replay", *WHY)
    assert (bronze.ids(), [key for key, *_ in bronze.aside()]) == ([1, 2], [3])
    bronze.verify()


def test_rows_that_only_spark_reads_are_checked_by_its_tasks(
    spark: SparkSession, tmp_path: Path, postgres: Postgres
) -> None:
    database = postgres_database(postgres)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, word TEXT, n NUMERIC(38,10), at TIMESTAMP)",
        "INSERT INTO t VALUES (1, 'a', 1, '2025-01-01'),"
        " (2, 'b', -0.0000000001, '2025-01-01 00:00:00.000001')",
    )
    file = tmp_path / "tidegauge.yml"
    file.write_text(
        f"pipeline: p\nconnections:\n  app: {database.connection}\n"
        "  house: {type: duckdb, path: h.duckdb}\n"
        f"sync:\n  - {{from: app, to: house, tables: [t], cursor: at, read: jdbc, {EXPECT}}}\n"
    )
    ran = here("run", "--json", "--project", file)
    assert ran.code == 0, ran.said
    with duckdb.connect(str(tmp_path / "h.duckdb")) as connection:
        assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
        [(row,)] = connection.execute('SELECT "row" FROM t_quarantine').fetchall()
    assert row == '{"id":2,"word":"b","n":-0.0000000001,"at":"2025-01-01T00:00:00.000001"}'
    assert here("verify", "--project", file).code == 0
