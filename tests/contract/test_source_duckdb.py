"""DuckDB as a source: a file that others have open, and every type that it has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.support.source_parts import Place, asked, duckdb_place, predicate
from tidegauge.errors import ConfigError, SourceUnreachable, TypeNotHeld
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import Database, Engine, ReadMethod, TableName
from tidegauge.model.table import SourceTable
from tidegauge.outputs.warehouse.open import open_warehouse
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.duckdb import file
from tidegauge.sources.keys import read_keys
from tidegauge.sources.open import open_source
from tidegauge.sources.split_process import read_in_process

UPTO = RowPosition(Value(ValueKind.INT, "1000"))
ALL = Batch((Window(None, UPTO),))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return duckdb_place(tmp_path)


@contextmanager
def held_elsewhere(path: Path, *, read_only: bool = False, work: str = "pass") -> Iterator[None]:
    """Another process has the file open, for as long as the block lasts."""
    code = (
        f"import duckdb; c = duckdb.connect({str(path)!r}, read_only={read_only}); {work};"
        "print('open', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    try:
        yield
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        assert child.stdin is not None
        child.stdin.close()


def path_of(place: Place) -> Path:
    assert place.database.path is not None
    return place.database.path


def describe(place: Place, **options: Any) -> SourceTable:
    source = open_source(place.database)
    try:
        return source.describe(place.table("t"), asked(**{"cursor": "id", **options}))
    finally:
        source.close()


def read(place: Place, source_table: SourceTable, batch: Batch = ALL) -> list[dict[str, Any]]:
    splits = DirectReader(place.database).batch_data(source_table, batch).splits
    return [row for split in splits for part in split.batches() for row in part.to_pylist()]


def test_a_file_that_another_process_writes_to_is_said_to_be_held_and_how_to_share_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "PATIENCE", 0.0)
    with held_elsewhere(path_of(place)), pytest.raises(SourceUnreachable, match="lock") as caught:
        open_source(place.database)
    assert caught.value.retryable
    assert "read_only=True" in str(caught.value.hint)


def test_a_file_that_another_process_reads_is_read(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    with held_elsewhere(path_of(place), read_only=True):
        assert open_source(place.database).tables() == (place.table("t"),)


def test_between_two_questions_its_writer_can_have_the_file(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = open_source(place.database)
    source_table = source.describe(place.table("t"), asked("id"))
    with held_elsewhere(path_of(place), work="c.execute('INSERT INTO t VALUES (7)')"):
        pass  # it could open the file, and was killed after its commit
    survey = source.survey(source_table, None, 10, None)
    # What it left in the log of the file counts.
    assert [(cut.position.cursor.text, cut.rows) for cut in survey.cuts] == [("7", 1)]
    assert [row["id"] for row in read(place, source_table)] == [7]


def test_a_connection_of_the_users_own_in_this_process_is_no_obstacle_and_is_said(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    own = duckdb.connect(str(path_of(place)))
    own.execute("BEGIN; INSERT INTO t VALUES (1)")
    _, survey = place.survey("t", cursor="id", settle=timedelta(hours=1))
    assert survey.cuts == ()
    assert any("only `settle` guards" in note for note in survey.notes)
    own.execute("COMMIT")
    own.close()
    _, survey = place.survey("t", cursor="id", settle=timedelta(hours=1))
    assert [cut.rows for cut in survey.cuts] == [1]
    assert survey.notes == ()


def test_a_file_that_this_process_writes_to_is_read_at_the_same_time(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    place.run("INSERT INTO t SELECT range FROM range(10)")
    source_table = describe(place)
    stream = read_keys(place.database, source_table, rows=1)
    next(stream)
    # A reader of before is waited for; those that come later open the file as a writer does.
    house = open_warehouse(place.database)
    rest = sum(1 for _ in stream)
    session = house.connect()
    session.run("INSERT INTO t VALUES (100)")
    assert rest == 9
    assert len(read(place, source_table)) == 10
    session.commit()
    assert len(read(place, source_table)) == 11
    session.close()


def test_a_task_in_another_process_reads_the_file(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, s varchar)")
    place.run("INSERT INTO t SELECT range, 'x' FROM range(1, 4)")
    (split,) = DirectReader(place.database).batch_data(describe(place), ALL).splits
    assert pa.Table.from_batches(read_in_process(split)).num_rows == 3


def test_no_file_and_no_database_are_told_apart(tmp_path: Path) -> None:
    nowhere = Database("duck", Engine.DUCKDB, path=tmp_path / "none.duckdb")
    with pytest.raises(SourceUnreachable, match="there is no DuckDB file") as caught:
        open_source(nowhere)
    assert not caught.value.retryable
    assert not (tmp_path / "none.duckdb").exists()
    text = tmp_path / "text.duckdb"
    text.write_text("not a database\n" * 400)
    with pytest.raises(SourceUnreachable, match="not a valid DuckDB") as caught:
        open_source(replace(nowhere, path=text))
    assert not caught.value.retryable


def test_read_jdbc_is_refused(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(ConfigError, match="`read: jdbc` is not possible: DuckDB"):
        DirectReader(place.database).batch_data(describe(place, read=ReadMethod.JDBC), ALL)


def test_tables_of_other_schemas_have_their_schema_and_an_index_is_seen(place: Place) -> None:
    place.run('CREATE SCHEMA "my shop"')
    place.run('CREATE TABLE "my shop".t (id int PRIMARY KEY, "upd at" timestamp NOT NULL)')
    source = open_source(place.database)
    assert source.tables() == (TableName("my shop", "t"),)
    found = source.describe(TableName("my shop", "t"), asked("upd at"))
    assert found.unindexed == "upd at"
    place.run('CREATE INDEX by_time ON "my shop".t ("upd at")')
    assert source.describe(TableName("my shop", "t"), asked("upd at")).unindexed == ""


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("timestamp", ["00", "00.000001", "00.999999", "01"]),
        ("timestamptz", ["00", "00.000001", "00.999999", "01"]),
        ("timestamp_ms", ["00", "00.001", "00.999", "01"]),
        ("timestamp_s", ["00", "01", "02", "59"]),
        ("timestamp_ns", ["00", "00.000000001", "00.999999999", "01"]),
    ],
)
def test_a13_the_last_digit_of_a_bound_counts(place: Place, kind: str, seconds: list[str]) -> None:
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL)")
    values = ", ".join(f"({number}, '2025-01-01 00:00:{second}')" for number, second in enumerate(seconds))
    place.run(f"INSERT INTO t VALUES {values}")
    source_table, survey = place.survey("t", step=1)
    points = [None, *(RowPosition(cut.position.cursor) for cut in survey.cuts)]
    assert len(points) == 5
    for number, (lower, upper) in enumerate(pairwise(points)):
        assert upper is not None
        where = predicate(place, source_table, lower, upper)
        assert place.run(f"SELECT id FROM t WHERE {where}") == [(number,)]


VALUES: dict[str, tuple[str, str, Any]] = {
    "boolean": ("true", "boolean", True),
    "tinyint": ("-128", "tinyint", -128),
    "utinyint": ("255", "smallint", 255),
    "usmallint": ("65535", "int", 65535),
    "integer": ("-2147483648", "int", -(2**31)),
    "uinteger": ("4294967295", "bigint", 2**32 - 1),
    "bigint": ("9223372036854775807", "bigint", 2**63 - 1),
    "ubigint": ("18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    "hugeint": ("-99999999999999999999999999999999999999", "decimal(38,0)", Decimal(1 - 10**38)),
    "uhugeint": ("99999999999999999999999999999999999999", "decimal(38,0)", Decimal(10**38 - 1)),
    "float": ("0.1", "float", 0.10000000149011612),
    "double": ("0.1", "double", 0.1),
    "decimal(38,10)": (
        "1234567890123456789012345678.0123456789",
        "decimal(38,10)",
        Decimal("1234567890123456789012345678.0123456789"),
    ),
    "varchar": ("'é''\\'", "string", "é'\\"),
    "json": ("""'{"a": 1}'""", "string", '{"a": 1}'),
    "blob": ("'\\x00\\xFF'::blob", "binary", b"\x00\xff"),
    "date": ("'0001-01-01'", "date", date(1, 1, 1)),
    "timestamp": (
        "'9999-12-31 23:59:59.999999'",
        "timestamp_ntz",
        datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    "timestamp_s": ("'1969-12-31 23:59:59'", "timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59)),
    "timestamp_ms": ("'2025-01-01 00:00:00.001'", "timestamp_ntz", datetime(2025, 1, 1, 0, 0, 0, 1000)),
    "timestamp_ns": ("'2025-01-01 00:00:00.000001'", "timestamp_ntz", datetime(2025, 1, 1, 0, 0, 0, 1)),
    "timestamptz": ("'2025-03-30 02:30:00+02'", "timestamp", datetime(2025, 3, 30, 0, 30, tzinfo=UTC)),
    "time": ("'12:34:56.123456'", "string", "12:34:56.123456"),
    "timetz": ("'12:34:56+02'", "string", "12:34:56+02"),
    "interval": ("INTERVAL 3 MONTH", "string", "3 months"),
    "uuid": ("'00000000-0000-0000-0000-00000000002a'", "string", "00000000-0000-0000-0000-00000000002a"),
    "bit": ("'101'", "string", "101"),
    "enum('x', 'y')": ("'y'", "string", "y"),
    "integer[]": ("[1, NULL]", "string", "[1, NULL]"),
    "integer[2]": ("[1, 2]", "string", "[1, 2]"),
    "struct(a integer)": ("{'a': 1}", "string", "{'a': 1}"),
    "map(varchar, integer)": ("MAP {'k': 1}", "string", "{k=1}"),
    "union(n integer, s varchar)": ("1", "string", "1"),
}


def test_every_type_arrives_exactly(place: Place) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    place.run(f"INSERT INTO t VALUES (1, {', '.join(text for text, _, _ in VALUES.values())})")
    place.run("INSERT INTO t (id) VALUES (2)")
    source_table = describe(place)
    assert {column.name: column.arrives for column in source_table.columns} == {
        "id": "int",
        **{f"c{number}": arrives for number, (_, arrives, _) in enumerate(VALUES.values())},
    }
    full, empty = sorted(read(place, source_table), key=lambda row: row["id"])
    assert full == {"id": 1, **{f"c{number}": value for number, (_, _, value) in enumerate(VALUES.values())}}
    assert {value for name, value in empty.items() if name != "id"} == {None}
    text = describe(place, types={f"c{number}": "string" for number in range(len(VALUES))})
    assert all(isinstance(value, str) for name, value in read(place, text)[0].items() if name != "id")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("hugeint", "170141183460469231731687303715884105727"),
        ("uhugeint", "340282366920938463463374607431768211455"),
        ("date", "'infinity'"),
        ("date", "'10000-01-01'"),
        ("timestamp", "'-infinity'"),
        ("timestamp", "'0044-03-15 (BC)'"),
        ("timestamptz", "'infinity'"),
        ("timestamp_ns", "'2025-01-01 00:00:00.000000001'"),
    ],
)
def test_a_value_that_cannot_be_held_stops_the_batch_with_its_row(
    place: Place, kind: str, value: str
) -> None:
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    place.run(f"INSERT INTO t VALUES (1, NULL), (42, {value})")
    with pytest.raises(TypeNotHeld, match=r"column v.*key 42"):
        read(place, describe(place))
    assert read(place, describe(place, types={"v": "string"}))[1]["v"]
