"""Reading DuckDB: names and values in its SQL, and its own Arrow for the rows."""

from __future__ import annotations

from tidegauge.model.batch_data import Split
from tidegauge.model.engines import Engine
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import SourceTable
from tidegauge.sources.dialect import Dialect, refuse_nul
from tidegauge.sources.direct_types import ColumnWay
from tidegauge.sources.duckdb.types import RULES
from tidegauge.sources.engine import SourceEngine

_TYPES = {
    ValueKind.DATE: "DATE",
    ValueKind.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    ValueKind.TEXT: "VARCHAR",
}


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    text = value.text
    match value.kind:
        case ValueKind.BYTES:
            return f"unhex('{text}')"
        case ValueKind.TIMESTAMP:
            # With all its digits, also those that only TIMESTAMP_NS has.
            kind = "TIMESTAMP_NS" if len(text.partition(".")[2]) > 6 else "TIMESTAMP"
            return f"CAST('{text}' AS {kind})"
        case ValueKind.INT:
            return f"CAST('{text}' AS {'HUGEINT' if int(text) < 2**127 else 'UHUGEINT'})"
        case ValueKind.DECIMAL:
            return f"({text})"
        case ValueKind.TEXT if "\0" in text:
            parts = (part.replace("'", "''") for part in text.split("\0"))
            return "(" + " || chr(0) || ".join(f"'{part}'" for part in parts) + ")"
        case ValueKind.TIMESTAMPTZ:
            text = f"{text}+00"
        case ValueKind.DATE | ValueKind.TEXT:
            pass
    escaped = text.replace("'", "''")
    return f"CAST('{escaped}' AS {_TYPES[value.kind]})"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema or 'main')}.{quote(table.table)}"


def _types_query(database: Database, table: TableName) -> str:  # noqa: ARG001 - a session has one database
    schema, name = (literal(Value(ValueKind.TEXT, one)) for one in (table.schema or "main", table.table))
    return (
        "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database()"
        f" AND schema_name = {schema} AND table_name = {name}"
    )


def _open_dialect(database: Database) -> Dialect:
    from tidegauge.sources.duckdb.dialect import DuckDBDialect

    return DuckDBDialect(database)


def _make_split(
    database: Database,
    source_table: SourceTable,
    ways: tuple[ColumnWay, ...],
    select: str,
    *,
    guard_query: str | None,  # noqa: ARG001 - every guard is part of the SELECT
    rows: int | None,  # noqa: ARG001 - read in blocks, however many there are
) -> Split:
    from tidegauge.sources.duckdb.split import DuckDBSplit

    return DuckDBSplit(database, source_table, ways, select)


DUCKDB = SourceEngine(
    engine=Engine.DUCKDB,
    rules=RULES,
    open_dialect=_open_dialect,
    literal=literal,
    table_name=table_name,
    types_query=_types_query,
    jdbc_options=None,
    make_split=_make_split,
)
