"""Flows between Delta tables as a user types them: the chain, what fails, and how it is mended."""

from __future__ import annotations

import json
import runpy
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project import Ran, here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.outputs.delta.modes import CheckedChange, DeltaWrite

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

    def newest(self, table: str) -> int:
        """Its version."""
        return max(int(version) for version, *_ in self.sql(f"DESCRIBE HISTORY @{table}"))

    def type(self, *words: str) -> Ran:
        return here(*words, "--project", str(self.file))

    def reached(self, flow: str) -> datetime:
        """The time of a flow's watermark, as the ledger's view of its next run has it."""
        with closing(sqlite3.connect(self.folder / ".tidegauge/ledger.db")) as ledger:
            [(at,)] = ledger.execute(
                "SELECT last_processed_ts FROM watermarks_v WHERE status = 'READY' AND pipeline_name = ?",
                [f"lakehouse/{flow}"],
            ).fetchall()
        return datetime.fromisoformat(at)

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
            # F3: a version has its commit's time.
            [(_, at, *_)] = house.sql("DESCRIBE HISTORY @a LIMIT 1")
            # Delta shows when the commit's file was written, some milliseconds later.
            told = at.astimezone(UTC).replace(tzinfo=None)
            assert abs((told - house.reached("copy")).total_seconds()) < 60
    error = house.run(code=1)["copy"]["error"]
    assert error["type"] == "TableReplaced"
    assert "watermark reset --select copy" in error["hint"]
    assert house.sql("SELECT * FROM @copy") == [(1, "a"), (2, "b")]
    reset = house.type("watermark", "reset", "--select", "copy", "--yes", "--reason", "made anew")
    assert reset.code == 0, reset
    house.run()
    assert house.sql("SELECT * FROM @copy") == [(2, "c"), (3, "d")]


def test_d9_a_target_that_was_removed_is_refused_and_a_full_refresh_fills_it(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'a'), (2, 'b')")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    shutil.rmtree(house.folder / "copy")
    for place in (3, 4):
        error = house.run(code=1)["copy"]["error"]
        assert "does not have it" in error["message"]
        assert "run --select copy --full-refresh" in error["hint"]
        assert house.type("health").code == 1
        assert not (house.folder / "copy" / "_delta_log").exists()
        house.sql(f"INSERT INTO @a VALUES ({place}, 'c')")
    house.run("--full-refresh", "--yes", "--reason", "it was removed")
    assert house.sql("SELECT id FROM @copy") == [(1,), (2,), (3,), (4,)]


def test_d9_a_target_that_was_restored_is_refused_until_somebody_says_where_to_go_on(
    lakehouse: Lakehouse,
) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT) {FEED}")
    house.sql("INSERT INTO @a VALUES (1)")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    exported = house.type("watermark", "export")
    (house.folder / "then.json").write_text(exported.out)
    before = house.newest("copy")
    house.sql("INSERT INTO @a VALUES (2)")
    house.run()
    after = house.newest("copy")
    # To our own last batch: somebody's DELETE is mended, and nothing is missing.
    house.sql("DELETE FROM @copy WHERE id = 1")
    house.sql(f"RESTORE TABLE @copy TO VERSION AS OF {after}")
    assert house.run()["copy"]["state"] == "SKIPPED"
    house.sql(f"RESTORE TABLE @copy TO VERSION AS OF {before}")
    refused = house.run(code=1)["copy"]
    assert refused["state"] == "FAILED"
    assert "was restored to an earlier version" in refused["error"]["message"]
    health = house.type("health")
    assert (health.code, "was restored to an earlier version" in health.out) == (1, True)
    assert house.sql("SELECT id FROM @copy") == [(1,)]
    words = ("--reason", "restored by hand", "--yes")
    imported = house.type("watermark", "import", str(house.folder / "then.json"), *words)
    assert imported.code == 0, imported
    assert house.run()["copy"]["rows_inserted"] == 1
    assert house.sql("SELECT id FROM @copy") == [(1,), (2,)]


