"""Each mode of a Delta output, on real tables: one commit with its tag, and the counts it says."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.support.delta_output import Writer, batch_of, delta_flow_of, tag_of, values
from tidegauge.errors import KeyUnsuitable, OutputDisagrees, OutputError, TransformFailed
from tidegauge.model.delta_flow import TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Receipt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _commits(path: Path) -> list[dict[str, Any]]:
    files = sorted((path / "_delta_log").glob("*.json"))
    return [json.loads(file.read_text().splitlines()[0])["commitInfo"] for file in files]


def _counts(receipt: Receipt) -> tuple[int | None, ...]:
    return receipt.rows, receipt.inserted, receipt.updated, receipt.deleted, receipt.read


def test_append_commits_rows_and_tag_at_once_and_only_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "o'rders %41"
    writer = Writer(spark, delta_flow_of(path, Mode.APPEND))
    first = writer.put(1, "SELECT id, 'a' AS v FROM range(20)")
    assert _counts(first) == (20, 20, 0, 0, None)
    assert (first.windows, first.run_id) == (batch_of(1).windows, "run 1")
    assert writer.put(1, "SELECT id, 'b' AS v FROM range(99)") == first
    assert writer.put(2, "SELECT 20 AS id, CAST(NULL AS string) AS v").rows == 1  # an int fits a bigint
    with pytest.raises(OutputError, match=r"only grows.*\b7\b") as refused:
        writer.put(3, "SELECT 21L AS id, 'c' AS v", refused="SELECT 7 AS id")
    assert "on_delete" in str(refused.value.hint)
    assert writer.put(3, "SELECT 21L AS id, 'c' AS v", refused="SELECT 7 AS id WHERE false").rows == 1
    assert writer.rows("count(*), count(v), max(id)") == [(22, 21, 21)]
    assert [one.get("operation") for one in _commits(path)] == ["CREATE TABLE", "WRITE", "WRITE", "WRITE"]
    said = json.loads(_commits(path)[2]["userMetadata"])
    assert (said["tidegauge"], said["flow"], said["seq"], said["run_id"]) == (1, "silver/orders", 2, "run 2")
    assert said["windows"] == [
        {
            "input": "orders",
            "cursor": "version",
            "after": {"version": 1},
            "upto": {"version": 2},
            "way": "feed",
        }
    ]
    properties = {
        row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect()
    }
    assert properties["delta.enableChangeDataFeed"] == "true"


def test_merge_applies_inserts_updates_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "silver"
    writer = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("K", "day")))
    columns = "k, day, v, _change_type"
    day = "DATE'2024-05-0"

    def rows(*found: tuple[str, int, str | None, str]) -> str:
        told = ", ".join(
            f"('{k}', {day}{d}', {'CAST(NULL AS string)' if v is None else repr(v)}, '{kind}')"
            for k, d, v, kind in found
        )
        return f"SELECT * FROM VALUES {told} AS t({columns})"

    first = writer.put(
        1,
        rows(
            ("it\\'s", 1, "x", "insert"),
            ("b", 1, None, "insert"),
            ("b", 2, "y", "i"),
            ("no", 1, None, "delete"),
        ),
    )
    assert _counts(first) == (3, 3, 0, 0, 4)
    assert _commits(path)[-1]["operation"] == "WRITE"  # nothing to merge with
    change = rows(
        ("it\\'s", 1, "X", "update_postimage"),
        ("b", 1, None, "update_postimage"),  # as it is: not written again
        ("b", 2, None, "delete"),
        ("c", 1, "new", "insert"),
        ("gone", 9, None, "delete"),
    )
    second = writer.put(2, change)
    assert _counts(second) == (3, 1, 1, 1, 5)
    assert writer.put(2, change) == second
    assert writer.rows("k, v") == [("b", None), ("c", "new"), ("it's", "X")]
    info = _commits(path)[-1]
    assert info["operation"] == "MERGE"
    assert int(info["operationMetrics"]["numTargetDeletionVectorsAdded"]) > 0
    nothing = writer.put(3, f"{change} WHERE false")
    assert _counts(nothing) == (0, 0, 0, 0, 0)
    assert writer.output.receipt(tag_of(3)) == nothing
    assert writer.put(4, rows(("c", 1, None, "delete"))).deleted == 1
    assert writer.rows("k") == [("b",), ("it's",)]
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 4)
    assert [row["_change_type"] for row in feed.load(str(path)).collect()] == ["delete"]


def _remove_files(path: Path, commit: Path) -> None:
    """Remove the data files that a commit added."""
    added = [json.loads(line).get("add") for line in commit.read_text().splitlines()]
    names = [add["path"] for add in added if add]
    assert names
    for name in names:
        (path / name).unlink()


def test_a_merge_by_a_decimal_reads_no_file_that_lies_beside_its_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "silver"
    writer = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("k",)))

    def rows(v: str, *keys: str) -> str:
        told = ", ".join(f"(CAST('{k}' AS decimal(15,7)), '{v}')" for k in keys)
        return f"SELECT k, v, 'insert' AS _change_type FROM VALUES {told} AS t(k, v)"

    low = ("-99999999.9999999", "-0.0000001")
    writer.put(1, rows("old", *low))
    writer.put(2, rows("old", "0.0000001", "0.5"))
    _remove_files(path, sorted((path / "_delta_log").glob("*.json"))[-1])
    assert _counts(writer.put(3, rows("new", *low)))[:3] == (2, 0, 2)


@pytest.mark.parametrize("indexed", [0, 32])
def test_a_merge_finds_its_decimal_keys_at_the_edges_of_a_file_and_without_its_statistics(
    spark: SparkSession, tmp_path: Path, indexed: int
) -> None:
    path = tmp_path / "silver"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (k decimal(15,7), v string) USING delta"
        f" TBLPROPERTIES (delta.dataSkippingNumIndexedCols = {indexed})"
    )
    writer = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("k",)))
    keys = ["-99999999.9999999", "-1E-7", "0", "0.1", "99999999.9999999"]

    def rows(v: str, *found: str) -> str:
        told = ", ".join(f"(CAST('{k}' AS decimal(15,7)), '{v}')" for k in found)
        return f"SELECT k, v, 'update_postimage' AS _change_type FROM VALUES {told} AS t(k, v)"

    writer.put(1, rows("old", *keys))
    for seq, key in enumerate(keys, start=2):
        assert _counts(writer.put(seq, rows("new", key)))[:3] == (1, 0, 1), key
    assert writer.rows("count(*), count_if(v = 'new')") == [(5, 5)]


@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SCD2])
def test_a_long_decimal_key_is_found_in_a_file_whose_bounds_another_writer_rounded(
    spark: SparkSession, tmp_path: Path, mode: Mode
) -> None:
    path = tmp_path / "silver"
    facts: dict[str, Any] = {"sequence_by": "at"} if mode is Mode.SCD2 else {}
    writer = Writer(spark, delta_flow_of(path, mode, key=("k",), deletion_vectors=False, **facts))

    def row(k: str, at: str, v: str) -> str:
        stamps = "'insert' AS _change_type, 1L AS _commit_version, now() AS _commit_timestamp"
        return f"SELECT CAST('{k}' AS decimal(30,2)) AS k, DATE'{at}' AS at, '{v}' AS v, {stamps}"

    writer.put(1, row("12345678901234567.89", "2025-01-01", "old"))
    writer.put(2, row("12345678901234567.90", "2025-01-01", "old"))
    done = DeltaTable(path).optimize.compact()
    assert done["numFilesAdded"] == 1, done
    log = sorted((path / "_delta_log").glob("*.json"))[-1].read_text()
    assert "1.2345678901234568e+16" in log, "delta-rs no longer rounds: then longer decimals may have bounds"
    writer.put(3, row("12345678901234567.89", "2025-01-01", "new"))
    assert writer.rows("k, v") == [
        (Decimal("12345678901234567.89"), "new"),
        (Decimal("12345678901234567.90"), "old"),
    ]


def test_d1_d2_keys_that_repeat_or_are_null_fail_the_batch_and_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.MERGE, key=("a", "b")))
    columns = "a, b, v, _change_type"
    for _ in range(2):
        with pytest.raises(KeyUnsuitable, match=r'NULL in its key: \{"a":1,"b":null\}'):
            writer.put(1, values([(1, 1, "x", "insert"), (1, None, "y", "insert")], columns))
    with pytest.raises(KeyUnsuitable, match=r'more than once.*\{"a":2,"b":2\}'):
        writer.put(1, values([(1, 1, "x", "insert"), (2, 2, "y", "insert"), (2, 2, "y", "delete")], columns))
    assert writer.output.receipt(tag_of(1)) is None
    assert writer.rows() == []


def test_d1_what_a_small_target_has_just_so_is_left_out_of_the_merge_and_still_told_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, columns = tmp_path / "t", "id, v, tags, _change_type"
    writer = Writer(spark, delta_flow_of(path, Mode.MERGE, key=("id",)), little=True)

    def rows(*found: tuple[int, str | None, str]) -> str:
        plain = values([(one, v, kind) for one, v, kind in found], "id, v, _change_type")
        return f"SELECT id, v, map('a', v) AS tags, _change_type FROM ({plain})"

    assert writer.put(1, rows((1, "x", "insert"), (2, None, "insert"), (3, "z", "insert"))).inserted == 3
    # All of them are there just so: a commit without Spark, which has its tag and says what was read.
    same = writer.put(2, rows((1, "x", "upsert"), (2, None, "upsert")))
    assert (same.rows, same.read) == (0, 2)
    [last] = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
    assert last["operation"] == "TIDEGAUGE BATCH"
    # One that changes, one that goes, one that comes and one that stays; a delete of nothing does no harm.
    # From a UNION, as changes often are.
    mixed = rows((1, "y", "u"), (2, None, "u"), (4, "w", "u")), rows((3, None, "delete"), (9, None, "delete"))
    done = writer.put(3, " UNION ALL ".join(mixed))
    assert (done.read, done.inserted, done.updated, done.deleted) == (5, 1, 1, 1)
    assert writer.rows("id, v") == [(1, "y"), (2, None), (4, "w")]
    # A key twice is refused, also where one of its rows is there already.
    with pytest.raises(KeyUnsuitable, match=r'more than once.*\{"id":4\}'):
        writer.put(4, rows((4, "w", "upsert"), (4, "v", "upsert")))
    assert writer.rows("id, v") == [(1, "y"), (2, None), (4, "w")]
    assert columns.split(", ")[:3] == spark.read.format("delta").load(str(path)).columns


@pytest.mark.long
def test_d8_an_older_event_never_overwrites_a_newer_one(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.MERGE, key=("id",), sequence_by="at"))
    columns = "id, at, v, _change_type"
    writer.put(1, values([(i, 10, "ten", "insert") for i in range(5)], columns))
    done = writer.put(
        2,
        values(
            [
                (0, 9, "old", "update_postimage"),
                (1, 10, "same", "update_postimage"),  # of equal ones the later batch wins
                (2, 11, "new", "update_postimage"),
                (3, 9, None, "delete"),
                (4, None, None, "delete"),
            ],
            columns,
        ),
    )
    assert writer.rows("id, v") == [(0, "ten"), (1, "same"), (2, "new"), (3, "ten")]
    assert _counts(done) == (3, 0, 2, 1, 5)


def test_replace_partitions_writes_what_is_touched_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "gold"
    kinds = {
        "s": ("string", "'it\\'s \\\\ 5%'", "it's \\ 5%"),
        "d": ("date", "DATE'2024-02-29'", date(2024, 2, 29)),
        "t": ("timestamp", "TIMESTAMP'2024-03-10 02:30:00.123456 UTC'", None),
        "n": ("decimal(12,3)", "CAST(-1.5 AS decimal(12,3))", Decimal("-1.500")),
        "b": ("boolean", "false", False),
        "l": ("bigint", "-9223372036854775808L", -(2**63)),
    }
    writer = Writer(spark, delta_flow_of(path, Mode.REPLACE_PARTITIONS, partition_by=tuple(kinds)))
    one = ", ".join(f"{told} AS {name}" for name, (_, told, _) in kinds.items())
    none = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, (kind, _, _) in kinds.items())
    some = f"{one.rpartition(',')[0]}, CAST(NULL AS bigint) AS l"
    both = f"SELECT {one} UNION ALL SELECT {none} UNION ALL SELECT {some}"
    first = writer.put(1, f"SELECT id, p.* FROM range(3) CROSS JOIN ({both}) p", touched=both)
    assert (first.rows, writer.rows("count(*)")) == (9, [(9,)])
    # One partition anew, one emptied, one left alone.
    second = writer.put(2, f"SELECT 7L AS id, {one}", touched=f"SELECT {one} UNION ALL SELECT {none}")
    assert (second.rows, second.deleted) == (1, 6)
    assert writer.rows("id, s IS NULL, l IS NULL") == [
        (0, False, True),
        (1, False, True),
        (2, False, True),
        (7, False, False),
    ]
    found = spark.sql(f"SELECT s, d, n, b, l FROM delta.`{path}` WHERE id = 7").collect()
    assert tuple(found[0]) == tuple(value for name, (_, _, value) in kinds.items() if name != "t")
    third = writer.put(3, f"SELECT 7L AS id, {one} WHERE false", touched=f"SELECT {one} WHERE false")
    assert (third.rows, writer.rows("count(*)")) == (0, [(4,)])
    fourth = writer.put(4, f"SELECT 7L AS id, {one} WHERE false", touched=f"SELECT {one}")
    assert (fourth.rows, writer.rows("count(*)")) == (0, [(3,)])
    empty = one.replace(kinds["s"][1], "''")
    with pytest.raises(TransformFailed, match=r"partition column s .* empty text"):
        writer.put(5, f"SELECT 7L AS id, {empty}", touched=f"SELECT {empty}")
    other = one.replace("false", "true")
    with pytest.raises(TransformFailed, match="none of the partitions"):
        writer.put(5, f"SELECT 7L AS id, {other}", touched=f"SELECT {one}")
    assert writer.rows("count(*)") == [(3,)]


@pytest.mark.long
def test_overwrite_leaves_only_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer(spark, delta_flow_of(tmp_path / "t", Mode.OVERWRITE))
    writer.put(1, "SELECT id FROM range(9)")
    done = writer.put(2, "SELECT id FROM range(2)")
    assert writer.put(2, "SELECT id FROM range(5)") == done
    assert _counts(done) == (2, 2, None, None, None)
    assert writer.rows() == [(0,), (1,)]
    assert writer.put(3, "SELECT id FROM range(2) WHERE id > 5").rows == 0
    assert writer.rows() == []


@pytest.mark.long
def test_a_table_of_the_catalogue_with_its_schema_and_strange_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    name = "layer_modes.`silver_1`"
    spark.sql(f"CREATE SCHEMA layer_modes LOCATION '{tmp_path}'")

    def locate() -> str | None:
        if not spark.catalog.tableExists(name):
            return None
        return str(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"])

    writer = Writer(spark, delta_flow_of(TableRef(name=name), Mode.MERGE, key=("i d",)), locate)
    try:
        writer.output.open_epoch("shop", "silver/orders", 1, None, "again")
        assert writer.output.is_open(1)
        rows = "SELECT id AS `i d`, map('a', id) AS `m,x`, 'insert' AS _change_type FROM range(3)"
        assert writer.put(1, rows, epoch=1).rows == 3
        more = rows.replace("'a', id", "'a', 1L").replace("range(3)", "range(4)")
        more = more.replace(", 'insert'", ", named_struct('a', id) AS `s t`, 'update_postimage'")
        assert _counts(writer.put(2, more, epoch=1)) == (4, 1, 3, 0, 4)
        assert writer.rows("`i d`, `m,x`['a'], `s t`.a") == [(i, 1, i) for i in range(4)]
        with pytest.raises(OutputDisagrees, match="later epoch"):
            writer.put(1, rows, epoch=0)
    finally:
        spark.sql("DROP SCHEMA IF EXISTS layer_modes CASCADE")


@pytest.mark.shown_on("append")
@pytest.mark.parametrize("mode", [Mode.MERGE, Mode.SCD2, Mode.APPEND, Mode.OVERWRITE])
def test_d14_rows_written_after_a_column_vanished_have_null_there(
    spark: SparkSession, tmp_path: Path, mode: Mode
) -> None:
    facts: dict[str, Any] = {"key": ("k",)} if mode in (Mode.MERGE, Mode.SCD2) else {}
    if mode is Mode.SCD2:
        facts["sequence_by"] = "at"
    writer = Writer(spark, delta_flow_of(tmp_path / "silver", mode, **facts))

    def events(version: int, rows: list[tuple[Any, ...]], columns: str) -> str:
        feed = f", 'insert' AS _change_type, {version}L AS _commit_version"
        feed += f", timestamp_micros({version}L) AS _commit_timestamp"
        told = values(rows, columns)
        return told.replace("SELECT *", f"SELECT *{feed if facts else ''}")

    writer.put(1, events(1, [("a", "old", 1, 1), ("b", "old", 1, 1), ("c", "old", 1, 1)], "k, word, n, at"))
    # Of what comes, one row has changed, one is as it was but for the column, and one is new.
    less = events(2, [("a", 2, 2), ("b", 1, 1), ("d", 1, 2)], "k, n, at")
    if mode is Mode.MERGE:
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/silver` ADD COLUMNS (remark string)")
        spark.sql(f"UPDATE delta.`{tmp_path}/silver` SET remark = concat('of ', k)")
    elif mode is Mode.SCD2:
        less = events(2, [("a", 2, 2), ("d", 1, 2)], "k, n, at")
    for _ in range(2):
        writer.put(2, less)
        match mode:
            case Mode.MERGE:
                assert writer.rows("k, word, n, remark") == [
                    ("a", None, 2, "of a"),
                    ("b", "old", 1, "of b"),
                    ("c", "old", 1, "of c"),
                    ("d", None, 1, None),
                ]
                assert any("no longer gives the column word" in note for note in writer.notes)
            case Mode.SCD2:
                assert writer.rows("k, valid_from, word, is_current") == [
                    ("a", 1, "old", False),
                    ("a", 2, None, True),
                    ("b", 1, "old", True),
                    ("c", 1, "old", True),
                    ("d", 2, None, True),
                ]
            case Mode.APPEND:
                assert len([row for row in writer.rows("word") if row == (None,)]) == 3
            case _:
                assert writer.rows("k, word") == [("a", None), ("b", None), ("d", None)]
    if mode is Mode.MERGE:
        # It is back, and gone again.
        writer.put(3, events(3, [("a", "back", 2, 3), ("b", "back", 1, 3)], "k, word, n, at"))
        writer.put(4, events(4, [("b", 5, 4)], "k, n, at"))
        assert writer.rows("k, word, n, remark")[:2] == [("a", "back", 2, "of a"), ("b", None, 5, "of b")]
