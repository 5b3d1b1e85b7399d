"""Every PostgreSQL column type at its limits."""

# ruff: noqa: E501 - a table of cases, one to a line

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.support.servers import Postgres
from tests.support.source_parts import Place, postgresql_place
from tests.support.types_parts import Case, arrived, column, make
from tidegauge.sources.postgresql import types as types_postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NTZ, TZ = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
LONG = "9" * 38


def text(native: str, *pairs: tuple[str, str] | str) -> Case:
    """A type that arrives as the database's own text: what was written, or what it becomes."""
    both = [pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs]
    written = tuple("'" + one.replace("'", "''") + "'" for one, _ in both)
    return Case(native, written, pa.string(), tuple(other for _, other in both))


CASES = [
    Case("boolean", ("true", "false"), pa.bool_(), (True, False)),
    Case("smallint", ("-32768", "32767"), pa.int16(), (-32768, 32767)),
    Case("integer", ("-2147483648", "2147483647"), pa.int32(), (-(2**31), 2**31 - 1)),
    Case("bigint", ("-9223372036854775808", "9223372036854775807"), pa.int64(), (-(2**63), 2**63 - 1)),
    Case("oid", ("4294967295",), pa.int64(), (2**32 - 1,)),
    Case("real", ("'3.4028235e38'", "'1e-45'", "'0.1'", "'infinity'"), pa.float32(), tuple(float(np.float32(x)) for x in (3.4028235e38, 1e-45, 0.1, math.inf))),
    Case("double precision", ("'1.7976931348623157e308'", "'5e-324'", "0.1::float8 + 0.2::float8", "'-infinity'"), pa.float64(), (1.7976931348623157e308, 5e-324, 0.30000000000000004, -math.inf)),
    Case("numeric(12,2)", ("-9999999999.99", "0.01"), pa.decimal128(12, 2), (Decimal("-9999999999.99"), Decimal("0.01"))),
    Case("numeric(38,0)", (LONG, f"-{LONG}"), pa.decimal128(38, 0), (Decimal(LONG), Decimal(f"-{LONG}"))),
    Case("numeric(38,38)", (f"0.{LONG}",), pa.decimal128(38, 38), (Decimal(f"0.{LONG}"),)),
    Case("numeric(5,-2)", ("1234500",), pa.decimal128(7, 0), (Decimal(1234500),)),
    Case("numeric(3,5)", ("0.00999",), pa.decimal128(5, 5), (Decimal("0.00999"),)),
    text("text", "", "é😀ß", "it's \\ \"quoted\"", "line\nbreak"),
    text("varchar(20)", "trailing  "),
    text("char(5)", ("ab", "ab   ")),
    text("name", "a_name"),
    text('"char"', "x"),
    Case("bytea", ("'\\x00ff00'", "''"), pa.binary(), (b"\0\xff\0", b"")),
    Case("date", ("'0001-01-01'", "'9999-12-31'", "'1582-10-10'"), pa.date32(), (date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10))),
    Case("timestamp", ("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'", "'2024-03-10 02:30:00'", "'1969-12-31 23:59:59.999999'"), NTZ, (datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1, 0, 0, 0, 1), datetime(2024, 3, 10, 2, 30), datetime(1969, 12, 31, 23, 59, 59, 999999))),
    Case("timestamp(0)", ("'2024-11-03 01:30:00'",), NTZ, (datetime(2024, 11, 3, 1, 30),)),
    Case("timestamptz", ("'9999-12-31 23:59:59.999999+00'", "'2024-11-03 01:30:00.000001-04'", "'1900-01-01 00:00:00+00'"), TZ, (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 11, 3, 5, 30, 0, 1, UTC), datetime(1900, 1, 1, tzinfo=UTC))),
    text("time", "24:00:00", "00:00:00.000001"),
    text("timetz", "23:59:59.999999-15:59"),
    text("interval", "1 year 2 mons -3 days +04:05:06.789", "178000000 years"),
    text("uuid", "123e4567-e89b-12d3-a456-426655440000"),
    text("json", '{"a":  [1, null]}'),
    text("jsonb", ('{"b": 1, "a":[1.50]}', '{"a": [1.50], "b": 1}')),
    text("jsonpath", ("$.a", '$."a"')),
    text("xml", "<a>é</a>"),
    text("inet", "192.168.0.1/24", ("::1", "::1/128")),
    text("cidr", "10.0.0.0/8"),
    text("macaddr", "08:00:2b:01:02:03"),
    text("macaddr8", "08:00:2b:01:02:03:04:05"),
    text("bit(3)", "101"),
    text("varbit", "1011"),
    text("money", ("-92233720368547758.08", "-$92,233,720,368,547,758.08")),
    text("point", "(1.5,2)"),
    text("line", "{1,2,3}"),
    text("lseg", "[(1,2),(3,4)]"),
    text("box", "(3,4),(1,2)"),
    text("path", "((1,2),(3,4))"),
    text("polygon", "((1,2),(3,4),(5,6))"),
    text("circle", "<(1,2),3>"),
    text("tsvector", "'cat':1 'sat':2"),
    text("tsquery", "'cat' & 'sat'"),
    text("pg_lsn", "16/B374D848"),
    text("xid", "4294967295"),
    text("xid8", "18446744073709551615"),
    text("tid", "(0,1)"),
    text("regclass", "pg_class"),
    text("mood", "happy"),
    text("pair", "(1,\"a b\")"),
    text("integer[]", "{1,NULL,3}", "{{1,2},{3,4}}"),
    text("text[]", '{"a b",NULL,"\\"q\\""}'),
    text("timestamptz[]", '{"2024-11-03 05:30:00.000001+00"}'),
    text("int4range", "[1,10)", "empty"),
    text("tstzrange", '["2024-01-01 00:00:00+00",infinity]'),
    text("int4multirange", "{[1,3),[5,7)}"),
    Case("price", ("12.34",), pa.decimal128(9, 2), (Decimal("12.34"),)),
    Case("high_price", ("12.34",), pa.decimal128(9, 2), (Decimal("12.34"),)),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(postgres: Postgres) -> Place:
    return postgresql_place(postgres)


