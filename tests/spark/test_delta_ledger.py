"""The Delta ledger's table as Spark sees it, and after Spark has had its hands on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.test_ledger_delta import ODD, entry, on_s3, opened, rows, stored_flow
from tests.support.servers import S3
from tidegauge import WatermarkTracker
from tidegauge.errors import ConfigError, LedgerError
from tidegauge.ledger.delta_store import DeltaDocumentStore
from tidegauge.model.spec import Lake
from tidegauge.spark import hadoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake("ledger", str(tmp_path / "ledger"))


@pytest.fixture
def documents(lake: Lake) -> Iterator[DeltaDocumentStore]:
    found = opened(lake)
    yield found
    found.close()


def succeed(documents: DeltaDocumentStore, pipeline: str, flow: str, number: int = 1) -> None:
    """A run that ends: one row SUCCESS, one row READY."""
    end = f"2026-01-0{number} 10:00:00.123456"
    done: dict[str, Any] = {"run_id": f"r{number}", "cursor": "timestamp", "rows": 7}
    done |= {"started_at": "2026-01-01T10:00:00.000000", "ended_at": "2026-01-01T10:00:02.500000"}
    running = stored_flow(pipeline, flow, number, state="RUNNING", run_state="RUNNING", upto=end, **done)
    documents.save(documents.load(pipeline, [flow]), [running])
    ended = stored_flow(pipeline, flow, number, state="SUCCESS", run_state="SUCCESS", position=end, **done)
    documents.save(documents.load(pipeline, [flow]), [ended])


def test_spark_reads_the_ledgers_table_with_its_nine_columns(
    spark: SparkSession, documents: DeltaDocumentStore, lake: Lake
) -> None:
    succeed(documents, "wos_pipeline", "wos_pipeline")
    table = f"delta.`{lake.path}/watermarks`"
    described = spark.sql(f"DESCRIBE TABLE {table}").collect()
    assert [(row.col_name, row.data_type) for row in described[:9]] == [
        ("watermark_id", "int"),
        ("pipeline_name", "string"),
        ("job_id", "string"),
        ("last_processed_ts", "timestamp"),
        ("current_run_ts", "timestamp"),
        ("last_processed_version", "bigint"),
        ("status", "string"),
        ("created_at", "timestamp"),
        ("updated_at", "timestamp"),
    ]
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
    assert detail.partitionColumns == ["pipeline_name"]
    newest = spark.sql(
        f"SELECT * FROM {table} WHERE pipeline_name = 'wos_pipeline'"
        " ORDER BY created_at DESC, watermark_id DESC"
    ).collect()
    assert [(row.watermark_id, row.status, row.records_processed) for row in newest] == [
        (2, "READY", None),
        (1, "SUCCESS", 7),
    ]
    text = spark.sql(f"SELECT CAST(last_processed_ts AS string) AS at FROM {table} WHERE status = 'READY'")
    assert text.collect()[0]["at"] == "2026-01-01 10:00:00.123456"


@pytest.mark.long
def test_spark_reads_any_name_as_a_partition(
    spark: SparkSession, documents: DeltaDocumentStore, lake: Lake
) -> None:
    for name in ODD:
        succeed(documents, name, name)
        documents.append("history", [entry(1, name, name)])
    for folder, count in {"watermarks": 2, "history": 1}.items():
        frame = spark.read.format("delta").load(f"{lake.path}/{folder}")
        for name in ODD:
            found = frame.where(frame.pipeline_name == name).collect()
            assert [row.flow for row in found] == [name] * count


def test_spark_reads_a_ledger_through_its_checkpoint(
    spark: SparkSession, documents: DeltaDocumentStore, lake: Lake
) -> None:
    for number in range(120):
        documents.save(documents.load("p", ["f"]), [stored_flow("p", "f", number)])
    assert list(Path(lake.path, "watermarks", "_delta_log").glob("*.checkpoint.parquet"))
    found = spark.read.format("delta").load(f"{lake.path}/watermarks").collect()
    assert [json.loads(row.ledger) for row in found] == [{"number": 119}]


def test_the_ledger_goes_on_after_spark_has_compacted_and_corrected_its_table(
    spark: SparkSession, documents: DeltaDocumentStore, lake: Lake
) -> None:
    names = ["a b/ü=%", "p"]
    for name in names:
        for number in (1, 2, 3):
            succeed(documents, name, "f", number)
            succeed(documents, name, "g", number)
    stale = documents.load("p", ["f"])
    table = f"delta.`{lake.path}/watermarks`"
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"UPDATE {table} SET job_id = 'by hand' WHERE watermark_id = 1")
    assert stale.stored_flows == documents.load("p", ["f"]).stored_flows
    for name in names:
        for found in (documents, opened(lake)):
            assert {flow: one.body for flow, one in found.load(name).stored_flows.items()} == {
                "f": {"number": 3},
                "g": {"number": 3},
            }
        succeed(documents, name, "f", 4)
        assert opened(lake).load(name).stored_flows["f"].body == {"number": 4}
    kept = rows(lake)
    assert [row["watermark_id"] for row in kept] == sorted({row["watermark_id"] for row in kept})
    assert [row["status"] for row in kept].count("SUCCESS") == 2 * 7
    assert [row["status"] for row in kept].count("READY") == 4
    assert "by hand" in [row["job_id"] for row in kept]


def test_spark_reads_the_control_table_and_may_compact_it(spark: SparkSession, lake: Lake) -> None:
    table = f"delta.`{lake.path}/etl_pipeline_sync_control`"
    failed = f"SELECT sync_run_id, table_name, error_message FROM {table} WHERE sync_status = 'FAILED'"
    with WatermarkTracker(f"delta:{lake.path}") as tracker:
        for number in (1, 2):
            record = tracker.start_pipeline_run("p", f"job {number}")
            assert spark.sql(f"SELECT sync_status FROM {table} ORDER BY sync_run_id DESC").first() == (
                "RUNNING",
            )
            spark.sql(f"OPTIMIZE {table}")
            tracker.finalize_pipeline_run(record, "FAILED", error=f"no {number}")
    assert spark.sql(f"{failed} ORDER BY 1").collect() == [(1, "p", "no 1"), (2, "p", "no 2")]
    assert spark.table(table).count() == 2


def test_spark_reads_a_ledger_on_s3(spark: SparkSession, s3: S3) -> None:
    lake = on_s3(s3)
    succeed(opened(lake), "p", "f")
    reader = spark.read.format("delta").options(**hadoop.options_of(lake))
    found = reader.load(f"{lake.path}/watermarks").orderBy("watermark_id").collect()
    assert [(row.pipeline_name, row.status) for row in found] == [("p", "SUCCESS"), ("p", "READY")]


@pytest.fixture
def ops(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE SCHEMA ops LOCATION '{tmp_path}/o p s'")
    yield "spark_catalog.ops"
    spark.sql("DROP SCHEMA ops CASCADE")


def test_b18_a_ledger_in_a_schema_lies_where_the_catalogue_says(
    spark: SparkSession, ops: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with WatermarkTracker(f"delta:{ops}", spark=spark) as tracker, tracker.run("wos") as run:
            assert run.record.status == "RUNNING"
    assert [path.name for path in tmp_path.iterdir()] == ["o p s"]
    with WatermarkTracker(f"delta:{tmp_path}/o p s") as tracker:
        assert [one.status for one in tracker.records("wos")] == ["SUCCESS", "SUCCESS", "READY"]
    shown = spark.sql("SELECT status FROM ops.watermarks ORDER BY watermark_id").collect()
    assert [row.status for row in shown] == ["SUCCESS", "SUCCESS", "READY"]
    assert spark.table("ops.history").count() > 0


def test_b18_a_schema_that_cannot_hold_a_ledger_is_refused(
    spark: SparkSession, ops: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, why in (("nowhere.ops", "does not have the schema"), ("spark_catalog.no", "does not have the")):
        with pytest.raises(ConfigError, match=why) as caught:
            WatermarkTracker(f"delta:{name}", spark=spark)
        assert f"delta:./{name}" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match="only Spark can look up"):
        WatermarkTracker(f"delta:{ops}")
    spark.sql(f"CREATE TABLE ops.plans (x INT) USING delta LOCATION '{tmp_path}/theirs'")
    with pytest.raises(ConfigError, match="table plans lies at"):
        WatermarkTracker(f"delta:{ops}", spark=spark)
    assert {path.name for path in tmp_path.iterdir()} <= {"theirs", "o p s"}


def test_b18_a_schema_whose_table_a_catalogue_commits_to_is_refused(
    spark: SparkSession, ops: str, tmp_path: Path
) -> None:
    WatermarkTracker(f"delta:{ops}", spark=spark).close()
    named = {"readerFeatures": ["catalogOwned-preview"], "writerFeatures": ["catalogOwned-preview"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}
    (tmp_path / "o p s/watermarks/_delta_log" / f"{1:020}.json").write_text(json.dumps(protocol))
    with pytest.raises(LedgerError, match="through a catalogue"):
        WatermarkTracker(f"delta:{ops}", spark=spark)
