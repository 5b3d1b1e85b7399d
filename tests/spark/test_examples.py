"""The examples run as they stand, on real Spark and Delta; each proves its own outcome."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegauge import WatermarkTracker
from tidegauge.errors import SourceError, TableMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_of_time_windows(spark: SparkSession, tmp_path: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "000_watermark_tracker" / "job.py"))["main"]
    assert main(spark, tmp_path) == ["SUCCESS", "SUCCESS", "SUCCESS", "SKIPPED"]


def test_the_example_of_version_ranges(spark: SparkSession, tmp_path: Path) -> None:
    main = runpy.run_path(str(EXAMPLES / "001_version_ranges" / "job.py"))["main"]
    try:
        assert main(spark, tmp_path) == {
            "example_bronze.customers": 3,
            "example_bronze.orders": 4,
            "example_bronze.payments": 3,
        }
    finally:
        for schema in ("example_bronze", "example_silver"):
            spark.sql(f"DROP DATABASE IF EXISTS {schema} CASCADE")


def test_a_windows_predicate_means_instants_whatever_the_sessions_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    with WatermarkTracker(f"sqlite:///{tmp_path}/ledger.db") as tracker:
        tracker.start_pipeline_run("p", end="2025-08-14T12:00:00.123456+00:00")
        window = tracker.get_delta_window("p")
        name = "odd `name`. 100%; --"
        frame = spark.sql(
            "SELECT timestamp_micros(unix_micros(TIMESTAMP '2025-08-14 12:00:00.123456Z') + id - 1) AS t"
            " FROM range(3)"
        ).withColumnRenamed("t", name)
        before = spark.conf.get("spark.sql.session.timeZone")
        try:
            spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            assert frame.where(window.predicate(name)).count() == 2
            column = frame["`" + name.replace("`", "``") + "`"]
            assert frame.where(window.predicate(column)).count() == 2
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(before))


def test_c2_a_table_that_vanished_changed_or_was_made_anew_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE DATABASE vanishing LOCATION '{tmp_path}/vanishing'")
    try:
        for table in ("a", "b"):
            spark.sql(f"CREATE TABLE vanishing.{table} (id INT) USING delta")
        with WatermarkTracker(f"sqlite:///{tmp_path}/ledger.db") as tracker:

            def prepare(allow: bool = False) -> object:
                return tracker.prepare_processing_plan_for_schemas(
                    "silver", ["vanishing"], spark=spark, allow_schema_change=allow
                ).ranges

            assert prepare() == {"vanishing.a": (0, 0), "vanishing.b": (0, 0)}
            plan = tracker.fetch_current_processing_plan("silver")
            assert plan is not None
            assert plan.tables["vanishing.a"].commit_timestamp is not None
            spark.sql("DROP TABLE vanishing.b")
            with pytest.raises(
                TableMissing, match=r"vanishing\.b is gone since its versions 0 to 0 were planned"
            ):
                prepare()
            tracker.mark_run_completed(plan.run_id, ["vanishing.a"])
            spark.sql("CREATE TABLE vanishing.b (id INT) USING delta")
            with pytest.raises(SourceError, match="made anew"):
                prepare()
            tracker.reset("silver", ["vanishing.b"], reason="made anew")
            tracker.mark_run_completed(
                tracker.prepare_processing_plan_for_schemas("silver", ["vanishing"], spark=spark).run_id
            )
            spark.sql("ALTER TABLE vanishing.a ADD COLUMNS (note STRING)")
            with pytest.raises(SourceError, match=r"vanishing\.a has other columns"):
                prepare()
            assert prepare(allow=True) == {"vanishing.a": (1, 1)}
            with pytest.raises(TableMissing, match=r"vanishing\.z"):
                tracker.get_latest_versions(spark, tables=["vanishing.z"])
            paths = {"x": f"{tmp_path}/vanishing/a"}
            assert tracker.get_latest_versions(tables=paths) == {"x": 1}
    finally:
        spark.sql("DROP DATABASE vanishing CASCADE")
