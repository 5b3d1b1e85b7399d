"""Small targets, which are committed to without Spark: what is written is what Spark would write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.delta_output import Writer, delta_flow_of, values
from tests.support.every_type import LAYOUT as EVERY
from tests.support.every_type import ROWS as CORNERS
from tidegauge.delta_log import write_checkpoint
from tidegauge.delta_log.checkpoint import open_checkpoint
from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees, OutputError
from tidegauge.model.mode import Mode
from tidegauge.outputs.delta import output, small_target
from tidegauge.outputs.delta.small_target import SmallTarget
from tidegauge.storage.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id, v, _change_type"


def _little(spark: SparkSession, path: Path, mode: Mode = Mode.MERGE, **facts: Any) -> Writer:
    return Writer(spark, delta_flow_of(path, mode, **facts), little=True)


def _by(path: Path) -> list[str]:
    """Who made each commit."""
    files = sorted((path / "_delta_log").glob("*.json"))
    infos = [json.loads(file.read_text().splitlines()[0])["commitInfo"] for file in files]
    return ["us" if one["engineInfo"] == "tidegauge" else "Spark" for one in infos]


def _feed(spark: SparkSession, path: Path, first: int) -> list[tuple[Any, ...]]:
    reader = spark.read.option("readChangeFeed", True).option("startingVersion", first)
    found = reader.format("delta").load(str(path)).drop("_commit_version", "_commit_timestamp")
    return sorted((tuple(row) for row in found.collect()), key=str)


def test_a_merge_is_one_commit_with_its_feed_and_spark_goes_on_from_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it's 5%"
    writer = _little(spark, path, key=("id",))
    writer.put(1, values([(one, "a", "insert") for one in range(4)], COLUMNS))
    done = writer.put(
        2,
        values(
            [(0, "a", "u"), (1, "b", "u"), (2, None, "delete"), (9, "c", "u"), (8, None, "delete")], COLUMNS
        ),
    )
    assert (done.read, done.rows, done.inserted, done.updated, done.deleted) == (5, 3, 1, 1, 1)
    assert _by(path) == ["Spark", "us", "us"]
    assert writer.rows() == [(0, "a"), (1, "b"), (3, "a"), (9, "c")]
    assert _feed(spark, path, 2) == [
        (1, "a", "update_preimage"),
        (1, "b", "update_postimage"),
        (2, "a", "delete"),
        (9, "c", "insert"),
    ]
    # Spark writes on top of it, marks rows as deleted, and we go on from there.
    spark.sql(f"UPDATE delta.`{path}` SET v = 'theirs' WHERE id = 9")
    assert '"deletionVector":{' in sorted((path / "_delta_log").glob("*.json"))[-1].read_text()
    assert writer.put(3, values([(9, "ours", "u")], COLUMNS)).updated == 1
    assert writer.rows() == [(0, "a"), (1, "b"), (3, "a"), (9, "ours")]
    assert _by(path)[-1] == "us"
    # Files that have become many are made one, and the feed has only what is new.
    monkeypatch.setattr(small_target, "_CROWD", 1)
    assert writer.put(4, values([(5, "e", "insert")], COLUMNS)).inserted == 1
    [detail] = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()
    assert detail["numFiles"] == 1
    assert _feed(spark, path, 5) == [(5, "e", "insert")]
    assert writer.rows() == [(0, "a"), (1, "b"), (3, "a"), (5, "e"), (9, "ours")]


def test_rows_of_every_type_are_what_spark_would_have_written(spark: SparkSession, tmp_path: Path) -> None:
    schema = ", ".join(f"c{at} {field.type}" for at, field in enumerate(EVERY.fields))
    day = f"c{[field.type for field in EVERY.fields].index('date')}"

    def rows(session: SparkSession) -> DataFrame:
        plain = session.createDataFrame(CORNERS, schema)
        inside = f"struct(c0 AS a, array({day}, NULL) AS b) AS s"
        return plain.selectExpr("*", inside, f"map(c0, {day}) AS m", "double('NaN') AS n")

    ours = _little(spark, tmp_path / "ours", key=("c0",))
    theirs = Writer(spark, delta_flow_of(tmp_path / "theirs", Mode.MERGE, key=("c0",)))
    for writer in (ours, theirs):
        assert writer.put(1, rows).inserted == len(CORNERS)
    assert _by(tmp_path / "ours") == ["Spark", "us"]
    one, other = (spark.read.format("delta").load(str(tmp_path / name)) for name in ("ours", "theirs"))
    assert one.schema == other.schema
    text = "to_json(struct(*), map('ignoreNullFields', 'false')) AS t"
    assert sorted(one.selectExpr(text).collect()) == sorted(other.selectExpr(text).collect())
    # The files say what is in them, and Spark leaves out what they do not have.
    assert one.where("c0 >= 3 AND c0 < 5").count() == 2
    assert one.where(f"{day} = DATE'9999-12-31'").count() == 1
    # Just so: nothing is written.
    assert ours.put(2, rows).rows == 0


FORBIDDEN: dict[str, str] = {
    "a constraint": "ALTER TABLE {} ADD CONSTRAINT c CHECK (id < 100)",
    "row tracking": "ALTER TABLE {} SET TBLPROPERTIES (delta.enableRowTracking = true)",
    "columns by number": "ALTER TABLE {} SET TBLPROPERTIES (delta.columnMapping.mode = 'id')",
}


@pytest.mark.shown_on("a constraint")
@pytest.mark.parametrize("statement", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_asks_more_of_a_writer_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "t"
    if "columnMapping" in statement:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta"
            " TBLPROPERTIES (delta.columnMapping.mode = 'id', delta.enableChangeDataFeed = true)"
        )
    writer = _little(spark, path, key=("id",))
    writer.put(1, values([(1, "a", "insert"), (2, "a", "insert")], COLUMNS))
    if "columnMapping" not in statement:
        spark.sql(statement.format(f"delta.`{path}`"))
    assert writer.put(2, values([(2, "b", "u"), (3, "c", "u")], COLUMNS)).rows == 2
    assert _by(path)[-1] == "Spark"
    assert writer.rows() == [(1, "a"), (2, "b"), (3, "c")]


def test_a_checkpoint_is_as_spark_makes_it_and_one_in_ten_is_sparks(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta PARTITIONED BY (v) TBLPROPERTIES"
        " (delta.checkpointInterval = 2, delta.enableChangeDataFeed = true,"
        " delta.enableDeletionVectors = true)"
    )
    writer = _little(spark, path, key=("id",))
    writer.put(1, values([(1, "a", "insert"), (2, "b", "insert"), (3, "b", "insert")], COLUMNS))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    for seq in range(2, 7):
        writer.put(seq, values([(1, str(seq), "u"), (2, None, "delete")], COLUMNS))
    log, version = path / "_delta_log", len(_by(path)) - 1
    ours = _state_in_checkpoint(path, version)
    assert _by(path)[version] == "us"
    assert {kind for kind, _ in ours} >= {"txn", "add", "remove", "metaData", "protocol"}
    (log / f"{version:020}.checkpoint.parquet").unlink()
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path)).checkpoint()
    assert _state_in_checkpoint(path, version) == ours
    # The next one is ours again, and all that Spark has of what was before it.
    writer.put(7, values([(4, "c", "insert")], COLUMNS))
    writer.put(8, values([(5, "c", "insert")], COLUMNS))
    for file in log.glob("*.json"):
        if int(file.stem) < version + 2:
            file.unlink()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert _by(path) == ["us"]
    assert writer.rows() == [(1, "6"), (4, "c"), (5, "c")]
    for seq in range(9, 20):
        writer.put(seq, values([(1, str(seq), "u")], COLUMNS))
    assert "Spark" in _by(path)
    assert writer.rows() == [(1, str(seq)), (4, "c"), (5, "c")]


def _state_in_checkpoint(path: Path, version: int) -> list[tuple[str, str]]:
    """What it says of the table, without what only Spark's has: statistics in columns of their own."""
    found = open_checkpoint(open_store(lake_of(str(path), None)), version)
    kinds = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata")
    return sorted((kind, json.dumps(one, sort_keys=True)) for kind in kinds for one in found.actions(kind))