def test_d11_a_full_refresh_looks_first_whether_its_inputs_can_be_read(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'a'), (2, 'b')")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    (house.folder / "a").rename(house.folder / "away")
    refused = house.type("run", "--full-refresh", "--yes", "--reason", "a test")
    assert refused.code == 1, refused
    assert "is left as it is" in refused.err
    assert house.sql("SELECT id FROM @copy") == [(1,), (2,)]
    (house.folder / "away").rename(house.folder / "a")
    house.run("--full-refresh", "--yes", "--reason", "a test")
    assert house.sql("SELECT id FROM @copy") == [(1,), (2,)]


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


@pytest.mark.parametrize(
    "transform",
    [
        None,
        pytest.param("SELECT k, id FROM a", marks=pytest.mark.long),
        pytest.param("SELECT * FROM a WHERE id > 0", marks=pytest.mark.long),
    ],
)
def test_d10_a_key_that_is_there_twice_for_a_while_fails_and_is_never_lost(
    lakehouse: Lakehouse, transform: str | None
) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, k STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    via = ", transform: t.sql" if transform else ""
    house.write(
        f"  copy: {{inputs: {{a: {{path: a}}}}{via}, output: {{path: copy, key: k}}}}\n", t=transform or ""
    )
    house.run()
    # Twice on the way, and once at the window's end.
    house.sql("INSERT INTO @a VALUES (9, 'a'), (4, 'd')")
    house.sql("DELETE FROM @a WHERE id = 1")
    house.run()
    assert house.sql("SELECT k, id FROM @copy") == [("a", 9), ("b", 2), ("c", 3), ("d", 4)]
    house.sql("INSERT INTO @a VALUES (10, 'a'), (5, 'e')")
    error = house.run(code=1)["copy"]["error"]
    assert error["type"] == "KeyUnsuitable"
    assert '{"k":"a"}' in error["message"]
    assert "watermark reset --select copy" in error["hint"]
    house.sql("DELETE FROM @a WHERE id = 10")
    assert house.run(code=1)["copy"]["error"]["type"] == "KeyUnsuitable"  # the frozen window is what it is
    reset = house.type("watermark", "reset", "--select", "copy", "--yes", "--reason", "mended")
    assert reset.code == 0, reset
    house.run()
    assert house.sql("SELECT k, id FROM @copy") == [("a", 9), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]


@pytest.mark.long
def test_d10_a_target_from_before_keys_were_counted_is_compared_with_the_whole_once(
    lakehouse: Lakehouse,
) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (id INT, k STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'a'), (2, 'b')")
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: k}}\n")
    house.run()
    # As an older version kept it, after it had lost a key.
    ledger = sqlite3.connect(house.folder / ".tidegauge" / "ledger.db")
    with closing(ledger), ledger:
        ledger.execute("UPDATE watermarks SET pending = substr(pending, 1, 16)")
    house.sql("DELETE FROM @copy WHERE k = 'a'")
    house.sql("INSERT INTO @a VALUES (3, 'c')")
    assert "twice was not looked at" in str(house.run()["copy"]["notes"])
    assert house.sql("SELECT k, id FROM @copy") == [("a", 1), ("b", 2), ("c", 3)]
    house.sql("INSERT INTO @a VALUES (4, 'd')")
    assert "evaluated by rows" in str(house.run()["copy"]["notes"])


