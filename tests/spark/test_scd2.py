"""What a history says, case by case; each case is a key, and all keys live in one table side by side."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegauge.errors import KeyUnsuitable, TransformFailed
from tidegauge.model.delta_flow import DeltaTable, TableRef
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Tag
from tidegauge.outputs.delta import scd2
from tidegauge.outputs.delta.commit import tag_commits
from tidegauge.outputs.delta.kept_events import FOLDER
from tidegauge.outputs.delta.scd2 import added_columns, apply_scd2
from tidegauge.outputs.delta.session import configure
from tidegauge.spark.session import sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

START = datetime(2025, 1, 1, tzinfo=UTC)
FEED = "_change_type string, _commit_version bigint, _commit_timestamp timestamp"


def at(minute: float | None) -> datetime | None:
    return None if minute is None else START + timedelta(minutes=minute)


class History:
    """A table of its own; every `apply` is one batch, and has to be one commit with its tag."""

    def __init__(self, spark: SparkSession, folder: Path, columns: str, **output: Any) -> None:
        self.spark, self.columns = spark, columns
        self.location = str(folder / "it's a history")
        self.table = f"delta.`{self.location}`"
        self.output = DeltaTable(TableRef(path=self.location), Mode.SCD2, **output)
        self.seq = 0
        schema = spark.createDataFrame([], columns).schema
        for field in added_columns(schema, self.output):
            schema.add(field)
        writer = spark.createDataFrame([], schema).write.format("delta")
        # As the output makes them: any name, changes for the next flow, no file rewritten for one row.
        writer.option("delta.columnMapping.mode", "name").option("delta.enableChangeDataFeed", "true").option(
            "delta.enableDeletionVectors", "true"
        ).save(self.location)

    def rows(self, values: list[tuple[Any, ...]], schema: str | StructType | None = None) -> DataFrame:
        return self.spark.createDataFrame(values, schema or f"{self.columns}, {FEED}").coalesce(1)

    def apply(self, rows: DataFrame, *, seq: int | None = None) -> None:
        self.seq = self.seq + 1 if seq is None else seq
        before = self.commits()
        self._apply(rows)
        after = self.commits()
        if seq is None:
            assert len(after) == len(before) + 1
            assert [one["txn"]["version"] for one in after[-1] if "txn" in one] == [self.seq]
            assert [one["commitInfo"]["userMetadata"] for one in after[-1] if "commitInfo" in one] == ["who"]
        else:
            assert len(after) == len(before)

    def _apply(self, rows: DataFrame) -> None:
        session = sibling(self.spark)
        configure(session)
        with tag_commits(session, Tag("p", "f", 1, self.seq), "who"):
            apply_scd2(session, self.table, self.location, rows, self.output)

    def commits(self, below: str = "") -> list[list[dict[str, Any]]]:
        log = Path(self.location, below, "_delta_log").glob("*.json")
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in sorted(log)]

    def shown(self) -> list[dict[str, Any]]:
        table = self.spark.read.format("delta").load(self.location)
        found: list[dict[str, Any]] = table.orderBy("valid_from", *table.columns[:1]).toArrow().to_pylist()
        return found


@dataclass(frozen=True)
class Case:
    """Events are (round, version, change, moment, value, note); version n was committed at minute 10 n.
    Rows are (from, to, value, note)."""

    name: str
    events: list[tuple[int, int, str, float | None, str | None, int]]
    rows: list[tuple[float, float | None, str | None, int]]


CASES = [
    Case(
        "a late event splits an interval, and what had changed nothing changes something now",
        [
            (1, 1, "insert", 1, "a", 1),
            (1, 2, "update_postimage", 2, "a", 2),
            (1, 3, "insert", 3, "b", 3),
            (2, 4, "insert", 1.5, "c", 4),
        ],
        [(1, 1.5, "a", 1), (1.5, 2, "c", 4), (2, 3, "a", 2), (3, None, "b", 3)],
    ),
    Case(
        "a late event takes over the row of a later one that says the same",
        [(1, 1, "insert", 1, "a", 1), (1, 2, "insert", 3, "b", 2), (2, 3, "insert", 2, "b", 3)],
        [(1, 2, "a", 1), (2, None, "b", 3)],
    ),
    Case(
        "and gives it back when a still later one comes between",
        [
            (1, 1, "insert", 1, "a", 1),
            (1, 2, "insert", 3, "b", 2),
            (2, 3, "insert", 2, "b", 3),
            (3, 4, "insert", 2.5, "c", 4),
        ],
        [(1, 2, "a", 1), (2, 2.5, "b", 3), (2.5, 3, "c", 4), (3, None, "b", 2)],
    ),
    Case(
        "of equal moments the later commit wins",
        [(1, 1, "insert", 1, "a", 1), (1, 2, "insert", 1, "b", 2), (2, 3, "insert", 1, "c", 3)],
        [(1, None, "c", 3)],
    ),
    Case(
        "d8: also when the earlier commit comes later",
        [(1, 3, "insert", 1, "c", 3), (2, 2, "insert", 1, "b", 2), (3, 1, "insert", 1, "a", 1)],
        [(1, None, "c", 3)],
    ),
    Case(
        "in one commit and at one moment a row counts before its delete",
        [(1, 1, "delete", 1, None, 0), (1, 1, "insert", 1, "a", 1)],
        [(1, None, "a", 1)],
    ),
    Case(
        "a delete closes, a second one changes nothing, and a row that comes again opens",
        [
            (1, 1, "insert", 1, "a", 1),
            (2, 2, "delete", 5, None, 0),
            (2, 3, "delete", 6, None, 0),
            (3, 4, "insert", 8, "a", 4),
        ],
        [(1, 5, "a", 1), (8, None, "a", 4)],
    ),
    Case(
        "a delete may come before what it deletes",
        [(1, 2, "delete", 5, None, 0), (2, 1, "insert", 1, "a", 1)],
        [(1, 5, "a", 1)],
    ),
    Case(
        "a delete at the very start of a row leaves none of it",
        [(1, 1, "insert", 1, "a", 1), (1, 2, "insert", 5, "b", 2), (2, 3, "delete", 5, None, 0)],
        [(1, 5, "a", 1)],
    ),
    Case(
        "a delete from the feed closes at its commit's time",
        [(1, 1, "insert", 1, "a", 1), (2, 2, "delete", None, None, 0), (3, 3, "insert", 29, "b", 3)],
        [(1, 20, "a", 1), (29, None, "b", 3)],
    ),
    Case(
        "it closes the row that was committed before it, also one that begins after its time",
        [(1, 1, "insert", 1, "a", 1), (1, 1, "insert", 25, "b", 1), (2, 2, "delete", None, None, 0)],
        [(1, 25, "a", 1)],
    ),
    Case(
        "also when the delete was known first, and never one that was committed after it",
        [(1, 3, "insert", 26, "c", 3), (2, 2, "delete", None, None, 0), (3, 1, "insert", 25, "b", 1)],
        [(26, None, "c", 3)],
    ),
    Case(
        "a row that is restored after it, with its old moment, was never away",
        [(1, 1, "insert", 1, "a", 1), (2, 2, "delete", None, None, 0), (3, 3, "insert", 1, "a", 3)],
        [(1, None, "a", 3)],
    ),
    Case(
        "deleted and inserted in one commit is updated",
        [(1, 1, "insert", 1, "a", 1), (2, 2, "delete", None, None, 0), (2, 2, "insert", 2, "b", 2)],
        [(1, 2, "a", 1), (2, None, "b", 2)],
    ),
    Case(
        "NULL is a value like others",
        [
            (1, 1, "insert", 1, None, 1),
            (1, 2, "insert", 2, None, 2),
            (2, 3, "insert", 3, "a", 3),
            (3, 4, "insert", 4, None, 4),
        ],
        [(1, 3, None, 1), (3, 4, "a", 3), (4, None, None, 4)],
    ),
]


def test_d6_events_land_where_a_sort_of_all_of_them_would_put_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(
        spark,
        tmp_path,
        "key string, moment timestamp, value string, note int",
        key=("key",),
        sequence_by="moment",
        track=("value",),
    )

    def batch(*rounds: int) -> DataFrame:
        return history.rows(
            [
                (case.name, at(moment), value, note, change, version, at(version * 10))
                for case in CASES
                for number, version, change, moment, value, note in case.events
                if number in rounds
            ]
        )

    history.apply(batch(1))
    as_it_was = history.shown()

    # D7: killed between the two tables, nothing is to be seen of it.
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scd2, "_merge", kill)
        with pytest.raises(KeyboardInterrupt):
            history._apply(batch(2))
    assert history.shown() == as_it_was
    assert len(history.commits()) == 2
    assert not [one for commit in history.commits(FOLDER) for one in commit if "txn" in one]
    history.apply(batch(2))
    history.apply(batch(3))

    wanted = {
        (case.name, at(begin), at(end), end is None, value, note)
        for case in CASES
        for begin, end, value, note in case.rows
    }
    names = ("key", "valid_from", "valid_to", "is_current", "value", "note")
    shown = history.shown()
    assert {tuple(row[name] for name in names) for row in shown} == wanted
    assert len(shown) == len(wanted)
    assert all(row["moment"] == row["valid_from"] for row in shown)

    # D5: any of it again, with a tag of its own or the same, and nothing is kept twice.
    kept = len(history.commits(FOLDER))
    history.apply(batch(2, 1))
    history.apply(batch(3), seq=3)
    assert history.shown() == shown
    assert len(history.commits(FOLDER)) == kept


@pytest.mark.long
def test_d8_any_type_and_any_name_has_a_history(spark: SparkSession, tmp_path: Path) -> None:
    history = History(
        spark,
        tmp_path,
        "`from` string, `it's a.key` binary, `the moment` timestamp_ntz, tags map<string,int>,"
        " nested struct<`a b`:array<map<string,decimal(10,2)>>>, `select` decimal(20,4)",
        key=("from", "it's a.key"),
        sequence_by="the moment",
        surrogate_key='a key; of "ours"',
    )
    noon = datetime(2025, 6, 1, 12)

    def row(key: tuple[str, bytes], minute: int, tags: dict[str, int], price: str) -> tuple[Any, ...]:
        nested = ([{"x": Decimal(price)}, None],)
        moment = noon + timedelta(minutes=minute)
        return (*key, moment, tags, nested, Decimal("1.5"), "insert", minute, at(minute))

    one, other = ("it's\\", b"\x00a"), ("it's", b"\\\x00a")
    history.apply(history.rows([row(one, 1, {"a": 1, "b": 2}, "1.00"), row(other, 1, {}, "2.00")]))
    # A map has no order; one more entry, or a value deep inside, is a change.
    again = [row(one, 2, {"b": 2, "a": 1}, "1.00"), row(one, 3, {"a": 1}, "1.00"), row(other, 2, {}, "2.01")]
    gone = (*other, None, None, None, None, "delete", 9, noon.replace(tzinfo=UTC) + timedelta(hours=1))
    history.apply(history.rows([*again, gone]))

    shown = {(row["from"], row["valid_from"].minute): row for row in history.shown()}
    assert set(shown) == {("it's\\", 1), ("it's\\", 3), ("it's", 1), ("it's", 2)}
    assert shown["it's", 2]["valid_to"] == noon + timedelta(hours=1)
    assert not shown["it's", 2]["is_current"]
    assert shown["it's\\", 3]["is_current"]
    assert dict(shown["it's\\", 3]["tags"]) == {"a": 1}
    hashes = {row['a key; of "ours"'] for row in shown.values()}
    assert len(hashes) == 4
    text = "5:it's\\4:006119:2025-06-01 12:01:00"
    assert shown["it's\\", 1]['a key; of "ours"'] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.long
def test_a_sequence_may_be_a_number_or_a_day_and_columns_may_come_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    days = History(spark, tmp_path / "days", "id int, day date, size int", key=("ID",), sequence_by="Day")
    stamp = datetime(2025, 3, 3, 23, 30, tzinfo=UTC)
    first, second = date(2025, 3, 1), date(2025, 3, 2)
    days.apply(
        days.rows(
            [
                (1, first, 1, "insert", 1, stamp),
                (1, second, 1, "insert", 2, stamp),
                (1, None, None, "delete", 3, stamp),
            ]
        )
    )
    days.spark.sql(f"ALTER TABLE {days.table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    days.spark.sql(f"ALTER TABLE {days.table} ALTER COLUMN size TYPE bigint")
    days.spark.sql(f"ALTER TABLE {days.table} ADD COLUMN colour string AFTER id")
    days.columns = "id int, colour string, day date, size bigint"
    # An event that changes nothing is kept with the new column too, and the delete is still known.
    late = datetime(2025, 3, 5, tzinfo=UTC)
    days.apply(
        days.rows(
            [
                (1, None, date(2025, 3, 2), 2**40, "insert", 4, late),
                (1, "red", date(2025, 3, 4), 2**40, "insert", 5, late),
                (1, "red", date(2025, 3, 5), 2**40, "insert", 6, late),
            ]
        )
    )
    names = ("valid_from", "valid_to", "size", "colour")
    assert [tuple(row[name] for name in names) for row in days.shown()] == [
        (first, second, 1, None),
        (second, date(2025, 3, 4), 2**40, None),
        (date(2025, 3, 4), None, 2**40, "red"),
    ]


COLUMNS = "id int, other string, n bigint, v string"


@pytest.mark.parametrize(
    ("row", "error", "says"),
    [
        ((1, None, 5, "x", "insert"), KeyUnsuitable, ["1 rows", "id, other", "id = 1, other = NULL"]),
        ((1, "o", None, "x", "insert"), TransformFailed, ["NULL in n", "id = 1, other = o, n = NULL"]),
        ((1, "o", None, None, "delete"), TransformFailed, ["no timestamp", "id = 1, other = o"]),
    ],
)
def test_d2_an_unsuitable_event_is_refused_before_anything_is_written(
    spark: SparkSession,
    tmp_path: Path,
    row: tuple[Any, ...],
    error: type[KeyUnsuitable | TransformFailed],
    says: list[str],
) -> None:
    history = History(spark, tmp_path, COLUMNS, key=("id", "other"), sequence_by="n")
    with pytest.raises(error) as caught:
        history._apply(history.rows([(2, "o", 1, "y", "insert", 1, START), (*row, 2, START)]))
    assert all(part in caught.value.message for part in says), caught.value.message
    assert caught.value.hint
    assert len(history.commits()) == 1
    assert not Path(history.location, FOLDER).exists()


def test_rows_have_what_the_output_names_and_nothing_that_it_adds(spark: SparkSession) -> None:
    def columns(ddl: str, **more: Any) -> list[str]:
        named = {"key": ("id",), "sequence_by": "n"} | more
        output = DeltaTable(TableRef(path="/x"), Mode.SCD2, **named)
        schema = spark.createDataFrame([], ddl).schema
        return [f"{field.name} {field.dataType.simpleString()}" for field in added_columns(schema, output)]

    three = ["valid_from bigint", "valid_to bigint", "is_current boolean"]
    assert columns("id int, n bigint") == three
    assert columns("id int, n bigint", surrogate_key="sk") == [*three, "sk string"]
    assert columns("id int, valid_from bigint", sequence_by="valid_from") == three[1:]
    for ddl, name in (("id int, n int, Is_Current int", "is_current"), ("id int, m int", "n")):
        with pytest.raises(TransformFailed, match=f"'{name}'"):
            columns(ddl)
