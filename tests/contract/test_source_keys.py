"""Every key of a table as Arrow, exactly as the table holds it; and windows cut on request."""

from __future__ import annotations

import time
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import Place, asked, mysql_place, postgresql_place, sqlite_place
from tidegauge.errors import KeyUnsuitable, SourceError, TableMissing, TypeNotHeld
from tidegauge.model.arrow import schema_of
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.spec import Engine
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.keys import key_layout, read_keys
from tidegauge.sources.open import open_source


def describe(place: Place, **options: Any) -> SourceTable:
    source = open_source(place.database)
    try:
        return source.describe(place.table("t"), asked(**options))
    finally:
        source.close()


def keys_of(place: Place, *, after: RowPosition | None = None, rows: int = 2, **options: Any) -> pa.Table:
    source_table = describe(place, **options)
    schema = schema_of(key_layout(source_table))
    found = list(read_keys(place.database, source_table, after=after, rows=rows))
    assert all(0 < batch.num_rows <= rows for batch in found)
    return pa.Table.from_batches(found, schema)


def test_all_keys_are_there_in_the_keys_own_order_of_columns(place: Place) -> None:
    place.run("CREATE TABLE t (at date, a int NOT NULL, b varchar(9) NOT NULL, PRIMARY KEY (b, a))")
    rows = [(number, f"it's {number}") for number in range(7)]
    for a, b in rows:
        place.run(f"INSERT INTO t VALUES (NULL, {a}, '{b.replace(chr(39), chr(39) * 2)}')")
    found = keys_of(place)
    assert found.column_names == ["b", "a"]
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == sorted((b, a) for a, b in rows)


