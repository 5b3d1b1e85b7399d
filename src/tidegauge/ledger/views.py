"""Any ledger as tables and views of an in-memory DuckDB, so that one SQL asks them all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import BigInteger, DateTime, Double, Integer

from tidegauge.ledger.migrations.versions import v0002_books, v0005_checked, v0006_plans
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
"""Each with the tables that it reads."""
TABLES = tuple(metadata.tables)


class LedgerTables(Protocol):
    def table_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """All rows of one of `TABLES`; a column that is not known may be left out."""


def open_views(ledger: LedgerTables, names: Collection[str]) -> duckdb.DuckDBPyConnection:
    """A connection that has every table and view. Those that are named have rows: a ledger can be long."""
    import duckdb

    wanted = {table for name in names for table in VIEWS.get(name, (name,))}
    connection = duckdb.connect(":memory:")
    for table in TABLES:
        rows = ledger.table_rows(table) if table in wanted else ()
        connection.register("loaded", _arrow(table, rows))
        connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM loaded')
        connection.unregister("loaded")
    # DuckDB reads PostgreSQL's words; the last statement is a function, which it defines in its own way.
    for statement in (*v0002_books.views("postgresql")[:-1], f"CREATE{v0005_checked.VIEW}"):
        connection.execute(statement)
    for name, query in v0006_plans.views("duckdb").items():
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
    connection.execute(
        "CREATE MACRO timestampdiff(unit, a, b) AS epoch(b - a) / CASE lower(unit)"
        " WHEN 'second' THEN 1 WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 END"
    )
    # A question to the ledger has no business with files and networks.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _arrow(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
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
