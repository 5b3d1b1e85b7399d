"""Logs as only Spark writes them: RESTORE, REPLACE, VACUUM, deletion vectors, mapped and widened columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.moving import quick
from tests.support.delta_tables import facts, same
from tidegauge.delta_log.history import history
from tidegauge.model.versions import FEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_c9_restore_is_a_change_and_c2_replace_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    spark = quick(spark)
    name = f"t{abs(hash(tmp_path))}"
    path = tmp_path / name
    made = f"(id BIGINT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}'"
    on = f"TBLPROPERTIES ({FEED} = true, delta.enableDeletionVectors = true)"
    spark.sql(f"CREATE TABLE {name} {made} {on}")
    spark.sql(f"INSERT INTO {name} SELECT id, 'x y' FROM range(0, 10, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1")
    before = history(str(path), after=0)
    assert facts(before, "number", "changes", "only_adds", "missing") == [
        (1, True, True, ()),
        (2, True, False, ()),
        (3, True, False, ()),
    ]
    assert {one.table_id for one in before.versions} == {before.table_id}
    [vector] = path.glob("deletion_vector_*.bin")
    vector.rename(tmp_path / "aside")
    assert history(str(path), after=1).versions[0].missing == (vector.name,)
    assert not before.readable(2)
    (tmp_path / "aside").rename(vector)
    assert before.readable(2)
    spark.sql(f"CREATE OR REPLACE TABLE {name} {made} {on}")
    after = history(str(path), after=3)
    assert facts(after, "number", "changes") == [(4, True)]
    assert after.table_id == after.versions[0].table_id != before.table_id
    spark.sql(f"DROP TABLE {name}")


def test_c1_vacuum_takes_change_files_and_the_preflight_says_which(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark = quick(spark)
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ({FEED} = true)")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 10, 1, 1)")
    spark.sql(f"UPDATE {table} SET id = 100 WHERE id = 4")
    place = str(tmp_path / "t")
    assert not any(one.missing for one in history(place, after=0).versions)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    found = history(place, after=0)
    # Rows that were added, in a file that the update took out; and the update itself.
    assert [len(one.missing) for one in found.versions[:2]] == [1, 1]
    assert found.versions[1].missing[0].startswith("_change_data/")
    assert not any(one.changes for one in found.versions[2:])
    assert not found.readable(1)
    assert found.readable(2)


def test_c4_mapped_and_widened_columns_and_checkpoints_of_the_second_kind_are_understood(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark = quick(spark)
    table = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES (delta.checkpointPolicy = 'v2',"
        " delta.checkpointInterval = 2, delta.columnMapping.mode = 'name', delta.enableTypeWidening = true)"
    )
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT) FROM range(0, 3, 1, 1)")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO nr")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN nr TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 3, 1, 1)")
    place = str(tmp_path / "t")
    known = history(place, after=0)
    digests = [one.digest for one in known.versions]
    assert len(set(digests[:3])) == 3
    assert digests[2] == digests[3] == known.digest
    assert {"columnMapping", "typeWidening", "v2Checkpoint"} <= known.features
    # The long way round: no checksums, and what lies before the last checkpoint is gone.
    for file in Path(place, "_delta_log").glob("*.crc"):
        file.unlink()
    assert same(history(place, after=0), known)
    log = Path(place, "_delta_log")
    for number in (0, 1):
        (log / f"{number:020}.json").unlink()
    cut = history(place, after=2)
    assert cut.versions == known.versions[2:]
    assert cut.readable(2)
    assert not cut.readable(1)