@pytest.mark.long
def test_d10_the_key_of_a_merged_table_is_proven_until_another_hand_writes_it(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegauge.outputs.delta import keys
    from tidegauge.outputs.delta.small_batches import SWITCH

    house = lakehouse
    looked: list[str] = []

    def there(job: DeltaWrite, checked: CheckedChange) -> DataFrame:
        looked.append(job.flow)
        return seen(job, checked)

    seen = keys._find_there
    monkeypatch.setattr(keys, "_find_there", there)
    # A small target is looked at in any case, and without Spark.
    monkeypatch.setenv(SWITCH, "off")
    house.sql(f"CREATE TABLE @a (id INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 'one'), (2, 'two')")
    house.write(
        "  silver: {inputs: {a: {path: a}}, output: {path: silver, key: id}}\n"
        "  gold: {inputs: {s: {path: silver}}, transform: gold.sql, output: {path: gold, key: id}}\n",
        gold="SELECT id, upper(word) AS word FROM s",
    )
    house.run()
    house.sql("INSERT INTO @a VALUES (3, 'three')")
    house.sql("UPDATE @a SET word = 'eins' WHERE id = 1")
    house.run()
    assert looked == ["silver"]
    house.sql("INSERT INTO @silver VALUES (4, 'four')")
    house.run()
    assert looked == ["silver", "gold"]
    monkeypatch.delenv(SWITCH)
    house.sql("INSERT INTO @silver VALUES (1, 'uno')")
    assert house.run(code=1)["gold"]["error"]["type"] == "KeyUnsuitable"
    assert house.sql("SELECT * FROM @gold") == [(1, "EINS"), (2, "TWO"), (3, "THREE"), (4, "FOUR")]


@pytest.mark.long
def test_c10_a_null_key_that_the_transform_filters_can_go(lakehouse: Lakehouse) -> None:
    house = lakehouse
    house.sql(f"CREATE TABLE @a (cid INT, n INT) {FEED}")
    house.sql(f"CREATE TABLE @b (cid INT, m INT) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 1), (NULL, 2), (2, 3)")
    house.sql("INSERT INTO @b VALUES (NULL, 1), (3, 1)")
    house.write(
        "  sums: {inputs: {a: {path: a}}, transform: sums.sql, output: {path: sums, key: cid}}\n"
        "  both: {inputs: {a: {path: a}, b: {path: b}}, transform: both.sql,"
        " output: {path: both, key: cid}}\n",
        sums="SELECT cid, sum(n) AS n FROM a GROUP BY cid HAVING cid IS NOT NULL",
        both="SELECT coalesce(a.cid, b.cid) AS cid, n, m FROM a FULL OUTER JOIN b ON a.cid = b.cid"
        " WHERE coalesce(a.cid, b.cid) IS NOT NULL",
    )
    house.run()
    house.sql("DELETE FROM @a WHERE cid IS NULL OR cid = 2")
    house.sql("DELETE FROM @b WHERE cid IS NULL")
    assert {flow["state"] for flow in house.run().values()} == {"SUCCESS"}
    assert house.sql("SELECT * FROM @sums") == [(1, 1)]
    assert {row[0] for row in house.sql("SELECT cid FROM @both")} == {1, 3}
    # One that does come out is refused as ever.
    (house.folder / "sums.sql").write_text("SELECT cid, sum(n) AS n FROM a GROUP BY cid")
    house.sql("INSERT INTO @a VALUES (NULL, 5)")
    error = house.run(code=1)["sums"]["error"]
    assert (error["type"], "NULL in its key" in error["message"]) == ("KeyUnsuitable", True)


def test_d15_tables_are_named_as_the_catalogue_knows_them_and_none_is_made_in_memory(
    lakehouse: Lakehouse,
) -> None:
    house = lakehouse
    house.spark.sql(f"CREATE DATABASE layers_bronze LOCATION '{house.folder}/bronze'")
    try:
        house.spark.sql(f"CREATE TABLE layers_bronze.a (id INT, day DATE, n INT) {FEED}")
        house.spark.sql(
            "INSERT INTO layers_bronze.a VALUES (1, DATE'2026-01-01', 2), (2, DATE'2026-01-02', 3)"
        )
        house.spark.sql(f"CREATE DATABASE layers_silver LOCATION '{house.folder}/silver'")
        house.spark.sql(f"CREATE TABLE layers_silver.a (id INT, day DATE, n INT) {FEED}")
        house.spark.sql(f"CREATE TABLE layers_silver.days (day DATE, n BIGINT) {FEED} PARTITIONED BY (day)")
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
        house.write("  more: {inputs: {a: layers_bronze.nobody}, output: {path: more, key: id}}\n")
        error = house.run(code=1)["more"]["error"]
        assert (error["type"], "layers_bronze.nobody" in error["message"]) == ("TableMissing", True)
        house.write("  more: {inputs: {a: layers_bronze.a}, output: {table: layers_silver.b, key: id}}\n")
        error = house.run(code=1)["more"]["error"]
        assert error["type"] == "OutputUnsafe"
        assert "layers_silver.b would be gone when this process ends" in error["message"]
        assert "`path:`" in error["hint"]
        assert not house.spark.catalog.tableExists("layers_silver.b")
    finally:
        for schema in ("layers_bronze", "layers_silver"):
            house.spark.sql(f"DROP DATABASE IF EXISTS {schema} CASCADE")
