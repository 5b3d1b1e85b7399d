"""Windows over `(cursor, key)` hold every row exactly once, whatever ties, types and sizes there are."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import (
    Place,
    asked,
    batches,
    mysql_place,
    postgresql_place,
    predicate,
    sqlite_place,
)
from tidegauge.errors import CursorUnsuitable
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window, decode, encode
from tidegauge.model.spec import Engine, NullCursor
from tidegauge.sources.open import open_source

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-3, 3), st.sampled_from("aAbß ")),
    max_size=25,
    unique_by=lambda row: row[1:],
)


def walked(place: Place, name: str, columns: str, step: int, parallel: int, **options: Any) -> list[Any]:
    """Every row that the batches of a whole table give, in the order of the batches."""
    source_table, survey = place.survey(name, step=step, **options)
    rows: list[Any] = []
    for batch in batches(survey, None, parallel):
        found = place.read(source_table, batch, columns)
        assert len(found) == batch.rows
        rows += found
    return rows


@pytest.mark.shown_on("sqlite", "mysql", "postgresql")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, step=st.integers(1, 7), parallel=st.integers(1, 3))
def test_a1_ties_survive_any_batch_size(
    place: Place, rows: list[tuple[int, int, str]], step: int, parallel: int
) -> None:
    binary = {Engine.MYSQL: " COLLATE utf8mb4_bin", Engine.POSTGRESQL: ' COLLATE "C"'}.get(place.engine, "")
    place.run("DROP TABLE IF EXISTS t")
    place.run(f"CREATE TABLE t (at int, k int NOT NULL, s varchar(5){binary} NOT NULL, PRIMARY KEY (k, s))")
    if place.engine is Engine.MYSQL:
        # Trailing spaces do not count there, so ' ' and '' would be one key.
        rows = [(at, k, "_" if s == " " else s) for at, k, s in rows]
    if rows:
        place.run("INSERT INTO t VALUES " + ", ".join(f"({at}, {k}, '{s}')" for at, k, s in rows))
    found = walked(place, "t", "at, k, s", step, parallel, cursor="at", key=("k", "s"))
    assert sorted(found) == sorted(rows)


@pytest.mark.shown_on("sqlite", "mysql", "postgresql")
def test_a1_a_whole_table_with_one_timestamp_is_cut_between_its_rows(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    place.run("INSERT INTO t VALUES " + ", ".join(f"({i}, '2006-02-15 04:34:33')" for i in range(1000)))
    source_table, survey = place.survey("t", step=7)
    assert len(survey.cuts) == 143
    parts = batches(survey, None)
    found = [place.read(source_table, batch, "id") for batch in parts]
    assert [len(part) for part in found] == [7] * 142 + [6]
    assert sorted(row for part in found for row in part) == [(i,) for i in range(1000)]


def test_positions_survive_the_ledger(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01 00:00:00'), (2, '2025-01-01 00:00:00')")
    _, survey = place.survey("t", step=1)
    for cut in survey.cuts:
        assert decode(encode(cut.position)) == cut.position


def test_null_cursors_have_a_batch_of_their_own(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at date)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, NULL)")
    source_table, survey = place.survey("t", null_cursor=NullCursor.INCLUDE)
    assert survey.upto is not None
    nulls = Batch((Window(survey.upto, survey.upto),), nulls=True)
    assert [tuple(row) for row in place.read(source_table, nulls, "id")] == [(2,)]
    (rest,) = batches(survey, None)
    assert [tuple(row) for row in place.read(source_table, rest, "id")] == [(1,)]


PRECISIONS = [
    (Engine.MYSQL, "datetime(6)", ["00.000000", "00.000001", "00.999999", "01.000000"]),
    (Engine.MYSQL, "timestamp(6)", ["00.000000", "00.000001", "00.999999", "01.000000"]),
    (Engine.MYSQL, "datetime(3)", ["00.000", "00.001", "00.999", "01.000"]),
    (Engine.MYSQL, "datetime(1)", ["00.0", "00.1", "00.9", "01.0"]),
    (Engine.MYSQL, "datetime", ["00", "01", "02", "59"]),
    (Engine.POSTGRESQL, "timestamp", ["00.000000", "00.000001", "00.999999", "01.000000"]),
    (Engine.POSTGRESQL, "timestamptz", ["00.000000", "00.000001", "00.999999", "01.000000"]),
    (Engine.POSTGRESQL, "timestamp(3)", ["00.000", "00.001", "00.999", "01.000"]),
    (Engine.POSTGRESQL, "timestamp(0)", ["00", "01", "02", "59"]),
    (Engine.SQLITE, "text", ["00.000000", "00.000001", "00.999999", "01.000000"]),
]


@pytest.mark.parametrize(("engine", "kind", "seconds"), PRECISIONS)
def test_a13_the_last_digit_of_a_bound_counts(
    mariadb: MariaDB, postgres: Postgres, tmp_path: Path, engine: Engine, kind: str, seconds: list[str]
) -> None:
    place = {
        Engine.MYSQL: lambda: mysql_place(mariadb),
        Engine.POSTGRESQL: lambda: postgresql_place(postgres),
        Engine.SQLITE: lambda: sqlite_place(tmp_path),
    }[engine]()
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, at {kind} NOT NULL)")
    for i, second in enumerate(seconds):
        place.run(f"INSERT INTO t VALUES ({i}, '2025-01-01 00:00:{second}')")
    source_table, survey = place.survey("t", step=1)
    texts = [cut.position.cursor.text for cut in survey.cuts[:-1]]
    assert texts == [f"2025-01-01 00:00:{second}" for second in seconds[:-1]]
    # A bound that covers a whole value must split exactly after it, at the column's last digit.
    points = [None, *(RowPosition(cut.position.cursor) for cut in survey.cuts)]
    for i, (lower, upper) in enumerate(pairwise(points)):
        assert upper is not None
        where = predicate(place, source_table, lower, upper)
        assert [tuple(row) for row in place.run(f"SELECT id FROM t WHERE {where}")] == [(i,)]


def test_a18_unsigned_values_beyond_63_bits_page_like_others(mariadb: MariaDB) -> None:
    place = mysql_place(mariadb)
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    place.run("CREATE TABLE t (id bigint unsigned PRIMARY KEY, at bigint unsigned NOT NULL)")
    for value in values:
        place.run(f"INSERT INTO t VALUES ({value}, {value})")
    assert [row[0] for row in walked(place, "t", "id", 1, 2, cursor="at")] == values
    _, survey = place.survey("t", cursor="at")
    assert survey.upto == RowPosition(Value(ValueKind.INT, str(2**64 - 1)))


@pytest.mark.parametrize(
    "collation",
    ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_nopad_bin", "latin1_german2_ci"],
)
def test_a19_text_keys_follow_the_databases_collation(mariadb: MariaDB, collation: str) -> None:
    place = mysql_place(mariadb)
    charset = collation.split("_")[0]
    place.run(
        f"CREATE TABLE t (s varchar(9) CHARACTER SET {charset} COLLATE {collation} PRIMARY KEY,"
        " at date NOT NULL)"
    )
    for word in ("abc", "ABC", "abc  ", "ss", "ß", "Z", "a", "é", "e", "", "_", "'\"\\`"):
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        place.run(f"INSERT IGNORE INTO t VALUES ('{escaped}', '2025-01-01')")
    everything = [row[0] for row in place.run("SELECT s FROM t")]
    for step in (1, 2, 3):
        assert sorted(row[0] for row in walked(place, "t", "s", step, 1)) == sorted(everything)


def test_a19_keys_that_differ_only_by_case_are_one_key_to_the_database(mariadb: MariaDB) -> None:
    from tidegauge.errors import KeyUnsuitable

    place = mysql_place(mariadb)
    place.run("CREATE TABLE t (s varchar(9) COLLATE utf8mb4_general_ci NOT NULL, at date NOT NULL)")
    place.run("INSERT INTO t VALUES ('abc', '2025-01-01'), ('ABC  ', '2025-01-01')")
    with pytest.raises(KeyUnsuitable, match="2 rows"):
        place.survey("t", key=("s",))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("enum('z','m','a')", ["'z'", "'m'", "'a'"]),
        ("set('z','m')", ["'z'", "'m'", "'z,m'", "''"]),
        ("binary(3)", ["X'00ff00'", "X'ffffff'", "X'27275c'"]),
        ("varbinary(5)", ["X''", "X'00'", "X'0000'", "X'ff'"]),
        ("year", ["0", "1901", "1999", "2025"]),
        ("bit(9)", ["b'1'", "b'100000000'", "b'11'"]),
        ("decimal(20,5)", ["-1.5", "0.00001", "99999999999999.99999"]),
        ("time(3)", ["'-10:00:00'", "'09:00:00.001'", "'100:00:00'"]),
        ("date", ["'1000-01-01'", "'2025-01-01'"]),
        ("uuid", ["'ffffffff-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"]),
    ],
)
def test_a_mysql_key_of_any_type_pages(mariadb: MariaDB, kind: str, values: list[str]) -> None:
    place = mysql_place(mariadb)
    place.run(f"CREATE TABLE t (n int, k {kind}, at date NOT NULL, PRIMARY KEY (k))")
    for i, value in enumerate(values):
        place.run(f"INSERT INTO t VALUES ({i}, {value}, '2025-01-01')")
    for step in (1, 2):
        assert sorted(row[0] for row in walked(place, "t", "n", step, 1)) == list(range(len(values)))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["'a''b'", "E'back\\\\slash'", "'é😀'", "''", "'%s'"]),
        ("char(5)", ["'ab'", "'abc'", "'z'"]),
        ("uuid", ["'ffffffff-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"]),
        ("bytea", ["'\\x00ff'", "'\\x'", "'\\x5c27'"]),
        ("boolean", ["true", "false"]),
        ("inet", ["'10.0.0.1'", "'::1'", "'9.0.0.0/8'"]),
        ("numeric", ["1", "1.5", "-99999999999999999999999999999999999999999.5"]),
        ("interval", ["'1 day'", "'-2 hours'", "'1 year'"]),
        ("timestamptz", ["'2025-01-01 00:00:00.000001+00'", "'2025-01-01 00:00:00+00'"]),
        ("time", ["'00:00:00.000001'", "'24:00:00'"]),
        ("integer[]", ["'{1,2}'", "'{1}'", "'{}'"]),
        ("jsonb", ["'{\"a\": 1}'", "'[1]'"]),
        ("mood", ["'sad'", "'happy'", "'angry'"]),
    ],
)
def test_a_postgresql_key_of_any_type_pages(postgres: Postgres, kind: str, values: list[str]) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TYPE mood AS ENUM ('sad', 'happy', 'angry')")
    place.run(f"CREATE TABLE t (n int, k {kind}, at date NOT NULL, PRIMARY KEY (k))")
    for i, value in enumerate(values):
        place.run(f"INSERT INTO t VALUES ({i}, {value}, '2025-01-01')")
    types = {"k": "string"} if kind == "numeric" else {}
    for step in (1, 2):
        found = walked(place, "t", "n", step, 1, types=types)
        assert sorted(row[0] for row in found) == list(range(len(values)))


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        (["2025-01-01 00:00:00", "2025-01-01 00:00:01"], r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
        (["2025-01-01T00:00:00Z", "2025-01-01T00:00:01Z"], r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
        (["2025-01-01T00:00:00.000+00:00"], r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"),
        (["2025-01-01 00:00:00", "2025-01-01 00:00:00.5"], r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d"),
        (["2025-01-01 00:00", "2025-01-01 00:01"], r"\d{4}-\d\d-\d\d \d\d:\d\d"),
        (["2025-01-01", "2025-01-02"], r"\d{4}-\d\d-\d\d"),
    ],
)
def test_a_sqlite_bound_is_written_as_the_column_is(tmp_path: Path, values: list[str], bound: str) -> None:
    import re

    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)")
    for value in values:
        place.run(f"INSERT INTO t (at) VALUES ('{value}')")
    source_table, survey = place.survey("t", step=1)
    assert source_table.cursor_kind == "timestamp"
    assert survey.upto is not None
    assert re.fullmatch(bound, survey.upto.cursor.text)
    assert len(walked(place, "t", "id", 1, 1)) == len(values)


@pytest.mark.parametrize(
    "values",
    [
        ["2025-01-01 00:00:00", "2025-01-01T00:00:01"],
        ["2025-01-01T00:00:00Z", "2025-01-01T00:00:00.5Z"],
        ["2025-01-01 00:00:00+02:00"],
        ["2025-01-01 00:00:00", "yesterday"],
    ],
)
def test_sqlite_timestamps_in_mixed_notations_are_refused(tmp_path: Path, values: list[str]) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)")
    place.run("INSERT INTO t (at) VALUES ('2024-01-01 00:00:00')" if "yesterday" in values else "SELECT 1")
    for value in values:
        place.run(f"INSERT INTO t (at) VALUES ('{value}')")
    with pytest.raises(CursorUnsuitable):
        place.survey("t")


def test_a_sqlite_notation_that_changes_past_the_watermark_is_refused(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)")
    place.run("INSERT INTO t (at) VALUES ('2025-01-01T00:00:00')")
    after = RowPosition(Value(ValueKind.TEXT, "2024-12-31 00:00:00"))
    with pytest.raises(CursorUnsuitable, match="another notation"):
        place.survey("t", after=after)


def test_a_sqlite_column_with_numbers_and_text_has_no_order(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER)")
    place.run("INSERT INTO t (at) VALUES (1), ('abc')")
    with pytest.raises(CursorUnsuitable, match="other kinds"):
        place.survey("t", cursor="at")


def test_a_cursor_beyond_all_time_is_refused_and_named(postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL, n numeric NOT NULL)")
    place.run("INSERT INTO t VALUES (1, '-infinity', 'NaN'), (2, '2025-01-01', 1), (3, '0044-01-01 BC', 2)")
    with pytest.raises(CursorUnsuitable, match="-infinity"):
        place.survey("t", step=1, types={"n": "string"})
    with pytest.raises(CursorUnsuitable, match="NaN"):
        place.survey("t", cursor="n", types={"n": "string"})


def test_decimal_cursors_page_exactly(postgres: Postgres) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric(38,20) NOT NULL)")
    values = [
        Decimal("0.00000000000000000001"),
        Decimal("123456789012345678.00000000000000000001"),
        Decimal(0),
    ]
    for i, value in enumerate(values):
        place.run(f"INSERT INTO t VALUES ({i}, {value:f})")
    assert [row[0] for row in walked(place, "t", "v", 1, 1, cursor="v")] == sorted(values)


def test_a_source_can_be_asked_from_several_threads(place: Place) -> None:
    from concurrent.futures import ThreadPoolExecutor

    place.run("CREATE TABLE t (id int PRIMARY KEY, at date NOT NULL)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01')")
    source = open_source(place.database)

    def ask(_: int) -> int:
        source_table = source.describe(place.table("t"), asked())
        return len(source.survey(source_table, None, 1, None).cuts)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(12))) == [1] * 12
    source.close()
