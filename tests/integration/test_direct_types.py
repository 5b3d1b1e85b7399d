"""The whole matrix of types both ways: what arrives without JDBC is what arrives through it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration import test_types_mysql, test_types_postgresql
from tests.integration.test_types_guards import refused
from tests.support.servers import MariaDB, Postgres
from tests.support.source_parts import Place, batches, mysql_place, postgresql_place, sqlite_place
from tests.support.types_parts import arrived, make
from tidegauge.errors import TypeNotHeld
from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.splits import write_splits
from tidegauge.sources import connectorx_split
from tidegauge.sources.direct import DirectReader, direct_reason
from tidegauge.sources.postgresql.dialect import PostgresqlDialect
from tidegauge.spark import on_demand
from tidegauge.spark.local_tasks import LocalTasks
from tidegauge.spark.on_demand import SparkOnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def never() -> SparkSession:
    raise AssertionError("few rows need no Spark")


def direct_files(
    place: Place,
    table: str,
    folder: Path,
    *,
    step: int = 1_000_000,
    spark: Callable[[], SparkSession] = never,
    **options: Any,
) -> list[Path]:
    source_table, survey = place.survey(table, step=step, **options)
    assert direct_reason(source_table, place.database) is None
    lake = Lake("lake", str(folder))
    reader = DirectReader(place.database)
    return [
        folder / file.path
        for number, batch in enumerate(batches(survey, None, 2))
        for file in write_splits(lake, f"t/data/{number}", reader.batch_data(source_table, batch), spark)
    ]


def same(spark: SparkSession, place: Place, table: str, folder: Path, **options: Any) -> pa.Table:
    """Both ways, as pyarrow and as Spark read them back; answers with what arrived."""
    through_jdbc = arrived(spark, place, table, folder / "jdbc", **options)
    files = direct_files(place, table, folder / "direct", **options)
    found = pa.concat_tables([pq.read_table(file) for file in files])
    with patch.object(on_demand, "FEW", -1), closing(LocalTasks(1)) as local:
        by_processes = SparkOnDemand(never, lambda: local)
        aside = direct_files(place, table, folder / "processes", spark=by_processes, **options)
    assert [file.read_bytes() for file in aside] == [file.read_bytes() for file in files]
    assert found.schema.equals(through_jdbc.schema)
    ordered, wanted = found.sort_by("id"), through_jdbc.sort_by("id")
    for name in wanted.column_names:
        # NaN is not equal to itself, its text is.
        assert [str(v) for v in ordered.column(name).to_pylist()] == [
            str(v) for v in wanted.column(name).to_pylist()
        ], name
    ways = [
        spark.read.parquet(*(str(path) for path in paths))
        for paths in ([str(path) for path in (folder / "jdbc").glob("part*")], files)
    ]
    # The reader of JDBC leaves remarks of its own beside the types.
    assert ways[0].schema.simpleString() == ways[1].schema.simpleString()
    both = [sorted(map(str, way.collect())) for way in ways]
    assert both[0] == both[1]
    theirs = pq.read_schema(next((folder / "jdbc").glob("part0/*.parquet")))
    assert theirs.names == found.schema.names
    kept = [_kinds(path) for path in (next((folder / "jdbc").glob("part0/*.parquet")), files[0])]
    assert kept[0] == kept[1]
    return found


def _kinds(path: Path) -> list[tuple[str, str, str]]:
    schema = pq.ParquetFile(path).schema
    columns = [schema.column(number) for number in range(len(schema))]
    return [(one.name, one.physical_type, str(one.logical_type)) for one in columns]


def test_every_mysql_type_arrives_the_same_both_ways(
    spark: SparkSession, mariadb: MariaDB, tmp_path: Path
) -> None:
    place = mysql_place(mariadb)
    make(place, "every", test_types_mysql.CASES, "`")
    found = same(spark, place, "every", tmp_path, cursor="id").sort_by("id")
    for number, case in enumerate(test_types_mysql.CASES):
        column = found.column(f"v{number}")
        assert column.type == case.arrives
        assert tuple(column.to_pylist()[: len(case.values)]) == case.expected


def test_every_postgresql_type_arrives_the_same_both_ways(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    place.run("CREATE TYPE pair AS (a int, b text)")
    place.run("CREATE DOMAIN price AS numeric(9,2) CHECK (value >= 0)")
    place.run("CREATE DOMAIN high_price AS price CHECK (value >= 10)")
    make(place, "every", test_types_postgresql.CASES, '"')
    place.run("INSERT INTO every (id, v5, v6) VALUES (100, 'NaN', 'NaN'), (101, '-0', '-0')")
    found = same(spark, place, "every", tmp_path, cursor="id").sort_by("id")
    for number, case in enumerate(test_types_postgresql.CASES):
        column = found.column(f"v{number}")
        assert column.type == case.arrives
        assert tuple(column.to_pylist()[: len(case.values)]) == case.expected


def test_floats_as_text_arrive_whole_whatever_the_role_sets(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    place = postgresql_place(postgres)
    role = f'ALTER ROLE {postgres.user} IN DATABASE "{place.database.database}"'
    place.run(f"{role} SET extra_float_digits = 0")
    place.run("CREATE TABLE t (id int PRIMARY KEY, a float8[], r float4[], p point, f float8)")
    place.run(
        "INSERT INTO t SELECT 1, ARRAY[x], ARRAY[16777216::float4], point(x, 1), x"
        " FROM (SELECT 0.1::float8 + 0.2::float8 AS x) AS one"
    )
    (row,) = same(spark, place, "t", tmp_path, cursor="id", types={"f": "string"}).to_pylist()
    whole = "0.30000000000000004"
    assert row == {"id": 1, "a": f"{{{whole}}}", "r": "{1.6777216e+07}", "p": f"({whole},1)", "f": whole}
    with closing(PostgresqlDialect(place.database)) as dialect:
        assert dialect.rows("SELECT f::text, a::text FROM t") == [(whole, f"{{{whole}}}")]
        assert dialect.rows("SHOW extra_float_digits") == [("3",)]  # up to version 11, fewer round


@pytest.mark.parametrize("engine", ["mysql", "postgresql"])
def test_a_stream_gives_what_a_single_piece_gives(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine == "mysql":
        place, cases = mysql_place(request.getfixturevalue("mariadb")), test_types_mysql.CASES
        make(place, "every", cases, "`")
    else:
        place = postgresql_place(request.getfixturevalue("postgres"))
        own = ("mood", "pair", "price", "high_price")
        cases = [case for case in test_types_postgresql.CASES if case.native not in own]
        make(place, "every", cases, '"')
    whole = [pq.read_table(path) for path in direct_files(place, "every", tmp_path / "whole", cursor="id")]
    monkeypatch.setattr(connectorx_split, "SMALL", -1)
    monkeypatch.setattr(connectorx_split, "_PIECE", 2)
    monkeypatch.setattr(connectorx_split, "is_task", lambda: True)
    streamed = [
        pq.read_table(path) for path in direct_files(place, "every", tmp_path / "stream", cursor="id")
    ]
    assert pa.concat_tables(whole).equals(pa.concat_tables(streamed))


def test_overrides_arrive_the_same_both_ways(
    spark: SparkSession, mariadb: MariaDB, postgres: Postgres, tmp_path: Path
) -> None:
    place = mysql_place(mariadb)
    place.run(
        "CREATE TABLE wide (id int PRIMARY KEY, d decimal(65,30), e decimal(65,30), f decimal(65,30), b blob,"
        " p point, n varchar(9), i bigint, w date, z datetime(6), t time)"
    )
    digits = "12345678901234567890123456789012345.123456789012345678901234567890"
    place.run(
        f"INSERT INTO wide VALUES (1, {digits}, -1.5, -12345678901234567890.5, X'00ff', POINT(1, 2),"
        " '-12.30', 12345678, '2025-01-01', '2025-01-01 10:00:00.5', '-10:00:00')"
    )
    types = {"d": "string", "e": "decimal(10,2)", "f": "decimal(38,1)", "b": "string", "p": "string"}
    types |= {"n": "decimal(4,2)", "i": "decimal(12,3)", "w": "string", "z": "timestamp_ntz", "t": "string"}
    same(spark, place, "wide", tmp_path / "mysql", cursor="id", types=types)
    place = postgresql_place(postgres)
    place.run(
        "CREATE TABLE wide (id int PRIMARY KEY, d numeric, e numeric, b bytea, n text, w numeric(50,10),"
        " i bigint, m text, k text)"
    )
    digits = "9" * 500 + "." + "1" * 200
    place.run(
        f"INSERT INTO wide VALUES (1, {digits}, -1.5, '\\x00ff', '2025-01-01T10:00:00Z', 1.25, -5,"
        " '2025-01-01', '+0012.3000')"
    )
    types = {"d": "string", "e": "decimal(10,2)", "b": "string", "n": "timestamp", "w": "decimal(38,10)"}
    types |= {"i": "decimal(20,2)", "m": "date", "k": "decimal(4,2)"}
    same(spark, place, "wide", tmp_path / "postgresql", cursor="id", types=types)


def test_sqlite_columns_arrive_the_same_both_ways(spark: SparkSession, tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, i BIGINT, r REAL, s TEXT, b BLOB, d DATE, m DECIMAL(10,2),"
        " w DATETIME, x DATETIME, y NUMERIC, z, u DATETIME)"
    )
    place.run(
        "INSERT INTO t VALUES (9223372036854775807, -9223372036854775808, 0.1, 'a' || char(0) || '😀',"
        " X'00ff', '2025-02-28', 12.34, '2025-01-01T10:00:00.123456Z', '2025-01-01 10:00:00.5', 0.1 + 0.2,"
        " X'0f', '2025-01-01'), (2, NULL, NULL, '', X'', NULL, '-.5', '2025-01-01', '2025-01-01 10:00', 7,"
        " 1.5, NULL)"
    )
    types = {"d": "date", "m": "decimal(10,2)", "w": "timestamp", "x": "timestamp_ntz", "z": "string"}
    types |= {"u": "timestamp_ntz"}
    same(spark, place, "t", tmp_path, cursor="id", types=types)


def stopped(place: Place, table: str, folder: Path, **options: Any) -> str:
    with pytest.raises(TypeNotHeld) as caught:
        direct_files(place, table, folder, cursor="id", **options)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.shown_on("timestamp", "datetime(6)")
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'0000-00-00'"),
        ("date", "'2025-00-15'"),
        ("date", "'2025-01-00'"),
        ("date", "'0000-01-01'"),
        ("datetime(6)", "'0000-00-00 00:00:00'"),
        ("datetime", "'2025-00-15 10:00:00'"),
        ("datetime", "'0000-12-31 10:00:00'"),
        ("timestamp", "'0000-00-00 00:00:00'"),
    ],
)
def test_a17_a_zero_date_stops_both_ways_with_one_sentence(
    spark: SparkSession,
    mariadb: MariaDB,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    value: str,
) -> None:
    place = mysql_place(mariadb)
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, `day %s` {kind})".replace("%", "%%"), ())
        cursor.execute(f"INSERT INTO t VALUES (1, '2025-01-15'), (7, {value})")
    wanted = refused(spark, place, "t", tmp_path / "jdbc")
    assert stopped(place, "t", tmp_path / "one") == wanted
    monkeypatch.setattr(connectorx_split, "SMALL", -1)
    monkeypatch.setattr(connectorx_split, "is_task", lambda: True)
    assert stopped(place, "t", tmp_path / "stream") == wanted
    rows = same(spark, place, "t", tmp_path / "null", cursor="id", zero_dates="null").to_pylist()
    assert {row["id"]: row["day %s"] is None for row in rows} == {1: False, 7: True}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric(10,2)", "'NaN'"),
        ("numeric(30,2)", "'NaN'"),
        ("date", "'infinity'"),
        ("date", "'0044-03-15 BC'"),
        ("date", "'12025-01-01'"),
        ("timestamp", "'-infinity'"),
        ("timestamp", "'0044-03-15 00:00:00 BC'"),
        ("timestamptz", "'infinity'"),
        ("timestamptz", "'294276-12-31 00:00:00+00'"),
    ],
)
def test_what_spark_has_no_value_for_stops_both_ways_with_one_sentence(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, kind: str, value: str
) -> None:
    place = postgresql_place(postgres)
    place.run(f'CREATE TABLE t (id text PRIMARY KEY, "v ""x""" {kind})')
    place.run(f"INSERT INTO t VALUES ('k''1', {value})")
    assert stopped(place, "t", tmp_path / "direct") == refused(spark, place, "t", tmp_path / "jdbc")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", "2025-01-01 10:00:00.120"),
        ("timestamptz", "2025-01-01 10:00:00+00"),
        ("date", "2025-01-01"),
        ("numeric(12,3)", "-1.5"),
        ("numeric(38,20)", "0"),
        ("bytea", "\\x00ff"),
    ],
)
def test_a_key_is_shown_the_same_both_ways(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, kind: str, value: str
) -> None:
    place = postgresql_place(postgres)
    place.run(f"CREATE TABLE t (key {kind}, id int, v numeric(5,2), PRIMARY KEY (key, id))")
    place.run(f"INSERT INTO t VALUES ('{value}', 7, 'NaN')")
    assert stopped(place, "t", tmp_path / "direct") == refused(spark, place, "t", tmp_path / "jdbc")


