"""One table, copied window by window by its `updated_at`; start, window and finalize around each."""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge import WatermarkTracker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2025, 8, 14, 12, tzinfo=UTC)


class NoDisk(Exception):
    """What goes wrong in this story."""


def write(spark: SparkSession, folder: Path, rows: list[tuple[int, str, datetime]]) -> None:
    frame = spark.createDataFrame(rows, "id INT, title STRING, updated_at TIMESTAMP")
    frame.write.format("delta").mode("append").save(str(folder / "source"))


def copy(spark: SparkSession, folder: Path, predicate: str) -> int:
    """Upsert the rows of a window: written twice, they are there once."""
    spark.read.format("delta").load(str(folder / "source")).where(predicate).createOrReplaceTempView(
        "changed"
    )
    spark.sql(
        f"MERGE INTO delta.`{folder}/target` t USING changed c ON t.id = c.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    return spark.table("changed").count()


def main(spark: SparkSession, folder: Path) -> list[str]:
    """What was copied is what is there, however the runs ended; the statuses of the records."""
    tracker = WatermarkTracker(f"delta:{folder}/ledger")
    write(spark, folder, [(1, "one", NOON), (2, "two", NOON + timedelta(hours=1))])
    spark.sql(
        f"CREATE TABLE delta.`{folder}/target` (id INT, title STRING, updated_at TIMESTAMP) USING delta"
    )

    # Step by step. Without `end` the window ends now, by the ledger's clock.
    record = tracker.start_pipeline_run("wos_pipeline", "job_001", end=NOON + timedelta(hours=1))
    copied = copy(spark, folder, tracker.get_delta_window("wos_pipeline").predicate("updated_at"))
    tracker.finalize_pipeline_run(record, "SUCCESS", rows=copied)

    # The same in a block. This one writes its rows, and dies before it can say so.
    write(spark, folder, [(3, "three", NOON + timedelta(hours=2))])
    try:
        with tracker.run("wos_pipeline", "job_002", end=NOON + timedelta(hours=2)) as run:
            copy(spark, folder, run.window.predicate("updated_at"))
            raise NoDisk("no space left on device")
    except NoDisk:
        pass

    # More rows come; the next run still has the window that failed, and none of the new rows.
    write(spark, folder, [(4, "four", NOON + timedelta(hours=3))])
    with tracker.run("wos_pipeline", "job_003") as run:
        assert tuple(run.window) == (NOON + timedelta(hours=1), NOON + timedelta(hours=2))
        run.rows = copy(spark, folder, run.window.predicate("updated_at"))
    with tracker.run("wos_pipeline", "job_004") as run:
        run.rows = copy(spark, folder, run.window.predicate("updated_at"))
    with tracker.run("wos_pipeline", "job_005") as run:
        if copy(spark, folder, run.window.predicate("updated_at")) == 0:
            run.skip("nothing new")

    source, target = (spark.read.format("delta").load(str(folder / name)) for name in ("source", "target"))
    assert sorted(source.collect()) == sorted(target.collect())
    # Anyone can read the ledger: its table has the fields of the records.
    spark.read.format("delta").load(f"{folder}/ledger/watermarks").select(
        "pipeline_name", "job_id", "last_processed_ts", "current_run_ts", "status", "records_processed"
    ).orderBy("created_at").show(truncate=False)
    statuses = [one.status for one in tracker.records("wos_pipeline")]
    tracker.close()
    return statuses


if __name__ == "__main__":
    # In a job of your own the session is there already.
    from tidegauge.model.spec import SparkSettings
    from tidegauge.spark.jars import JarSet
    from tidegauge.spark.session import open_session

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    print(
        "Copied exactly once:", main(open_session(SparkSettings(None, {}), [JarSet.DELTA]), place.absolute())
    )
