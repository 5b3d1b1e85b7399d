"""Flows between Delta tables as a user types them: the chain, what fails, and how it is mended."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.project import Ran, here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
FEED = "USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"


class Lakehouse:
    """A project of flows in a folder of its own, and the Spark that both it and its user have."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.file = folder / "tidegauge.yml"

    def write(self, flows: str, **files: str) -> None:
        self.file.write_text(f"pipeline: lakehouse\nflows:\n{flows}")
        for name, text in files.items():
            (self.folder / f"{name}.sql").write_text(text)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """`@name` is the table of that name."""
        words = [
            f"delta.`{self.folder}/{word[1:]}`" if word[:1] == "@" else word for word in statement.split(" ")
        ]
        return sorted(tuple(row) for row in self.spark.sql(" ".join(words)).collect())

    def type(self, *words: str) -> Ran:
        return here(*words, "--project", str(self.file))

    def run(self, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
        """By flow, the last report of each."""
        ran = self.type("run", "--json", *words)
        assert ran.code == code, ran
        return {flow["flow"]: flow for flow in json.loads(ran.out)["flows"]}


@pytest.fixture
def lakehouse(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    return Lakehouse(spark, tmp_path)


def test_the_example_of_the_layers_runs_as_its_page_says(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "layers"
    shutil.copytree(EXAMPLES / "003_layers", folder)
    lake = runpy.run_path(str(folder / "lake.py"))
    house = Lakehouse(spark, folder)
    lake["make"](spark, folder / "lake")
    first = house.run()
    assert {flow["state"] for flow in first.values()} == {"SUCCESS"}
    lake["change"](spark, folder / "lake")
    explained = house.type("explain")
    assert "silver_usage → " in explained.out
    assert "usage: versions 2 to 5, change feed" in explained.out
    second = house.run()
    assert second["silver_usage"]["rows_inserted"] == 2
    assert second["silver_usage"]["rows_deleted"] == 3
    assert lake["prove"](spark, folder / "lake")["silver/clusters"] == 3
    idle = house.run()
    assert {flow["state"] for flow in idle.values()} == {"SKIPPED"}


def test_the_example_of_many_tables_moves_only_what_changed(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "flows"
    shutil.copytree(EXAMPLES / "001_version_ranges" / "flows", folder)
    lake = runpy.run_path(str(folder / "lake.py"))
    house = Lakehouse(spark, folder)
    lake["make"](folder / "lake", 12)
    assert {flow["state"] for flow in house.run("--parallel", "4").values()} == {"SUCCESS"}
    changed = lake["change"](folder / "lake")
    ran = house.run("--parallel", "4")
    assert {name for name, flow in ran.items() if flow["state"] == "SUCCESS"} == set(changed)
    # Of the hundred new rows one was deleted before anybody read it.
    assert {flow["rows_written"] for name, flow in ran.items() if name in changed} == {99 + 10 + 10}
    assert lake["prove"](folder / "lake") == 12


def test_a_failure_stops_what_reads_from_it_and_mended_sql_ends_the_frozen_plan(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write(
        "  silver: {inputs: {a: {path: a}}, transform: silver.sql, output: {path: silver, key: id}}\n"
        "  gold: {inputs: {s: {path: silver}}, output: {path: gold, key: id}}\n"
        "  beside: {inputs: {a: {path: a}}, output: {path: beside, mode: append}}\n",
        silver="SELECT id, 1 / (id - id) AS broken FROM a",
    )
    failed = house.run(code=1)
    assert {name: flow["state"] for name, flow in failed.items()} == {
        "silver": "FAILED",
        "gold": "SKIPPED",
        "beside": "SUCCESS",
    }
    assert "silver did not end well" in str(failed["gold"]["notes"])
    error = failed["silver"]["error"]
    assert "ivision by zero" in error["message"]
    assert "at org.apache" not in error["message"]
    house.sql("INSERT INTO @a VALUES (3, 'three')")
    (house.folder / "silver.sql").write_text("SELECT id, upper(word) AS word FROM a")
    ran = json.loads(house.type("run", "--json").out)["flows"]
    windows = [flow["windows"][0]["upto"] for flow in ran if flow["flow"] == "silver"]
    assert windows == [1, 2]
    assert house.sql("SELECT * FROM @gold") == [(1, "ONE"), (2, "TWO"), (3, "THREE")]


def test_b4_a_lost_ledger_is_refused_and_rebuilt_and_nothing_comes_twice(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT) {FEED}")
    house.sql("INSERT INTO @a VALUES (1), (2)")
    house.write("  log: {inputs: {a: {path: a}}, output: {path: log, mode: append}}\n")
    house.run()
    house.sql("INSERT INTO @a VALUES (3)")
    house.run()
    shutil.rmtree(house.folder / ".tidegauge")
    lost = house.run(code=1)["log"]["error"]
    assert lost["type"] == "OutputNotEmpty"
    assert "ledger rebuild" in lost["hint"]
    rebuilt = house.type("ledger", "rebuild", "--yes", "--reason", "the disk died")
    assert rebuilt.code == 0, rebuilt
    assert house.run()["log"]["state"] == "SKIPPED"
    house.sql("INSERT INTO @a VALUES (4)")
    house.run()
    assert house.sql("SELECT * FROM @log") == [(1,), (2,), (3,), (4,)]


def test_c2_a_table_made_anew_stops_the_flow_until_it_is_reset(lakehouse: Lakehouse) -> None:
    house = lakehouse
    for rows in ("(1, 'a'), (2, 'b')", "(2, 'c'), (3, 'd')"):
        shutil.rmtree(house.folder / "a", ignore_errors=True)
        house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
        house.sql(f"INSERT INTO @a VALUES {rows}")
        house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
        if "1" in rows:
            house.run()
    error = house.run(code=1)["copy"]["error"]
    assert error["type"] == "TableReplaced"
    assert "watermark reset --select copy" in error["hint"]
    assert house.sql("SELECT * FROM @copy") == [(1, "a"), (2, "b")]
    reset = house.type("watermark", "reset", "--select", "copy", "--yes", "--reason", "made anew")
    assert reset.code == 0, reset
    house.run()
    assert house.sql("SELECT * FROM @copy") == [(2, "c"), (3, "d")]


def test_an_append_is_reset_only_by_a_full_refresh_that_empties_it_first(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT) {FEED}")
    house.sql("INSERT INTO @a VALUES (1), (2)")
    house.write("  log: {inputs: {a: {path: a}}, output: {path: log, mode: append}}\n")
    house.run()
    refused = house.type("watermark", "reset", "--select", "log", "--yes", "--reason", "again")
    assert refused.code == 2
    assert "--full-refresh" in refused.err
    house.run("--full-refresh", "--yes", "--reason", "again")
    assert house.sql("SELECT * FROM @log") == [(1,), (2,)]


def test_several_inputs_advance_together_and_a_pinned_snapshot_stays_pinned_on_a_retry(
    lakehouse: Lakehouse,
) -> None:
    house = lakehouse
    for name in "abp":
        house.sql(f"CREATE TABLE @{name} (id INT, {name} STRING) {FEED}")
        house.sql(f"INSERT INTO @{name} VALUES (1, '{name}1')")
    broken = "SELECT a.id, a.a, b.b, if(p.p = 'p1', raise_error('not yet'), p.p) AS p FROM"
    join = "a JOIN b ON a.id = b.id JOIN p ON p.id = a.id"
    house.write(
        "  both: {inputs: {a: {path: a}, b: {path: b}, p: {path: p, snapshot: true}}, transform: both.sql,"
        " output: {path: both, key: id}}\n",
        both=f"{broken} {join}",
    )
    failed = house.run(code=1)["both"]
    assert "not yet" in failed["error"]["message"]
    house.sql("UPDATE @p SET p = 'p2'")
    house.sql("INSERT INTO @b VALUES (2, 'b2')")
    (house.folder / "both.sql").write_text(f"SELECT a.id, a.a, b.b, p.p FROM {join}")
    retried = house.type("retry", "--json")
    assert retried.code == 0, retried
    assert house.sql("SELECT * FROM @both") == [(1, "a1", "b1", "p1")]
    # What the mended transform makes of the whole, with the snapshot as it has become.
    house.sql("INSERT INTO @a VALUES (9, 'a9')")
    assert "transform has changed" in str(house.run()["both"]["notes"])
    assert house.sql("SELECT * FROM @both") == [(1, "a1", "b1", "p2")]
    # The late half of a join is matched; a change of the snapshot alone touches nothing.
    house.sql("UPDATE @p SET p = 'p3'")
    house.sql("INSERT INTO @p VALUES (2, 'p3')")
    house.sql("INSERT INTO @a VALUES (2, 'a2')")
    house.run()
    assert house.sql("SELECT * FROM @both") == [(1, "a1", "b1", "p2"), (2, "a2", "b2", "p3")]
    shown = json.loads(house.type("status", "--json").out)["flows"]
    assert shown[0]["watermarks"] == {"a": 3, "b": 2, "p": 4}


def test_tables_are_named_as_the_catalogue_knows_them(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.spark.sql(f"CREATE DATABASE layers_bronze LOCATION '{house.folder}/bronze'")
    try:
        house.spark.sql(f"CREATE TABLE layers_bronze.a (id INT, day DATE, n INT) {FEED}")
        house.spark.sql(
            "INSERT INTO layers_bronze.a VALUES (1, DATE'2026-01-01', 2), (2, DATE'2026-01-02', 3)"
        )
        house.write(
            "  copy: {inputs: {a: layers_bronze.a}, output: {table: layers_silver.a, key: id}}\n"
            "  days: {inputs: {a: {table: layers_silver.a}}, transform: days.sql,"
            " output: {table: layers_silver.days, mode: replace_partitions, partition_by: day}}\n",
            days="SELECT day, sum(n) AS n FROM a GROUP BY day",
        )
        house.run()
        house.spark.sql("DELETE FROM layers_bronze.a WHERE id = 2")
        house.spark.sql("INSERT INTO layers_bronze.a VALUES (3, DATE'2026-01-01', 5)")
        house.run()
        days = house.spark.sql("SELECT CAST(day AS STRING), n FROM layers_silver.days").collect()
        assert [tuple(row) for row in days] == [("2026-01-01", 7)]
        house.write(
            "  more: {inputs: {a: layers_bronze.nobody}, output: {table: layers_silver.b, key: id}}\n"
        )
        error = house.run(code=1)["more"]["error"]
        assert (error["type"], "layers_bronze.nobody" in error["message"]) == ("TableMissing", True)
    finally:
        for schema in ("layers_bronze", "layers_silver"):
            house.spark.sql(f"DROP DATABASE IF EXISTS {schema} CASCADE")