@pytest.fixture(scope="module")
def everything(
    spark: SparkSession,
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> pa.Table:
    place.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    place.run("CREATE TYPE pair AS (a int, b text)")
    place.run("CREATE DOMAIN price AS numeric(9,2) CHECK (value >= 0)")
    place.run("CREATE DOMAIN high_price AS price CHECK (value >= 10)")
    make(place, "every", CASES, '"')
    return arrived(spark, place, "every", tmp_path_factory.mktemp("postgresql"), cursor="id")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.native for case in CASES])
def test_a_postgresql_type_arrives_whole_at_its_limits(everything: pa.Table, number: int) -> None:
    case = CASES[number]
    found, values = column(everything, number)
    assert found == case.arrives
    assert tuple(values[: len(case.values)]) == case.expected
    assert values[-1] is None


def test_every_rule_of_the_documentation_has_a_case(place: Place, everything: pa.Table) -> None:
    tried = {
        row[0]
        for row in place.run(
            "SELECT t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            " WHERE a.attrelid = 'every'::regclass"
        )
    }
    tried |= {"enum", "composite", "array", "range", "multirange", "cid"}
    tried |= {"regproc", "regprocedure", "regtype", "regrole", "regnamespace"}
    for rule in types_postgresql.RULES.rules:
        assert set(rule.types) <= tried


def test_overrides_hold_what_nothing_else_can(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
) -> None:
    place.run(
        "CREATE TABLE wide (id int PRIMARY KEY, d numeric, e numeric, b bytea, n text, w numeric(50,10))"
    )
    digits = "9" * 500 + "." + "1" * 200
    place.run(f"INSERT INTO wide VALUES (1, {digits}, 1.5, '\\x00ff', '2025-01-01T10:00:00Z', 1.25)")
    types = {"d": "string", "e": "decimal(10,2)", "b": "string", "n": "timestamp", "w": "decimal(38,10)"}
    (row,) = arrived(spark, place, "wide", tmp_path, cursor="id", types=types).to_pylist()
    assert row == {
        "id": 1,
        "d": digits,
        "e": Decimal("1.50"),
        "b": "00ff",
        "n": datetime(2025, 1, 1, 10, tzinfo=UTC),
        "w": Decimal("1.2500000000"),
    }


def test_both_ways_to_whole_microseconds_agree(place: Place, everything: pa.Table) -> None:
    columns = [
        f"v{i}"
        for i, case in enumerate(CASES)
        if case.native.startswith("timestamp") and "[" not in case.native
    ]
    assert len(columns) == 3
    for name in columns:
        ways = (types_postgresql.MICROS, types_postgresql.MICROS_BEFORE_14)
        one, other = (way.format(c=f'"{name}"') for way in ways)
        ((different,),) = place.run(
            f'SELECT COUNT(*) FROM every WHERE "{name}" IS NOT NULL AND {one} <> {other}'
        )
        assert different == 0
    older = types_postgresql.rules_of(130000)
    assert [rule.types for rule in older.rules if rule.select == types_postgresql.MICROS_BEFORE_14] == [
        ("timestamp",),
        ("timestamptz",),
    ]
