"""Somebody drops a column of a Delta target: no run adds it again, NULL in old rows, and calls that done."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.dying import Death, start
from tests.integration.test_layers import FEED, Lakehouse
from tests.support.nursery import own_nursery
from tests.support.shared_servers import shared_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DROPPED = "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "DROP COLUMN word"
WORDS = ("--yes", "--reason", "a column was dropped")


@pytest.fixture
def house(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    house = Lakehouse(spark, tmp_path)
    house.sql(f"CREATE TABLE @a (id INT, n INT, word STRING) {FEED}")
    house.sql("INSERT INTO @a VALUES (1, 1, 'a'), (2, 1, 'b')")
    return house


def drop_word(house: Lakehouse, table: str = "copy") -> None:
    for clause in DROPPED:
        house.sql(f"ALTER TABLE @{table} {clause}")


def columns(house: Lakehouse, table: str = "copy") -> list[str]:
    return list(house.spark.table(f"delta.`{house.folder}/{table}`").columns)


def refused(house: Lakehouse, flow: str = "copy") -> dict[str, Any]:
    error: dict[str, Any] = house.run(code=1)[flow]["error"]
    assert error["type"] == "OutputDisagrees"
    assert "has lost the column word, which earlier batches filled" in error["message"]
    return error


def check_verify_names_word(house: Lakehouse) -> str:
    """Return what verify says."""
    proof = house.type("verify")
    assert proof.code == 1, proof
    said = " ".join(proof.said.split())
    assert "the target has lost the column word: " in said, proof
    return said


@pytest.mark.parametrize("output", ["key: id", "mode: append", "mode: scd2, key: id, sequence_by: n"])
def test_d9_a_run_stops_at_a_column_that_was_dropped_and_a_full_refresh_brings_it_back(
    house: Lakehouse, output: str
) -> None:
    house.write(f"  copy: {{inputs: {{a: {{path: a}}}}, output: {{path: copy, {output}}}}}\n")
    house.run()
    drop_word(house)
    said = check_verify_names_word(house)
    house.sql("INSERT INTO @a VALUES (3, 1, 'c')")
    for _ in range(2):
        hint = refused(house)["hint"]
        assert "word" not in columns(house)
        for text in (said, hint):
            assert "RESTORE the table to the version before" in text
            assert "--full-refresh" in text
            # Of a target that keeps every change, a full refresh can lose some for good.
            assert ("without the changes that its inputs no longer have" in text) is ("mode:" in output)
    house.run("--full-refresh", *WORDS)
    assert house.sql("SELECT id, word FROM @copy") == [(1, "a"), (2, "b"), (3, "c")]
    proof = house.type("verify")
    assert proof.code == 0, proof


def test_d9_a_batch_that_compares_all_partitions_fills_a_column_that_was_dropped(house: Lakehouse) -> None:
    output = "output: {path: copy, mode: replace_partitions, partition_by: n}"
    house.write(f"  copy: {{inputs: {{a: {{path: a}}}}, {output}}}\n")
    house.run()
    drop_word(house)
    house.sql("INSERT INTO @a VALUES (3, 2, 'c')")
    refused(house)
    house.write(f"  copy: {{inputs: {{a: {{path: a}}}}, evaluate: whole, {output}}}\n")
    house.run()
    assert house.sql("SELECT id, word FROM @copy") == [(1, "a"), (2, "b"), (3, "c")]
    proof = house.type("verify")
    assert proof.code == 0, proof


def test_d9_a_transform_that_leaves_the_dropped_column_out_goes_on(house: Lakehouse) -> None:
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    drop_word(house)
    house.sql("INSERT INTO @a VALUES (3, 1, 'c')")
    refused(house)
    flow = "  copy: {inputs: {a: {path: a}}, transform: t.sql, output: {path: copy, key: id}}\n"
    house.write(flow, t="SELECT id FROM a")
    house.run()
    assert "word" not in columns(house)
    assert house.sql("SELECT id FROM @copy") == [(1,), (2,), (3,)]
    # Taken in again, it is computed for every row: a transform that was changed is evaluated whole.
    house.write(flow, t="SELECT id, word FROM a")
    house.sql("INSERT INTO @a VALUES (4, 1, 'd')")
    house.run()
    assert house.sql("SELECT id, word FROM @copy") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_d9_a_runner_that_dies_while_it_adds_a_column_is_not_told_that_it_was_dropped(
    house: Lakehouse,
) -> None:
    """It dies before the name of the new column is kept."""
    house.write("  copy: {inputs: {a: {path: a}}, output: {path: copy, key: id}}\n")
    house.run()
    house.sql("ALTER TABLE @a ADD COLUMNS (more INT)")
    house.sql("INSERT INTO @a VALUES (3, 1, 'c', 30)")
    dies = Death(("tidegauge.outputs.delta.output:DeltaOutput._commit",), side="before")
    nursery = own_nursery()
    start(nursery, dies, shared_java(), "run", "--project", house.file)
    assert nursery.end().code == -9
    assert columns(house) == ["id", "n", "word", "more"]
    house.sql("ALTER TABLE @copy UNSET TBLPROPERTIES ('tidegauge.columns.0')")
    house.sql("""ALTER TABLE @copy SET TBLPROPERTIES ('tidegauge.columns.0' = '["id","n","word"]')""")
    house.run()
    assert house.sql("SELECT id, word, more FROM @copy") == [(1, "a", None), (2, "b", None), (3, "c", 30)]


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_d9_a_sync_stops_at_a_column_that_its_delta_table_has_lost(house: Lakehouse, mode: str) -> None:
    with closing(sqlite3.connect(house.folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
        shop.commit()
        house.file.write_text(
            "pipeline: lakehouse\nconnections:\n  app: {type: sqlite, path: shop.db}\n"
            "  lake: {type: delta, path: bronze}\nsync:\n"
            f"  - {{from: app, to: lake, tables: [orders], cursor: id, mode: {mode}}}\n"
        )
        house.run()
        drop_word(house, "bronze/orders")
        check_verify_names_word(house)
        shop.execute("INSERT INTO orders VALUES (3, 'c')")
        shop.commit()
        error = refused(house, "orders")
        assert "word" not in columns(house, "bronze/orders")
        if mode == "append":
            assert "sync -t orders --full-refresh" in error["hint"]
            house.run("--full-refresh", *WORDS)
        else:
            done = house.type("backfill", "-t", "orders", "--column", "word", *WORDS)
            assert done.code == 0, done
            house.run()
        assert house.sql("SELECT id, word FROM @bronze/orders") == [(1, "a"), (2, "b"), (3, "c")]