def test_an_empty_table_has_no_keys(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    assert keys_of(place).num_rows == 0


def test_keys_past_a_position_are_those_that_nobody_has_promised_yet(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)")
    for number in range(6):
        place.run(f"INSERT INTO t VALUES ({number}, {number // 2})")
    after = RowPosition(Value(ValueKind.INT, "1"), (Value(ValueKind.INT, "2"),))
    assert sorted(keys_of(place, after=after, cursor="n")["id"].to_pylist()) == [3, 4, 5]


def test_a_key_with_null_is_refused(place: Place) -> None:
    place.run("CREATE TABLE t (id int, at date)")
    place.run("INSERT INTO t VALUES (NULL, NULL), (1, NULL), (NULL, NULL)")
    with pytest.raises(KeyUnsuitable, match="id is NULL"):
        keys_of(place, key=("id",))


def test_a_table_that_went_away_is_named(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    source_table = describe(place)
    place.run("DROP TABLE t")
    with pytest.raises(SourceError) as caught:
        list(read_keys(place.database, source_table))
    assert place.engine is Engine.SQLITE or isinstance(caught.value, TableMissing)


def test_whoever_stops_half_way_does_not_wait_for_the_rest(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run(f"INSERT INTO t (id) {_numbers(place, 300_000)}")
    source_table = describe(place)
    stream = read_keys(place.database, source_table, rows=10)
    next(stream)
    began = time.monotonic()
    stream.close()  # type: ignore[attr-defined]
    closed = time.monotonic()
    assert sum(batch.num_rows for batch in read_keys(place.database, source_table)) == 300_000
    assert closed - began < max(0.5, time.monotonic() - closed)


def test_every_kind_of_key_of_mysql(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    place.run(
        "CREATE TABLE t (n bigint unsigned, d decimal(12,2), day date, at datetime(6), ts timestamp(3) NULL,"
        " s varchar(20) CHARACTER SET latin1, b varbinary(9), e enum('x','y'), y year)"
    )
    place.run(
        "INSERT INTO t VALUES (18446744073709551615, -0.05, '0001-01-01', '9999-12-31 23:59:59.999999',"
        " '2025-03-30 02:30:00.125', 'é \\' %s', X'00ff5c', 'y', 1999)"
    )
    names = ("n", "d", "day", "at", "ts", "s", "b", "e", "y")
    [row] = keys_of(place, key=names).to_pylist()
    assert tuple(row.values()) == (
        Decimal(18446744073709551615),
        Decimal("-0.05"),
        date(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime.fromisoformat("2025-03-30T02:30:00.125+00:00"),
        "é ' %s",
        b"\x00\xff\\",
        "y",
        1999,
    )


def test_every_kind_of_key_of_postgresql(postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    place.run(
        "CREATE TABLE t (n int8, d numeric(12,2), day date, at timestamp, ts timestamptz, s text, b bytea,"
        " u uuid, c char(4), o oid)"
    )
    place.run(
        "INSERT INTO t VALUES (-9223372036854775808, -0.05, '0001-01-01', '9999-12-31 23:59:59.999999',"
        " '2025-03-30 02:30:00.125+02', 'é '' %s', '\\x00ff5c',"
        " '00000000-0000-0000-0000-000000000001', 'ab', 7)"
    )
    names = ("n", "d", "day", "at", "ts", "s", "b", "u", "c", "o")
    [row] = keys_of(place, key=names, cursor="n").to_pylist()
    assert tuple(row.values()) == (
        -9223372036854775808,
        Decimal("-0.05"),
        date(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime.fromisoformat("2025-03-30T00:30:00.125+00:00"),
        "é ' %s",
        b"\x00\xff\\",
        "00000000-0000-0000-0000-000000000001",
        "ab  ",
        7,
    )


def test_every_kind_of_key_of_sqlite(tmp_path: Any) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (n integer, s text, b blob, at datetime, day datetime, d text, x datetime)")
    place.run(
        "INSERT INTO t VALUES (9223372036854775807, 'é', X'00ff', '2025-03-30T02:30:00.5Z', '2025-01-02',"
        " '10.50', '2025-01-02 03:04')"
    )
    types = {"at": "timestamp", "day": "date", "d": "decimal(6,2)", "x": "timestamp_ntz"}
    names = ("n", "s", "b", "at", "day", "d", "x")
    [row] = keys_of(place, key=names, cursor="n", types=types).to_pylist()
    assert tuple(row.values()) == (
        9223372036854775807,
        "é",
        b"\x00\xff",
        datetime.fromisoformat("2025-03-30T02:30:00.5+00:00"),
        date(2025, 1, 2),
        Decimal("10.50"),
        datetime(2025, 1, 2, 3, 4),
    )


def test_a17_a_key_that_cannot_be_held_is_named(mariadb: MariaDB, tmp_path: Any) -> None:
    place = mysql_place(mariadb)
    place.run("CREATE TABLE t (day date PRIMARY KEY, n int)")
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute("INSERT INTO t VALUES ('0000-00-00', 1)")
        connection.commit()
    with pytest.raises(TypeNotHeld, match="day"):
        keys_of(place, cursor="n")
    local = sqlite_place(tmp_path)
    local.run("CREATE TABLE t (at datetime PRIMARY KEY, n integer)")
    local.run("INSERT INTO t VALUES ('2025-13-01', 1)")
    with pytest.raises(TypeNotHeld, match="at"):
        keys_of(local, cursor="n", types={"at": "timestamp"})


@pytest.mark.parametrize(
    ("override", "good", "bad"),
    [
        ("decimal(9,2)", "'+01.500'", "'1e5'"),
        ("date", "'2025-02-28'", "'2025-02-28Z'"),
        ("date", "'2025-02-28'", "'2025-02-28' || char(10)"),
        ("timestamp", "'2025-02-28T10:00Z'", "'2025-02-28 10:00:00+02:00'"),
        ("timestamp_ntz", "'2025-02-28'", "'soon'"),
    ],
)
def test_a_text_is_a_key_where_it_is_a_value_of_a_row(
    tmp_path: Path, override: str, good: str, bad: str
) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, n INTEGER)")
    place.run(f"INSERT INTO t VALUES ({good}, 1)")
    options: dict[str, Any] = {"cursor": "n", "types": {"id": override}}
    data = DirectReader(place.database).batch_data(
        describe(place, **options), Batch((Window(None, RowPosition(Value(ValueKind.INT, "9"))),))
    )

    def rows() -> list[Any]:
        return [row for split in data.splits for batch in split.batches() for row in batch["id"].to_pylist()]

    assert keys_of(place, **options)["id"].to_pylist() == rows()
    place.run(f"UPDATE t SET id = {bad}")
    with pytest.raises(TypeNotHeld):
        rows()
    with pytest.raises(TypeNotHeld):
        keys_of(place, **options)


def test_a_window_is_cut_without_looking_for_a_bound(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)")
    for number in range(10):
        place.run(f"INSERT INTO t VALUES ({number}, {number // 3})")
    source_table, upto = describe(place, cursor="n"), RowPosition(Value(ValueKind.INT, "2"))
    after = RowPosition(Value(ValueKind.INT, "0"), (Value(ValueKind.INT, "1"),))
    source = open_source(place.database)
    try:
        cuts = source.cuts(source_table, after, upto, 3)
        assert [cut.rows for cut in cuts] == [3, 3, 1]
        assert cuts[-1].position == upto
        assert [cut.position.key[0].text for cut in cuts[:-1]] == ["4", "7"]
        assert source.cuts(source_table, upto, after, 3) == ()
    finally:
        source.close()


def _numbers(place: Place, count: int) -> str:
    if place.engine is Engine.POSTGRESQL:
        return f"SELECT * FROM generate_series(1, {count})"
    if place.engine is Engine.MYSQL:
        return f"SELECT seq FROM seq_1_to_{count}"
    return (
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"
    )


@pytest.mark.shown_on("names0", "names2")
@pytest.mark.parametrize("names", [("n", "total"), ("total", "n"), ("o1", "o0"), ("o0", "n"), ("w", "r")])
@pytest.mark.parametrize("indexed", [False, True])
def test_e1_columns_may_be_called_as_ours_are(place: Place, names: tuple[str, str], indexed: bool) -> None:
    cursor, key = names
    place.run(f"CREATE TABLE t ({key} int PRIMARY KEY, {cursor} int NOT NULL)")
    if indexed:
        place.run(f"CREATE INDEX along ON t ({cursor})")
    for number in range(9, -1, -1):
        place.run(f"INSERT INTO t ({key}, {cursor}) VALUES ({number}, {number // 4})")
    survey = place.survey("t", cursor=cursor, step=3)[1]
    assert [cut.rows for cut in survey.cuts] == [3, 3, 3, 1]
    assert [cut.position.key[0].text for cut in survey.cuts[:-1]] == ["2", "5", "8"]
    assert survey.upto == RowPosition(Value(ValueKind.INT, "2"))
    place.run("DROP TABLE t")
    place.run(f"CREATE TABLE t ({key} int, {cursor} int NOT NULL)")
    place.run(f"INSERT INTO t ({key}, {cursor}) VALUES (1, 5), (1, 6), (2, 6)")
    with pytest.raises(KeyUnsuitable, match=r"2 rows have \(1\)"):
        place.survey("t", cursor=cursor, key=(key,))
