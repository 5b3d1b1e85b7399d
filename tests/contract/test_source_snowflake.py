"""Snowflake as a source, by its own connector against a stand-in that speaks its protocol (fakesnow).

What the stand-in cannot show is listed in docs/warehouses.md.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support.snowflake_server import SnowflakeServer
from tests.support.source_parts import Place, asked, batches, predicate, snowflake_place
from tidegauge.errors import (
    ColumnMissing,
    ConfigError,
    CursorUnsuitable,
    KeyUnsuitable,
    SourceUnreachable,
    TableMissing,
    TypeNotHeld,
)
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value, ValueKind, Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import NullCursor, ReadMethod, TableName
from tidegauge.model.table import SourceTable
from tidegauge.sources.direct import DirectReader
from tidegauge.sources.keys import read_keys
from tidegauge.sources.open import open_source
from tidegauge.sources.snowflake.dialect import offsets_of
from tidegauge.sources.snowflake.engine import literal
from tidegauge.sources.snowflake.types import RULES
from tidegauge.sources.types import CatalogueColumn, arrive
from tidegauge.spark import on_demand
from tidegauge.spark.task_values import pickle_with_secrets, unpickle_with_secrets


@pytest.fixture
def place(snowflake: SnowflakeServer) -> Place:
    return snowflake_place(snowflake)


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    source = open_source(place.database)
    try:
        yield source
    finally:
        source.close()


def describe(place: Place, name: str = "T", **options: Any) -> SourceTable:
    with opened(place) as source:
        found: SourceTable = source.describe(place.table(name), asked(**{"cursor": "TS", **options}))
        return found


def read(place: Place, source_table: SourceTable, batch: Batch) -> list[dict[str, Any]]:
    splits = DirectReader(place.database).batch_data(source_table, batch).splits
    # As it goes to Spark's tasks.
    found = [
        pa.Table.from_batches(unpickle_with_secrets(pickle_with_secrets(split)).batches())
        for split in splits
        if split
    ]
    return [row for table in found for row in table.to_pylist()]


def everything(place: Place, source_table: SourceTable) -> list[dict[str, Any]]:
    last = RowPosition(Value(ValueKind.TIMESTAMP, "9999-01-01 00:00:00"))
    return read(place, source_table, Batch((Window(None, last),)))


def test_tables_are_listed_as_the_catalogue_names_them(place: Place) -> None:
    place.run("CREATE TABLE zebra (id int)")
    place.run('CREATE TABLE "Apple pie" (id int)')
    place.run("CREATE VIEW middle AS SELECT * FROM zebra")
    mine = place.database.schema
    with opened(place) as source:
        assert [t.table for t in source.tables() if t.schema == mine] == ["Apple pie", "ZEBRA"]
        assert [(t.table, kind) for t, kind in source.left_out() if t.schema == mine] == [("MIDDLE", "view")]


def test_a_name_in_the_wrong_case_is_missing_and_the_right_one_is_named(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    with pytest.raises(TableMissing) as no_table:
        describe(place, "t")
    assert "T" in str(no_table.value.hint)
    with pytest.raises(ColumnMissing) as no_column:
        describe(place, cursor="ts")
    assert no_column.value.hint == "did you mean TS?"


def test_a_declared_key_is_taken_and_proves_nothing(place: Place) -> None:
    place.run("CREATE TABLE t (a int NOT NULL, b int NOT NULL, ts timestamp_ntz, PRIMARY KEY (b, a))")
    source_table = describe(place)
    assert [part.name for part in source_table.key] == ["B", "A"]
    assert not source_table.key_proven
    assert source_table.notes == ()  # there is no index to miss


def test_a_key_that_repeats_is_refused_since_nothing_enforces_it(place: Place) -> None:
    place.run("CREATE TABLE t (a int, ts timestamp_ntz)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, '2025-01-01'), (2, '2025-01-02')")
    with pytest.raises(KeyUnsuitable, match=r"2 rows have \(2\)"):
        place.survey("T", cursor="TS", key=("A",))


def test_the_bound_is_the_servers_clock_less_settle_and_its_blindness_is_said(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    place.run("INSERT INTO t VALUES (1, SYSDATE()), (2, '2037-01-01')")
    _, survey = place.survey("T", cursor="TS", settle=timedelta(hours=1))
    assert survey.cuts == ()
    assert survey.rows_waiting == 1
    assert any("only `settle` guards" in note for note in survey.notes)
    with opened(place) as source:
        outlook = source.outlook()
    assert abs(outlook.clock - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=5)
    assert survey.upto is not None
    assert datetime.fromisoformat(survey.upto.cursor.text) < outlook.clock - timedelta(minutes=59)


def test_a15_the_accounts_zone_keeps_columns_without_one_waiting() -> None:
    lowest, highest, name = offsets_of("America/Los_Angeles")
    assert (lowest, highest, name) == (timedelta(hours=-8), timedelta(0), "America/Los_Angeles")
    assert offsets_of("Asia/Kolkata")[1] == timedelta(hours=5, minutes=30)
    for unknown in (None, "", "Nowhere/At_All"):
        assert offsets_of(unknown) == (timedelta(0), timedelta(0), "")


def test_a15_a_zone_that_cannot_be_seen_is_said(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    _, survey = place.survey("T", cursor="TS")
    assert any("TIMEZONE cannot be seen" in note for note in survey.notes)


def test_a10_null_cursors_fail_or_are_counted_as_the_user_says(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, NULL)")
    with pytest.raises(CursorUnsuitable, match="1 rows have no cursor"):
        place.survey("T", cursor="TS")
    source_table, survey = place.survey("T", cursor="TS", null_cursor=NullCursor.INCLUDE)
    assert survey.rows_null == 1
    assert [row["ID"] for row in read(place, source_table, Batch((Window(None, None),), nulls=True))] == [2]


@pytest.mark.parametrize("kind", ["timestamp_ntz", "timestamp_ltz", "timestamp_tz"])
def test_a13_the_last_digit_of_a_bound_counts(place: Place, kind: str) -> None:
    # The stand-in keeps microseconds; the text of a bound has all nine digits.
    place.run(f"CREATE TABLE t (id int PRIMARY KEY, ts {kind} NOT NULL)")
    seconds = ["00.000000", "00.000001", "00.999999", "01.000000"]
    for number, second in enumerate(seconds):
        place.run(f"INSERT INTO t VALUES ({number}, '2025-01-01 00:00:{second}')")
    source_table, survey = place.survey("T", cursor="TS", step=1)
    points = [None, *(RowPosition(cut.position.cursor) for cut in survey.cuts)]
    for number, (lower, upper) in enumerate(pairwise(points)):
        assert upper is not None
        where = predicate(place, source_table, lower, upper)
        assert place.run(f"SELECT id FROM t WHERE {where}") == [(number,)]
    assert source_table.cursor.scale == 9
    assert "FF9" in source_table.cursor.text


def test_a13_a_bound_of_nine_digits_is_written_with_all_of_them() -> None:
    text = "2025-01-01 00:00:00.123456789"
    assert literal(Value(ValueKind.TIMESTAMP, text)) == f"CAST('{text}' AS TIMESTAMP_NTZ)"
    assert literal(Value(ValueKind.TIMESTAMPTZ, text)) == f"CAST('{text} +00:00' AS TIMESTAMP_TZ)"


def test_a1_ties_are_cut_between_their_rows(place: Place) -> None:
    place.run("CREATE TABLE t (id int, s varchar, ts timestamp_ntz)")
    rows = ", ".join(f"({i // 3}, 's{i % 3}', '2006-02-15 04:34:33')" for i in range(60))
    place.run(f"INSERT INTO t VALUES {rows}")
    source_table, survey = place.survey("T", cursor="TS", key=("ID", "S"), step=7)
    found = [read(place, source_table, batch) for batch in batches(survey, None, 2)]
    assert [len(part) for part in found] == [14, 14, 14, 14, 4]
    assert {(row["ID"], row["S"]) for part in found for row in part} == {
        (Decimal(i // 3), f"s{i % 3}") for i in range(60)
    }


def test_a_value_cursor_waits_for_settle_since_others_cannot_be_seen(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)")
    place.run("INSERT INTO t VALUES (9), (10)")
    _, survey = place.survey("T", cursor="ID", settle=timedelta(hours=1))
    assert survey.upto is None
    assert survey.pending is not None
    _, survey = place.survey("T", cursor="ID")
    assert survey.upto is not None
    assert survey.upto.cursor == Value(ValueKind.INT, "10")


def test_an_expression_is_a_cursor_with_the_type_the_database_gives_it(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, a timestamp_ntz, b timestamp_ntz)")
    assert describe(place, cursor="coalesce(a, b)").cursor.kind is ValueKind.TIMESTAMP
    assert describe(place, cursor="id + 1").cursor.kind is ValueKind.INT
    with pytest.raises(ColumnMissing):
        describe(place, cursor="coalesce(nowhere, b)")
    with pytest.raises(CursorUnsuitable):
        describe(place, cursor="id +")


def test_keys_come_without_spark(place: Place) -> None:
    place.run("CREATE TABLE t (n number(20,0), d number(12,2), s varchar, day date, ts timestamp_ntz)")
    place.run("INSERT INTO t VALUES (1, -0.05, 'it''s \\\\ %s', '2025-02-03', '2025-01-01 00:00:00.000001')")
    source_table = describe(place, key=("N", "D", "S", "DAY", "TS"))
    (row,) = pa.Table.from_batches(read_keys(place.database, source_table)).to_pylist()
    assert list(row.values()) == [
        Decimal(1),
        Decimal("-0.05"),
        "it's \\ %s",
        date(2025, 2, 3),
        datetime(2025, 1, 1, 0, 0, 0, 1),
    ]
    assert list(read_keys(place.database, describe(place, key=("S",)), after=_last("2026-01-01"))) == []


def _last(day: str) -> RowPosition:
    return RowPosition(Value(ValueKind.TIMESTAMP, f"{day} 00:00:00"))


def test_every_type_arrives_exactly(place: Place) -> None:
    place.run(
        "CREATE TABLE t (id number(18,0) PRIMARY KEY, ts timestamp_ntz, n number(38,0), d number(38,12),"
        " small number(3,0), f float, s varchar(20), b binary, yes boolean, day date, t time,"
        " l timestamp_ltz, z timestamp_tz, v variant)"
    )
    place.run(
        "INSERT INTO t SELECT 1, '1969-12-31 23:59:59.999999', 9223372036854775807,"
        " '12345678901234567890123456.123456789012', -999, 0.1, 'é''\\\\', TO_BINARY('00ff5c', 'HEX'), TRUE,"
        " '0001-01-01', '12:34:56.123456', '2025-03-30 02:30:00.125', '2025-03-30 02:30:00+02:00',"
        " PARSE_JSON('{\"a\": [1, null]}')"
    )
    place.run("INSERT INTO t (id, ts) VALUES (2, '2261-12-31 23:59:59.999999')")
    source_table = describe(place)
    found, empty = sorted(everything(place, source_table), key=lambda row: row["ID"])
    assert found == {
        "ID": Decimal(1),
        "TS": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "N": Decimal(9223372036854775807),
        "D": Decimal("12345678901234567890123456.123456789012"),
        "SMALL": Decimal(-999),
        "F": 0.1,
        "S": "é'\\",
        "B": b"\x00\xff\\",
        "YES": True,
        "DAY": date(1, 1, 1),
        "T": "12:34:56.123456",
        "L": datetime(2025, 3, 30, 2, 30, 0, 125000, UTC),
        "Z": datetime(2025, 3, 30, 0, 30, tzinfo=UTC),
        "V": '{"a":[1,null]}',
    }
    assert {name: value for name, value in empty.items() if value is not None} == {
        "ID": Decimal(2),
        "TS": datetime(2261, 12, 31, 23, 59, 59, 999999),
    }
    arrives = {column.name: column.arrives for column in source_table.columns}
    assert arrives["N"] == "decimal(38,0)"
    assert arrives["SMALL"] == "decimal(3,0)"
    assert (arrives["L"], arrives["Z"], arrives["TS"]) == ("timestamp", "timestamp", "timestamp_ntz")


def test_a_type_that_is_not_known_is_refused_with_the_line_to_write() -> None:
    # The stand-in has no geometry.
    native = CatalogueColumn("G", "geography", "GEOGRAPHY")
    with pytest.raises(TypeNotHeld, match="GEOGRAPHY") as caught:
        arrive(RULES, TableName("S", "T"), native, '"G"', override=None, zero_dates="fail")
    assert "types: {G: string}" in str(caught.value.hint)


def test_read_jdbc_is_refused(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    source_table = describe(place, read=ReadMethod.JDBC)
    with pytest.raises(ConfigError, match="`read: jdbc` is not possible: Snowflake"):
        DirectReader(place.database).batch_data(source_table, Batch((Window(None, _last("2026-01-01")),)))


def test_many_rows_are_one_result_whose_parts_go_to_tasks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, ts timestamp_ntz)")
    place.run("INSERT INTO t VALUES (1, '2025-01-01'), (2, '2025-01-02')")
    monkeypatch.setattr(on_demand, "FEW", 1)
    source_table = describe(place)
    batch = Batch((Window(None, _last("2026-01-01")),), rows=2)
    splits = DirectReader(place.database).batch_data(source_table, batch).splits
    # What waits at the server is fetched without the table, and without a login.
    place.run("DROP TABLE t")
    body = pickle.dumps(splits)
    assert b"snow secret" not in body
    found = [row for split in pickle.loads(body) for part in split.batches() for row in part.to_pylist()]
    assert [int(row["ID"]) for row in found] == [1, 2]
    assert "pieces" not in repr(splits)


def test_e3_no_secret_stands_in_an_error(place: Place) -> None:
    wrong = replace(
        place.database, password=Secret("hunter2 secret"), options={**place.database.options, "port": "1"}
    )
    wrong = replace(wrong, options={**wrong.options, "connect_timeout": "1"})
    with pytest.raises(SourceUnreachable) as caught:
        open_source(wrong)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert "account" in str(caught.value.hint)
