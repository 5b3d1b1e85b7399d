"""Frames into a lake by Spark, and back through the manifests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.output_parts import LAYOUT, batch, committed_files, local_lake, s3_lake, staged, tag, write
from tidegauge.errors import OutputDisagrees, OutputError, OutputUnreachable
from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.files import clean, survey
from tidegauge.outputs.lake.output import LakeOutput
from tidegauge.outputs.lake.table import SEQ, latest, versions
from tidegauge.spark import hadoop
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "shop.or!20ders-é"
ROWS = "id bigint, at timestamp_ntz"


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return local_lake(tmp_path / "lake [1] {x} 50%25é")
    return s3_lake(request.getfixturevalue("s3"))


@pytest.fixture
def output(lake: Lake) -> LakeOutput:
    output = LakeOutput(lake, FOLDER)
    output.prepare()
    return output


def orders(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame([(key, datetime.fromisoformat(at)) for key, at in rows], ROWS)


def commit(output: LakeOutput, seq: int, frame: DataFrame, *, epoch: int = 0) -> tuple[DataFile, ...]:
    files = write(output, frame)
    window = batch(f"2025-08-14 15:30:{seq:02}")
    receipt = output.commit(tag(seq, epoch=epoch), window, staged(files), layout=LAYOUT, run_id="r")
    assert receipt.rows == sum(file.rows for file in files)
    return files


def everything(lake: Lake) -> list[str]:
    return sorted(entry.path.removeprefix(f"{FOLDER}/") for entry in open_store(lake).list(FOLDER))


def test_rows_arrive_with_their_counts_and_sizes(spark: SparkSession, output: LakeOutput, lake: Lake) -> None:
    files = write(output, spark.range(1000).repartition(3))
    assert [file.rows for file in files] != []
    assert sum(file.rows for file in files) == 1000
    store = open_store(lake)
    assert everything(lake) == [file.path for file in files]
    for file in files:
        body = store.get(f"{FOLDER}/{file.path}")
        assert body is not None
        assert len(body) == file.bytes
        assert pq.read_metadata(pa.BufferReader(body)).num_rows == file.rows
        assert file.path.startswith("data/")
    assert output.is_empty()


def test_two_attempts_never_share_a_file(spark: SparkSession, output: LakeOutput) -> None:
    one, other = write(output, spark.range(5)), write(output, spark.range(5))
    assert not {file.path for file in one} & {file.path for file in other}


def test_a_frame_without_rows_leaves_no_file(spark: SparkSession, output: LakeOutput, lake: Lake) -> None:
    assert write(output, spark.range(10).where("id < 0")) == ()
    assert write(output, spark.createDataFrame([], ROWS)) == ()
    some = write(output, spark.range(100).repartition(4).where("id = 7"))
    assert [file.rows for file in some] == [1]
    assert everything(lake) == [file.path for file in some]
    commit(output, 1, spark.createDataFrame([], ROWS))
    assert versions(spark, lake, FOLDER).count() == 0
    assert versions(spark, lake, FOLDER).columns == ["id", "at", SEQ]


def test_a13_timestamps_are_microseconds_whatever_the_session_says(
    spark: SparkSession, output: LakeOutput, lake: Lake
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    frame = session.sql(
        "select timestamp '9999-12-31 23:59:59.999999' as t, timestamp_ntz '0001-01-01 00:00:00.000001' as n"
    )
    (file,) = write(output, frame)
    body = open_store(lake).get(f"{FOLDER}/{file.path}")
    table = pq.read_table(pa.BufferReader(body))
    assert table.schema.field("t").type == pa.timestamp("us", "UTC")
    assert table.schema.field("n").type == pa.timestamp("us")
    assert table["t"].cast(pa.int64()).to_pylist() == [253402300799999999]
    assert table["n"].cast(pa.int64()).to_pylist() == [-62135596800000000 + 1]


def test_d4_a_table_is_read_through_its_manifests_only(
    spark: SparkSession, output: LakeOutput, lake: Lake
) -> None:
    commit(output, 1, orders(spark, (1, "2025-01-01"), (2, "2025-01-01")))
    dead = write(output, orders(spark, (3, "2025-01-01"), (1, "2020-01-01")))
    commit(output, 2, orders(spark, (2, "2025-01-02")))
    rows = {(row["id"], row["at"].isoformat(), row[SEQ]) for row in versions(spark, lake, FOLDER).collect()}
    assert rows == {
        (1, "2025-01-01T00:00:00", 1),
        (2, "2025-01-01T00:00:00", 1),
        (2, "2025-01-02T00:00:00", 2),
    }
    newest = {
        (row["id"], row[SEQ]) for row in latest(spark, lake, FOLDER, key=["id"], order=["at"]).collect()
    }
    assert newest == {(1, 1), (2, 2)}
    assert {one.path for one in survey(lake, FOLDER).leftovers} == {file.path for file in dead}
    clean(lake, FOLDER, older_than=timedelta(seconds=-5))
    assert versions(spark, lake, FOLDER).count() == 3
    assert len(committed_files(lake, FOLDER)) == len([path for path in everything(lake) if "data/" in path])


def test_a_reset_starts_the_table_anew(spark: SparkSession, output: LakeOutput, lake: Lake) -> None:
    commit(output, 1, orders(spark, (1, "2025-01-01")))
    commit(output, 2, orders(spark, (5, "2025-01-01")))
    output.open_epoch("shop", "shop.orders", 1, None, "reset")
    with pytest.raises(OutputError, match="has no committed batch"):
        versions(spark, lake, FOLDER)
    commit(output, 1, orders(spark, (9, "2025-01-01")), epoch=1)
    assert [row["id"] for row in versions(spark, lake, FOLDER).collect()] == [9]
    assert {row["id"] for row in versions(spark, lake, FOLDER, epoch=0).collect()} == {1, 5}


def test_a_later_life_goes_on_counting_so_that_its_rows_are_the_latest(
    spark: SparkSession, output: LakeOutput, lake: Lake
) -> None:
    commit(output, 1, orders(spark, (1, "2025-01-01")))
    commit(output, 2, orders(spark, (1, "2025-01-03"), (2, "2025-01-03")))
    output.open_epoch("shop", "shop.orders", 1, (0, 2), "set back")
    commit(output, 1, orders(spark, (1, "2025-01-02")), epoch=1)
    rows = {(row["id"], row["at"].day, row[SEQ]) for row in versions(spark, lake, FOLDER).collect()}
    assert rows == {(1, 1, 1), (1, 3, 2), (2, 3, 2), (1, 2, 3)}
    newest = {(row["id"], row["at"].day) for row in latest(spark, lake, FOLDER, key=["id"]).collect()}
    assert newest == {(1, 2), (2, 3)}


def test_a_table_without_a_batch_says_so(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(OutputError, match="has no committed batch"):
        versions(spark, lake, "never.run")


def test_a_failing_frame_leaves_nothing_committed(spark: SparkSession, output: LakeOutput) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="too much"):
        write(output, spark.sql("select if(id < 50, id, raise_error('too much')) as id from range(100)"))
    assert output.is_empty()


def test_d3_a_task_that_is_repeated_does_not_leave_its_rows_twice(
    spark: SparkSession, output: LakeOutput, lake: Lake, tmp_path: Path
) -> None:
    mark = tmp_path / "failed once"

    def fail_after_all_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and not mark.exists():
            mark.touch()
            raise RuntimeError("once")

    files = write(output, spark.range(0, 1000, 1, 2).mapInArrow(fail_after_all_rows, "id bigint"))
    assert mark.exists()
    assert sum(file.rows for file in files) == 1000
    assert everything(lake) == [file.path for file in files]


def test_keys_are_not_in_the_plan_that_spark_shows(spark: SparkSession, s3: Any) -> None:
    lake = s3_lake(s3)
    commit(LakeOutput(lake, FOLDER), 1, orders(spark, (1, "2025-01-01")))
    frame = versions(spark, lake, FOLDER)
    shown = frame._jdf.queryExecution().toString()
    assert s3.secret_key not in shown
    assert frame.count() == 1


def test_a_bucket_that_went_missing_is_one_sentence(spark: SparkSession, s3: Any) -> None:
    with pytest.raises(OutputUnreachable, match="Spark finds no bucket for s3a://no-such-bucket"):
        write(LakeOutput(s3_lake(s3, bucket="no-such-bucket"), "t"), spark.range(3))


def test_two_lakes_in_one_bucket_with_different_keys_do_not_mix(s3: Any, spark: SparkSession) -> None:
    lake = s3_lake(s3)
    first = hadoop.options_of(lake)
    other = hadoop.options_of(s3_lake(s3, bucket=lake.path.split("/")[2], secret="another-secret"))
    assert "fs.s3a.impl.disable.cache" not in first
    assert other["fs.s3a.impl.disable.cache"] == "true"
    assert hadoop.options_of(lake) == first


@pytest.mark.parametrize(("scattered", "rows"), [(True, "7"), (False, "its")])
def test_rows_that_spark_wrote_and_nobody_sees_are_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scattered: bool, rows: str
) -> None:
    monkeypatch.setattr(hadoop, "is_scattered", lambda spark: scattered)
    elsewhere = local_lake(tmp_path / "another machine")
    path_of = hadoop.path_of
    monkeypatch.setattr(hadoop, "path_of", lambda lake, relative: path_of(elsewhere, relative))
    with pytest.raises(OutputDisagrees, match=rf"Spark wrote {rows} rows .* and 0 are there"):
        write(LakeOutput(local_lake(tmp_path / "here"), "t"), spark.range(7))


def test_a_full_disk_is_one_sentence_and_nothing_is_visible(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        output = LakeOutput(local_lake(folder), "t")
        with pytest.raises(OutputUnreachable, match="no space is left") as full:
            write(output, spark.range(1_000_000))
        assert full.value.retryable
        assert output.is_empty()
        assert committed_files(local_lake(folder), "t") == ()
        clean(local_lake(folder), "t", older_than=timedelta(seconds=-5))  # works without space of its own
        assert survey(local_lake(folder), "t").leftovers == ()
        # Java keeps the files of failed tasks open, so their space is not free before the process ends.
        subprocess.run(["mount", "-o", "remount,size=2m", str(folder)], check=True)
        commit(output, 1, spark.range(5))
        assert not output.is_empty()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_every_file_is_durable_before_write_returns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def seen(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    files = write(LakeOutput(local_lake(tmp_path), "t"), spark.range(10))
    expected = [tmp_path / "t" / file.path for file in files]
    for path in expected:
        assert {str(path), str(path.parent), str(path.parent.parent), str(tmp_path / "t")} <= set(synced)
    assert list(tmp_path.rglob("*.crc")) == []
