"""Every MySQL and MariaDB column type at its limits."""

# ruff: noqa: E501 - a table of cases, one to a line

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.support.servers import MariaDB
from tests.support.source_parts import Place, mysql_place
from tests.support.types_parts import Case, arrived, column, make
from tidegauge.sources.mysql import types as types_mysql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NTZ, TZ = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
LONG = "9" * 38

CASES = [
    Case("tinyint", ("-128", "127"), pa.int8(), (-128, 127)),
    Case("tinyint(1)", ("2", "-1"), pa.int8(), (2, -1)),
    Case("boolean", ("true", "false"), pa.int8(), (1, 0)),
    Case("tinyint unsigned", ("0", "255"), pa.int16(), (0, 255)),
    Case("smallint", ("-32768", "32767"), pa.int16(), (-32768, 32767)),
    Case("smallint unsigned", ("65535",), pa.int32(), (65535,)),
    Case("mediumint", ("-8388608", "8388607"), pa.int32(), (-8388608, 8388607)),
    Case("mediumint unsigned", ("16777215",), pa.int32(), (16777215,)),
    Case("int", ("-2147483648", "2147483647"), pa.int32(), (-(2**31), 2**31 - 1)),
    Case("int(8) zerofill", ("42",), pa.int64(), (42,)),
    Case("int unsigned", ("4294967295",), pa.int64(), (2**32 - 1,)),
    Case("bigint", ("-9223372036854775808", "9223372036854775807"), pa.int64(), (-(2**63), 2**63 - 1)),
    Case(
        "bigint unsigned",
        ("9223372036854775808", "18446744073709551615", "0"),
        pa.decimal128(20, 0),
        (Decimal(2**63), Decimal(2**64 - 1), Decimal(0)),
    ),
    Case("bit(1)", ("b'1'", "b'0'"), pa.int64(), (1, 0)),
    Case("bit(8)", ("b'11111111'",), pa.int64(), (255,)),
    Case("bit(63)", (f"b'{'1' * 63}'",), pa.int64(), (2**63 - 1,)),
    Case("bit(64)", (f"b'{'1' * 64}'",), pa.decimal128(20, 0), (Decimal(2**64 - 1),)),
    Case("year", ("1901", "2155", "0"), pa.int32(), (1901, 2155, 0)),
    Case("decimal(12,2)", ("-9999999999.99", "0.01"), pa.decimal128(12, 2), (Decimal("-9999999999.99"), Decimal("0.01"))),
    Case("decimal(38,0)", (LONG, f"-{LONG}"), pa.decimal128(38, 0), (Decimal(LONG), Decimal(f"-{LONG}"))),
    Case("decimal(38,30)", ("12345678.123456789012345678901234567891",), pa.decimal128(38, 30), (Decimal("12345678.123456789012345678901234567891"),)),
    Case("decimal(10,3) unsigned", ("9999999.999",), pa.decimal128(10, 3), (Decimal("9999999.999"),)),
    Case("float", ("3.4028234e38", "1.17549435e-38", "0.1", "16777217", "123456.789"), pa.float32(), tuple(float(np.float32(x)) for x in (3.4028234e38, 1.17549435e-38, 0.1, 16777217, 123456.789))),
    Case("double", ("1.7976931348623157e308", "-2.2250738585072014e-308", "0.1e0+0.2e0"), pa.float64(), (1.7976931348623157e308, -2.2250738585072014e-308, 0.30000000000000004)),
    Case("date", ("'1000-01-01'", "'9999-12-31'", "'0001-01-01'", "'1582-10-10'"), pa.date32(), (date(1000, 1, 1), date(9999, 12, 31), date(1, 1, 1), date(1582, 10, 10))),
    Case("datetime", ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"), NTZ, (datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59))),
    Case("datetime(3)", ("'2024-03-10 02:30:00.999'",), NTZ, (datetime(2024, 3, 10, 2, 30, 0, 999000),)),
    Case("datetime(6)", ("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'", "'1969-12-31 23:59:59.999999'"), NTZ, (datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999999))),
    Case("timestamp(6) null", ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'"), TZ, (datetime(1970, 1, 1, 0, 0, 1, 1, UTC), datetime(2038, 1, 19, 3, 14, 7, 999999, UTC))),
    Case("timestamp null", ("'2024-11-03 01:30:00'",), TZ, (datetime(2024, 11, 3, 1, 30, tzinfo=UTC),)),
    Case("time(6)", ("'838:59:59.000000'", "'-838:59:59.000000'", "'00:00:00.000001'"), pa.string(), ("838:59:59.000000", "-838:59:59.000000", "00:00:00.000001")),
    Case("time", ("'-12:30:00'",), pa.string(), ("-12:30:00",)),
    Case("char(10)", ("'ab'", "'é😀'"), pa.string(), ("ab", "é😀")),
    Case("varchar(50)", ("'trailing  '", "'a\\0b'", "''", "'\\'\"\\\\ß'"), pa.string(), ("trailing  ", "a\0b", "", "'\"\\ß")),
    Case("varchar(20) character set latin1", ("'é€'",), pa.string(), ("é€",)),
    Case("tinytext", ("'t'",), pa.string(), ("t",)),
    Case("text", ("REPEAT('x', 65535)",), pa.string(), ("x" * 65535,)),
    Case("mediumtext", ("'m'",), pa.string(), ("m",)),
    Case("longtext", ("'😀'",), pa.string(), ("😀",)),
    Case("json", ("'{\"a\": [1, null, \"é\"]}'",), pa.string(), ('{"a": [1, null, "é"]}',)),
    Case("enum('small','LARGE','a''b')", ("'LARGE'", "'a\\'b'"), pa.string(), ("LARGE", "a'b")),
    Case("set('a','b','c')", ("'c,a'", "''"), pa.string(), ("a,c", "")),
    Case("binary(4)", ("X'00ff'", "X'deadbeef'"), pa.binary(), (b"\0\xff\0\0", b"\xde\xad\xbe\xef")),
    Case("varbinary(10)", ("X'00ff00'", "''"), pa.binary(), (b"\0\xff\0", b"")),
    Case("tinyblob", ("X'ff'",), pa.binary(), (b"\xff",)),
    Case("blob", ("X'00'",), pa.binary(), (b"\0",)),
    Case("mediumblob", ("X'01'",), pa.binary(), (b"\1",)),
    Case("longblob", ("X'02'",), pa.binary(), (b"\2",)),
    Case("uuid", ("'123e4567-e89b-12d3-a456-426655440000'",), pa.string(), ("123e4567-e89b-12d3-a456-426655440000",)),
    Case("inet6", ("'2001:db8::ff00:42:8329'",), pa.string(), ("2001:db8::ff00:42:8329",)),
    Case("inet4", ("'192.168.0.1'",), pa.string(), ("192.168.0.1",)),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(mariadb: MariaDB) -> Place:
    return mysql_place(mariadb)


@pytest.fixture(scope="module")
def everything(
    spark: SparkSession,
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> pa.Table:
    make(place, "every", CASES, "`")
    return arrived(spark, place, "every", tmp_path_factory.mktemp("mysql"), cursor="id")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.native for case in CASES])
def test_a_mysql_type_arrives_whole_at_its_limits(everything: pa.Table, number: int) -> None:
    case = CASES[number]
    found, values = column(everything, number)
    assert found == case.arrives
    assert tuple(values[: len(case.values)]) == case.expected
    assert values[-1] is None


def test_every_rule_of_the_documentation_has_a_case() -> None:
    tried = " ".join(case.native for case in CASES)
    for rule in types_mysql.RULES.rules:
        for name in rule.types if rule.arrives else ():
            if name not in ("float unsigned", "double unsigned"):
                assert name.split()[0] in tried


def test_overrides_hold_what_nothing_else_can(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
) -> None:
    place.run(
        "CREATE TABLE wide (id int PRIMARY KEY, d decimal(65,30), e decimal(65,30), b blob, p point, n varchar(9))"
    )
    digits = "12345678901234567890123456789012345.123456789012345678901234567890"
    place.run(f"INSERT INTO wide VALUES (1, {digits}, 1.5, X'00ff', POINT(1, 2), '12.30')")
    types = {"d": "string", "e": "decimal(10,2)", "b": "string", "p": "string", "n": "decimal(4,2)"}
    (row,) = arrived(spark, place, "wide", tmp_path, cursor="id", types=types).to_pylist()
    assert row == {
        "id": 1,
        "d": digits,
        "e": Decimal("1.50"),
        "b": "00ff",
        "p": "POINT(1 2)",
        "n": Decimal("12.30"),
    }
