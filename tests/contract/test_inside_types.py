"""Every type that can be read, moved inside its database: what lands is what the other way lands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration import test_types_mysql, test_types_postgresql
from tests.support.source_parts import (
    Place,
    batches,
    duckdb_place,
    mysql_place,
    postgresql_place,
    sqlite_place,
)
from tests.support.types_parts import make
from tidegauge.errors import ConfigError, TypeNotHeld
from tidegauge.model.mode import Mode
from tidegauge.model.plan import Batch, Tag
from tidegauge.model.protocols.source import Reader
from tidegauge.model.spec import TableFlow, TableName, WarehouseTable
from tidegauge.model.table import SourceTable
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.sources.direct import DirectReader, direct_reason
from tidegauge.sources.inside import SameDatabaseReader

DUCKDB = {
    "boolean": ("true", "false"),
    "tinyint": ("-128", "127"),
    "utinyint": ("255",),
    "smallint": ("-32768",),
    "usmallint": ("65535",),
    "integer": ("-2147483648", "2147483647"),
    "uinteger": ("4294967295",),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "ubigint": ("18446744073709551615",),
    "hugeint": ("-" + "9" * 38, "9" * 38),
    "uhugeint": ("9" * 38,),
    "float": ("3.4028235e38::float", "'nan'", "'-inf'", "-0.0::float"),
    "double": ("0.1 + 0.2", "'nan'", "'inf'", "5e-324"),
    "decimal(12,2)": ("-9999999999.99", "0.01"),
    "decimal(38,38)": ("'0." + "9" * 38 + "'",),
    "varchar": ("''", "'é😀 it''s'", "chr(0) || 'x'"),
    "json": ("'{\"a\":  [1, null]}'",),
    "blob": ("'\\x00\\xFF'::blob",),
    "date": ("'0001-01-01'", "'9999-12-31'"),
    "timestamp": ("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'"),
    "timestamp_s": ("'2025-03-30 02:30:00'",),
    "timestamp_ms": ("'1969-12-31 23:59:59.999'",),
    "timestamp_ns": ("'2025-03-30 02:30:00.000001'",),
    "timestamptz": ("'2024-11-03 01:30:00.000001-04'",),
    "time": ("'23:59:59.999999'",),
    "interval": ("INTERVAL '1 year 2 days 3 hours'",),
    "uuid": ("'123e4567-e89b-12d3-a456-426655440000'",),
    "bit": ("'101'",),
    "integer[]": ("[1, NULL, 3]",),
    "struct(a integer, b varchar)": ("{'a': 1, 'b': 'x y'}",),
    "map(varchar, integer)": ("MAP {'k': 1}",),
}
SQLITE = {
    "INTEGER": ("-9223372036854775808", "9223372036854775807"),
    "BOOLEAN": ("1", "0"),
    "TEXT": ("''", "'é😀 it''s'", "CAST(X'610062' AS TEXT)"),
    "VARCHAR(9)": ("'longer than nine'",),
    "BLOB": ("X''", "X'00FF'"),
    "REAL": ("0.1 + 0.2", "9e999", "-0.0", "5e-324"),
    "DATETIME": ("'2025-01-01 00:00:00'", "20250101", "0.1"),
    "DECIMAL(10,2)": ("12.50", "'abc'", "9007199254740993"),
}


def _make(place: Place, cases: Mapping[str, Sequence[str]]) -> None:
    columns = [f"v{i} {native}" for i, native in enumerate(cases)]
    place.run(f"CREATE TABLE every (id int PRIMARY KEY, {', '.join(columns)})")
    for row in range(max(map(len, cases.values())) + 1):
        values = [found[row] if row < len(found) else "NULL" for found in cases.values()]
        place.run(f"INSERT INTO every VALUES ({row}, {', '.join(values)})")


def _place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    match engine:
        case "sqlite":
            return sqlite_place(folder)
        case "duckdb":
            return duckdb_place(folder)
        case "mysql":
            return mysql_place(request.getfixturevalue("mariadb"))
        case _:
            return postgresql_place(request.getfixturevalue("postgres"))


def _fill(place: Place) -> None:
    match place.engine:
        case "sqlite":
            _make(place, SQLITE)
        case "duckdb":
            _make(place, DUCKDB)
        case "mysql":
            make(place, "every", test_types_mysql.CASES, "`")
        case _:
            for words in ("TYPE mood AS ENUM ('sad', 'happy')", "TYPE pair AS (a int, b text)"):
                place.run(f"CREATE {words}")
            place.run("CREATE DOMAIN price AS numeric(9,2) CHECK (value >= 0)")
            place.run("CREATE DOMAIN high_price AS price CHECK (value >= 10)")
            make(place, "every", test_types_postgresql.CASES, '"')


def _no_spark() -> Any:
    raise AssertionError("somebody wants Spark")


def _land(place: Place, source_table: SourceTable, batch: Batch, reader: Reader, name: str) -> str:
    """Move one batch into a table of this name in the same database."""
    target = replace(place.table("x"), table=name)
    options = replace(source_table.options, mode=Mode.MERGE)
    output = WarehouseOutput(
        TableFlow(
            "p", name, place.database, source_table.table, WarehouseTable(place.database, target), options
        )
    )
    output.prepare()
    batch_data = reader.batch_data(source_table, batch)
    staged = output.stage(batch_data, _no_spark)
    output.commit(Tag("p", name, 0, 1), batch, staged, layout=batch_data.layout, run_id="r")
    return name


def _described(place: Place, table: str) -> Any:
    match place.engine:
        case "sqlite":
            return place.run(f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table}')")
        case "mysql":
            found = place.run(f"SHOW CREATE TABLE {table}")[0][1]
            return str(found).replace(table, "T")
        case _:
            return place.run(
                "SELECT column_name, data_type, numeric_precision, numeric_scale, is_nullable FROM"
                f" information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"
            )


@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgresql", "mysql"])
def test_every_type_lands_as_by_the_other_way(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    place = _place(engine, request, tmp_path)
    _fill(place)
    source_table, survey = place.survey("every", cursor="id")
    assert direct_reason(source_table, place.database) is None
    [batch] = batches(survey, None)
    assert batch.rows is not None
    assert batch.rows > 2
    ways: list[Reader] = [SameDatabaseReader(place.database), DirectReader(place.database)]
    inside, direct = (
        _land(place, source_table, batch, reader, name)
        for reader, name in zip(ways, ("inside_", "direct_"), strict=True)
    )
    assert _described(place, inside) == _described(place, direct)
    found, expected = (place.run(f"SELECT * FROM {name} ORDER BY id") for name in (inside, direct))
    for column in range(len(source_table.columns)):
        one, other = (repr([row[column] for row in rows]) for rows in (found, expected))
        assert one == other, source_table.columns[column]
    assert len(found) == batch.rows


WRONG = {
    "postgresql": [("timestamp", "'infinity'"), ("date", "'0044-03-15 BC'"), ("numeric(5,2)", "'NaN'")],
    "mysql": [("date", "'0000-00-00'"), ("datetime", "'2025-00-15 00:00:00'"), ("timestamp", "0")],
    "sqlite": [("INTEGER", "'word'"), ("TEXT", "X'00'"), ("REAL", "'x'")],
    "duckdb": [("hugeint", "1" + "0" * 38), ("timestamp", "'infinity'"), ("date", "'0044-03-15 (BC)'")],
}


@pytest.mark.parametrize(
    ("engine", "native", "value"),
    [(engine, *case) for engine, cases in WRONG.items() for case in cases],
)
def test_a_value_that_nothing_holds_stops_the_batch_and_names_its_row(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, native: str, value: str
) -> None:
    place = _place(engine, request, tmp_path)
    place.run(f"CREATE TABLE every (id int PRIMARY KEY, fine int, v {native})")
    place.run("INSERT INTO every VALUES (1, 1, NULL)")
    place.run(f"INSERT INTO every VALUES (7, 2, {value})")
    source_table, survey = place.survey("every", cursor="id")
    [batch] = batches(survey, None)
    with pytest.raises(TypeNotHeld) as caught:
        _land(place, source_table, batch, SameDatabaseReader(place.database), "inside_")
    assert "column v" in caught.value.message
    assert "the key 7" in caught.value.message
    assert place.run("SELECT COUNT(*) FROM inside_")[0][0] == 0


def test_text_that_only_spark_parses_is_refused_by_the_plan(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    place.run("CREATE TABLE every (id INTEGER PRIMARY KEY, at TEXT)")
    source_table, survey = place.survey("every", cursor="id", types={"at": "timestamp"})
    assert not survey.cuts
    with pytest.raises(ConfigError, match="makes a timestamp of the column at") as caught:
        SameDatabaseReader(place.database).query(source_table, "1 = 1")
    assert caught.value.hint == "leave the column as it is, or leave `execute` out"


def test_a_name_without_a_schema_is_found_from_another_database_of_the_server() -> None:
    from tidegauge.model.spec import Database, Engine
    from tidegauge.sources.engines import find_engine

    database = Database("s", Engine.SNOWFLAKE, account="a", database="OPS")
    named = find_engine(database).full_name
    assert named is not None
    assert named(database, TableName("ETL", "T")) == 'OPS."ETL"."T"'
