"""Values that cannot be held exactly stop the batch; nothing is changed in silence."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import Place, mysql_place, postgresql_place, sqlite_place
from tests.support.types_parts import arrived
from tidegauge.errors import TypeNotHeld
from tidegauge.spark.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refused(session: SparkSession, place: Place, table: str, folder: Path, **options: Any) -> str:
    """What the engine makes of the job's failure."""
    with pytest.raises(Exception) as caught:
        arrived(session, place, table, folder, cursor="id", **options)
    error = from_spark(caught.value, table)
    assert isinstance(error, TypeNotHeld)
    return error.message


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'0000-00-00'"),
        ("date", "'2025-00-15'"),
        ("date", "'2025-01-00'"),
        ("datetime(6)", "'0000-00-00 00:00:00'"),
        ("datetime", "'2025-00-15 10:00:00'"),
        ("timestamp", "'0000-00-00 00:00:00'"),
    ],
)
def test_a17_a_zero_date_stops_the_batch_or_is_null_as_the_user_says(
    spark: SparkSession,
    mariadb: MariaDB,
    tmp_path: Path,
    kind: str,
    value: str,
) -> None:
    place = mysql_place(mariadb)
    connection = place.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, `day %s` {kind})".replace("%", "%%"), ())
        cursor.execute(f"INSERT INTO t VALUES (1, '2025-01-15'), (7, {value})")
    said = refused(spark, place, "t", tmp_path / "fail")
    assert "day %s" in said
    assert "7" in said
    rows = arrived(spark, place, "t", tmp_path / "null", cursor="id", zero_dates="null").to_pylist()
    assert {row["id"]: row["day %s"] is None for row in rows} == {1: False, 7: True}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric(10,2)", "'NaN'"),
        ("date", "'infinity'"),
        ("date", "'0044-03-15 BC'"),
        ("date", "'12025-01-01'"),
        ("timestamp", "'-infinity'"),
        ("timestamp", "'0044-03-15 00:00:00 BC'"),
        ("timestamptz", "'infinity'"),
        ("timestamptz", "'294276-12-31 00:00:00+00'"),
    ],
)
def test_what_spark_has_no_value_for_stops_the_batch(
    spark: SparkSession,
    postgres: Postgres,
    tmp_path: Path,
    kind: str,
    value: str,
) -> None:
    place = postgresql_place(postgres)
    place.run(f'CREATE TABLE t (id text PRIMARY KEY, "v ""x""" {kind})')
    place.run(f"INSERT INTO t VALUES ('k''1', {value})")
    said = refused(spark, place, "t", tmp_path)
    assert 'v "x"' in said
    assert "k'1" in said


@pytest.mark.parametrize("value", ["1.234", "12345678901", "'NaN'", "'infinity'"])
def test_an_override_never_rounds(
    spark: SparkSession,
    postgres: Postgres,
    tmp_path: Path,
    value: str,
) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)")
    place.run(f"INSERT INTO t VALUES (1, {value})")
    assert "column v" in refused(spark, place, "t", tmp_path, types={"v": "decimal(10,2)"})


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("INTEGER", "'abc'"),
        ("INTEGER", "1.5"),
        ("TEXT", "X'00'"),
        ("REAL", "'abc'"),
        ("BLOB", "'abc'"),
        ("DATETIME", "X'00'"),
    ],
)
def test_a_sqlite_value_of_another_kind_than_declared_stops_the_batch(
    spark: SparkSession,
    tmp_path: Path,
    declared: str,
    value: str,
) -> None:
    place = sqlite_place(tmp_path)
    place.run(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")
    place.run(f"INSERT INTO t VALUES (1, NULL), (2, {value})")
    assert "column v" in refused(spark, place, "t", tmp_path / "out")


def test_sqlite_columns_arrive_by_their_declared_type(
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    place = sqlite_place(tmp_path)
    place.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i BIGINT, r REAL, s TEXT, b BLOB, d DATE, m DECIMAL(10,2),"
        " w DATETIME, x DATETIME, y NUMERIC, z)"
    )
    place.run(
        "INSERT INTO t VALUES (9223372036854775807, -9223372036854775808, 0.1, 'a' || char(0) || '😀',"
        " X'00ff', '2025-02-28', 12.34, '2025-01-01T10:00:00.123456Z', '2025-01-01 10:00:00', 0.1 + 0.2,"
        " X'0f')"
    )
    types = {"d": "date", "m": "decimal(10,2)", "w": "timestamp", "x": "timestamp_ntz", "z": "string"}
    table = arrived(spark, place, "t", tmp_path / "out", cursor="id", types=types)
    (row,) = table.to_pylist()
    assert row.pop("w").isoformat() == "2025-01-01T10:00:00.123456+00:00"
    assert row == {
        "id": 2**63 - 1,
        "i": -(2**63),
        "r": 0.1,
        "s": "a\0😀",
        "b": b"\0\xff",
        "d": date(2025, 2, 28),
        "m": Decimal("12.34"),
        "x": datetime(2025, 1, 1, 10),
        "y": "0.30000000000000004",
        "z": "0f",
    }


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "'abc'"),
        ("decimal(4,2)", "123"),
        ("date", "'2025-02-30'"),
        ("date", "'2025-02-28 10:00:00'"),
        ("timestamp", "'2025-01-01 10:00:00+02:00'"),
        ("timestamp", "'2025-01-01 10:00:00.1234567'"),
        ("timestamp_ntz", "'soon'"),
    ],
)
def test_text_that_is_not_what_types_says_stops_the_batch(
    spark: SparkSession,
    tmp_path: Path,
    override: str,
    value: str,
) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v NUMERIC)")
    place.run(f"INSERT INTO t VALUES (1, {value})")
    assert "column v" in refused(spark, place, "t", tmp_path / "out", types={"v": override})
