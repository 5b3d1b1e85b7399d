"""Copy any ledger into tables and views of an in-memory DuckDB, so that the same SQL works on every store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import BigInteger, DateTime, Double, Integer

from tidegauge.ledger.migrations.versions import v0002_books, v0005_checked, v0006_plans
from tidegauge.ledger.record_numbers import RecordNumber
from tidegauge.ledger.sql_tables import metadata

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

VIEWS: Mapping[str, tuple[str, ...]] = {
    "etl_pipeline_sync_control": ("runs",),
    "pipeline_watermark_history": ("history",),
    "pipeline_watermark_plans": ("plans", "watermarks", "runs", "history"),
    "watermark_positions": ("watermarks",),
    "watermarks_v": ("runs", "flows", "watermarks", "plans"),
}
"""The views by name, each with the tables that it reads."""
_RECORDS = "watermarks_v"
TABLES = tuple(metadata.tables)


class LedgerTables(Protocol):
    def table_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """All rows of one of `TABLES`; columns that the ledger does not have may be missing."""

    def record_numbers(self) -> Sequence[RecordNumber]:
        """What replaces the numbers of `watermarks_v`, if people see others elsewhere; else empty."""


def open_views(ledger: LedgerTables, names: Collection[str]) -> duckdb.DuckDBPyConnection:
    """A connection that has every table and view. Only those in `names` get rows, because a ledger can be
    large."""
    import duckdb

    wanted = {table for name in names for table in VIEWS.get(name, (name,))}
    connection = duckdb.connect(":memory:")
    for table in TABLES:
        rows = ledger.table_rows(table) if table in wanted else ()
        connection.register("loaded", _to_arrow(table, rows))
        connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM loaded')
        connection.unregister("loaded")
    # DuckDB understands these views as written for PostgreSQL. The last statement is a function; the macro
    # below replaces it.
    for statement in (*v0002_books.views("postgresql")[:-1], f"CREATE{v0005_checked.VIEW}"):
        connection.execute(statement)
    for name, query in v0006_plans.views("duckdb").items():
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
    given = ledger.record_numbers() if _RECORDS in names else ()
    if given:
        _show_numbers(connection, given)
    connection.execute(
        "CREATE MACRO timestampdiff(unit, a, b) AS epoch(b - a) / CASE lower(unit)"
        " WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 END"
    )
    # A query of the ledger needs neither files nor the network.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _show_numbers(connection: duckdb.DuckDBPyConnection, given: Sequence[RecordNumber]) -> None:
    """Redefine `watermarks_v` so that each record has the number that people see elsewhere."""
    import pyarrow as pa

    numbers = dict(zip(RecordNumber._fields, map(list, zip(*given, strict=True)), strict=True))
    connection.register("loaded", pa.table(numbers))
    connection.execute('CREATE TABLE "given numbers" AS SELECT * FROM loaded')
    connection.unregister("loaded")
    counted = v0006_plans.views("duckdb")[_RECORDS]
    # A record without a run has NULL as its counted number, and is the only record of its flow.
    connection.execute(
        f"CREATE OR REPLACE VIEW {_RECORDS} AS SELECT r.* REPLACE (COALESCE("
        '(SELECT MIN(g.number) FROM "given numbers" g WHERE g.pipeline_name = r.pipeline_name'
        " AND g.counted IS NOT DISTINCT FROM r.watermark_id), r.watermark_id) AS watermark_id)"
        f" FROM ({counted}) r"
    )


def _to_arrow(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    def type_of(column: Any) -> pa.DataType:
        match column.type:
            case BigInteger() | Integer():
                return pa.int64()
            case DateTime():
                return pa.timestamp("us")
            case Double():
                return pa.float64()
            case _:
                return pa.string()

    columns = metadata.tables[table].columns
    arrays = [pa.array([row.get(column.name) for row in rows], type_of(column)) for column in columns]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])