@pytest.mark.parametrize("value", ["1.234", "12345678901", "'NaN'", "'infinity'"])
def test_an_override_never_rounds_either_way(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, value: str
) -> None:
    place = postgresql_place(postgres)
    place.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)")
    place.run(f"INSERT INTO t VALUES (1, {value})")
    types = {"types": {"v": "decimal(10,2)"}}
    assert stopped(place, "t", tmp_path, **types) == refused(spark, place, "t", tmp_path / "jdbc", **types)


@pytest.mark.parametrize(
    ("declared", "value"),
    [("INTEGER", "'abc'"), ("TEXT", "X'00'"), ("REAL", "'abc'"), ("BLOB", "'abc'"), ("DATETIME", "X'00'")],
)
def test_a_sqlite_value_of_another_kind_stops_both_ways(
    spark: SparkSession, tmp_path: Path, declared: str, value: str
) -> None:
    place = sqlite_place(tmp_path)
    place.run(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")
    place.run(f"INSERT INTO t VALUES (1, NULL), (2, {value}), (3, NULL)")
    assert stopped(place, "t", tmp_path / "direct") == refused(spark, place, "t", tmp_path / "jdbc")


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "'abc'"),
        ("decimal(4,2)", "123"),
        ("decimal(4,2)", "'.'"),
        ("date", "'2025-02-30'"),
        ("date", "'2025-02-28 10:00:00'"),
        ("timestamp", "'2025-01-01 10:00:00+02:00'"),
        ("timestamp", "'2025-01-01 10:00:00.1234567'"),
        ("timestamp", "'2025-01-01 24:00:00'"),
        ("timestamp_ntz", "'soon'"),
    ],
)
def test_text_that_is_not_what_types_says_stops_both_ways(
    spark: SparkSession, tmp_path: Path, override: str, value: str
) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v NUMERIC)")
    place.run(f"INSERT INTO t VALUES (1, {value})")
    types = {"types": {"v": override}}
    assert stopped(place, "t", tmp_path / "d", **types) == refused(spark, place, "t", tmp_path / "j", **types)


@pytest.mark.parametrize("override", ["date", "timestamp"])
def test_a_line_end_behind_a_text_stops_both_ways(spark: SparkSession, tmp_path: Path, override: str) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
    place.run("INSERT INTO t VALUES (1, '2025-02-28' || char(10))")
    types = {"types": {"v": override}}
    told = stopped(place, "t", tmp_path / "d", **types)
    # Spark's message ends without it.
    assert told == refused(spark, place, "t", tmp_path / "j", **types) + "\n"