def test_b2_a_writer_that_dies_at_its_checkpoint_leaves_a_whole_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta"
        " TBLPROPERTIES (delta.checkpointInterval = 1, delta.enableChangeDataFeed = true)"
    )
    writer = _little(spark, path, key=("id",))

    def die(*_: object) -> None:
        raise OSError

    writer.put(1, values([(1, "a", "insert")], COLUMNS))
    last = path / "_delta_log" / "_last_checkpoint"
    for seq, what in enumerate(("_pack", "_point_to"), start=2):
        before = last.read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(write_checkpoint, what, die)
            writer.put(seq, values([(seq, what, "insert")], COLUMNS))
        assert last.read_bytes() == before
        assert [row[0] for row in writer.rows()] == list(range(1, seq + 1))
    writer.put(4, values([(4, "c", "insert")], COLUMNS))
    assert json.loads(last.read_text())["version"] == len(_by(path)) - 1
    assert [row[0] for row in writer.rows()] == [1, 2, 3, 4]


def _meet(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> list[int]:
    """Somebody else commits just before our first commit would be there; the versions that we tried."""
    put, tried = Log.put, []

    def late(log: Log, version: int, actions: Any) -> bool:
        tried.append(version)
        if len(tried) == 1:
            other()
        return put(log, version, actions)

    monkeypatch.setattr(Log, "put", late)
    return tried


def test_a_commit_that_somebody_else_overtakes_is_made_anew_of_what_is_there_then(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    writer = _little(spark, path, key=("id",))
    writer.put(1, values([(one, "a", "insert") for one in range(3)], COLUMNS))
    tried = _meet(monkeypatch, lambda: spark.sql(f"UPDATE delta.`{path}` SET v = 'theirs' WHERE id > 0"))
    done = writer.put(2, values([(1, "ours", "u"), (2, "theirs", "u"), (7, "ours", "u")], COLUMNS))
    assert len(tried) == 2
    assert (done.inserted, done.updated) == (1, 1)
    assert writer.rows() == [(0, "a"), (1, "ours"), (2, "theirs"), (7, "ours")]
    # What was written for the first try is gone.
    named = "".join(file.read_text() for file in (path / "_delta_log").glob("*.json"))
    assert [file.name for file in path.rglob("*.parquet") if file.name not in named] == []


def test_b17_a_commit_into_an_epoch_that_has_ended_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, heir = (_little(spark, tmp_path / "t", key=("id",)) for _ in range(2))
    zombie.put(1, values([(0, "old", "insert")], COLUMNS))
    _meet(monkeypatch, lambda: heir.open(1, (0, 1)))
    with pytest.raises(OutputDisagrees, match="later epoch"):
        zombie.put(2, values([(0, "zombie", "u")], COLUMNS))
    assert heir.rows() == [(0, "old")]


def test_b3_a_commit_whose_answer_was_lost_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _little(spark, tmp_path / "t", key=("id",))
    writer.put(1, values([(0, "a", "insert")], COLUMNS))
    put = Log.put

    def lost(log: Log, version: int, actions: Any) -> bool:
        put(log, version, actions)
        raise ConnectionError("the disk went away")

    monkeypatch.setattr(Log, "put", lost)
    assert writer.put(2, values([(0, "b", "u")], COLUMNS)).updated == 1
    monkeypatch.setattr(Log, "put", put)
    monkeypatch.setattr(output, "_TRIES", 2)
    monkeypatch.setattr(SmallTarget, "commit", lambda *_: False)
    with pytest.raises(OutputError, match="another writer kept committing") as failed:
        writer.put(3, values([(0, "c", "u")], COLUMNS))
    assert failed.value.retryable
    assert writer.rows() == [(0, "b")]


def test_partitions_that_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = _little(spark, path, Mode.REPLACE_PARTITIONS, partition_by=("day", "word"))
    rows = [(1, "2024-01-01", "it's"), (2, "2024-01-02", None), (3, "2024-01-02", "b/c")]

    def told(found: list[tuple[Any, ...]]) -> str:
        return f"SELECT id, DATE(day) AS day, string(word) AS word FROM ({values(found, 'id, day, word')})"

    touched = "SELECT day, word FROM ({})"
    writer.put(1, told(rows), touched=touched.format(told(rows)))
    again = [(4, "2024-01-02", None)]
    done = writer.put(2, told(again), touched=touched.format(told([*again, rows[0]])))
    assert (done.inserted, done.deleted) == (1, 2)
    assert _by(path) == ["Spark", "us", "us"]
    assert writer.rows("id, string(day), word") == [(3, "2024-01-02", "b/c"), (4, "2024-01-02", None)]
    assert spark.read.format("delta").load(str(path)).where("word = 'b/c'").count() == 1


def test_a_history_is_the_same_whoever_commits_it(spark: SparkSession, tmp_path: Path) -> None:
    facts: dict[str, Any] = {"key": ("id",), "sequence_by": "at", "surrogate_key": "sk"}
    feed = "_change_type, _commit_version, _commit_timestamp"
    ours = _little(spark, tmp_path / "ours", Mode.SCD2, **facts)
    theirs = Writer(spark, delta_flow_of(tmp_path / "theirs", Mode.SCD2, **facts))
    batches: list[list[tuple[Any, ...]]] = [
        [(1, 1, "a", "insert"), (2, 1, "a", "insert"), (2, 2, "b", "insert"), (3, 1, None, "insert")],
        # One that changes nothing; late, equal, gone; and one of them again.
        [(1, 5, "c", "insert"), (1, 3, "a", "insert"), (2, 2, "z", "insert"), (3, 4, "x", "delete")],
        [(1, 2, "b", "insert"), (3, 4, "x", "delete")],
    ]
    for writer in (ours, theirs):
        for seq, batch in enumerate(batches, 1):
            plain = [(*row, seq, f"2024-01-0{seq} 00:00:00") for row in batch]
            rows = values(plain, f"id, at, v, {feed}")
            stamp = "TIMESTAMP(_commit_timestamp) AS _commit_timestamp"
            writer.put(seq, f"SELECT * EXCEPT (_commit_timestamp), {stamp} FROM ({rows})")
    assert _by(tmp_path / "ours") == ["Spark", "us", "us", "us"]
    assert ours.rows() == theirs.rows()
    kept = "SELECT * EXCEPT (_commit_version) FROM delta.`{}/_tidegauge_events`"
    one, other = (
        sorted(map(tuple, spark.sql(kept.format(tmp_path / name)).collect()), key=str)
        for name in ("ours", "theirs")
    )
    assert one == other


@pytest.mark.shown_on("True")
@pytest.mark.parametrize("little", [True, False])
def test_a_zero_that_changes_its_sign_reaches_the_target_whoever_commits(
    spark: SparkSession, tmp_path: Path, little: bool
) -> None:
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.MERGE, key=("id",)), little=little)

    def put(seq: int, zero: str) -> int | None:
        made = f"SELECT 1 AS id, {zero} AS v, array({zero}) AS w, 'u' AS _change_type"
        return writer.put(seq, made).updated

    put(1, "0.0D")
    assert put(2, "-0.0D") == 1
    assert put(3, "-0.0D") == 0
    assert str(writer.rows()) == "[(1, -0.0, [-0.0])]"
