"""A schema of Delta tables, followed version by version; one plan around each round."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge import WatermarkTracker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRONZE, SILVER = "example_bronze", "example_silver"
TABLES = ("customers", "orders", "payments")


def make(spark: SparkSession, folder: Path) -> None:
    for schema in (BRONZE, SILVER):
        spark.sql(f"CREATE DATABASE {schema} LOCATION '{folder}/{schema}'")
        for table in TABLES:
            spark.sql(
                f"CREATE TABLE {schema}.{table} (id INT, note STRING) USING delta"
                " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            )


def follow(spark: SparkSession, table: str, first: int, last: int) -> int:
    """Bring the changes of these versions to silver: the last change of each key counts."""
    reader = spark.read.option("readChangeFeed", "true").option("startingVersion", first)
    changes = reader.option("endingVersion", last).table(table)
    changes.createOrReplaceTempView("changes")
    spark.sql(
        f"""MERGE INTO {table.replace(BRONZE, SILVER)} t USING (
              SELECT id, max_by(note, _commit_version) note, max_by(_change_type, _commit_version) change
              FROM changes WHERE _change_type <> 'update_preimage' GROUP BY id
            ) c ON t.id = c.id
            WHEN MATCHED AND c.change = 'delete' THEN DELETE
            WHEN MATCHED THEN UPDATE SET note = c.note
            WHEN NOT MATCHED AND c.change <> 'delete' THEN INSERT (id, note) VALUES (c.id, c.note)"""
    )
    return changes.count()


def main(spark: SparkSession, folder: Path) -> dict[str, int]:
    """Silver is bronze, however the rounds ended; the checkpoints."""
    tracker = WatermarkTracker(f"delta:{folder}/ledger")
    make(spark, folder)
    for table in TABLES:
        spark.sql(f"INSERT INTO {BRONZE}.{table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    # Step by step: plan, work, complete.
    plan = tracker.prepare_processing_plan_for_schemas("silver", [BRONZE], spark=spark)
    for table, (first, last) in tracker.load_version_ranges("silver").items():
        print(f"{table}: versions {first} to {last}")
        follow(spark, table, first, last)
    tracker.mark_run_completed(plan.run_id)

    # The same in a block. This one fails at its second table.
    for table in TABLES:
        spark.sql(f"UPDATE {BRONZE}.{table} SET note = 'new' WHERE id = 1")
        spark.sql(f"DELETE FROM {BRONZE}.{table} WHERE id = 2")
    done: list[str] = []
    try:
        with tracker.process("silver", [BRONZE], spark=spark) as work:
            for table, (first, last) in work.ranges.items():
                if done:
                    raise TimeoutError(f"{table} did not answer")
                work.complete(table, records=follow(spark, table, first, last))
                done.append(table)
    except TimeoutError:
        pass

    # What comes now waits for the next plan: the failed one keeps its ranges, less the table that is done.
    spark.sql(f"INSERT INTO {BRONZE}.orders VALUES (4, 'd')")
    failed = tracker.fetch_current_processing_plan("silver")
    assert failed is not None
    print(f"{failed.state}: {failed.error_message}; left: {dict(failed.ranges)}")
    with tracker.process("silver", [BRONZE], spark=spark) as work:
        assert work.run_id == failed.run_id
        assert set(work.ranges) == {f"{BRONZE}.{table}" for table in TABLES} - set(done)
        for table, (first, last) in work.ranges.items():
            follow(spark, table, first, last)
    with tracker.process("silver", [BRONZE], spark=spark) as work:
        assert list(work.ranges) == [f"{BRONZE}.orders"]
        for table, (first, last) in work.ranges.items():
            follow(spark, table, first, last)

    for table in TABLES:
        bronze, silver = (sorted(spark.table(f"{schema}.{table}").collect()) for schema in (BRONZE, SILVER))
        assert bronze == silver, table
    checkpoints = tracker.load_checkpoints(pipeline="silver")
    assert checkpoints == tracker.get_latest_versions(spark, [BRONZE])
    tracker.close()
    return checkpoints


if __name__ == "__main__":
    # In a job of your own the session is there already.
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import JarSet
    from tidegauge.spark.session import open_session

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    print("Silver is bronze:", main(open_session(SparkSettings(None, {}), [JarSet.DELTA]), place.absolute()))
