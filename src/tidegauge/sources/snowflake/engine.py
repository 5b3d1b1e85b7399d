"""Reading Snowflake: names and values in its SQL, and how rows come from its connector."""

from __future__ import annotations

from tidegauge.errors import SourceError
from tidegauge.model.batch_data import Split
from tidegauge.model.engines import Engine
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Database, TableName
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.dialect import Dialect, refuse_nul
from tidegauge.sources.direct_types import ColumnWay, plain_decimal
from tidegauge.sources.engine import SourceEngine
from tidegauge.sources.snowflake.types import RULES


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    """SQL for a value. A type for timestamps without a precision has nine digits, so none is cut off."""
    text = value.text
    match value.kind:
        case ValueKind.INT | ValueKind.DECIMAL:
            return f"({text})"
        case ValueKind.BYTES:
            return f"TO_BINARY('{text}', 'HEX')"
        case ValueKind.DATE:
            return f"CAST('{text}' AS DATE)"
        case ValueKind.TIMESTAMP:
            return f"CAST('{text}' AS TIMESTAMP_NTZ)"
        case ValueKind.TIMESTAMPTZ:
            return f"CAST('{text} +00:00' AS TIMESTAMP_TZ)"
        case ValueKind.TEXT:
            return text_literal(text)


def text_literal(text: str) -> str:
    if "\0" in text:
        raise SourceError("a position holds a NUL character, which cannot be compared in Snowflake's SQL")
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema or 'PUBLIC')}.{quote(table.table)}"


def _full_name(database: Database, table: TableName) -> str:
    # The database is not quoted, as in the connection: Snowflake folds its case in both.
    return f"{database.database}.{table_name(table)}" if database.database else table_name(table)


def _types_query(database: Database, table: TableName) -> str:
    return f"DESCRIBE TABLE {_full_name(database, table)}"


def _open_dialect(database: Database) -> Dialect:
    from tidegauge.sources.snowflake.dialect import SnowflakeDialect

    return SnowflakeDialect(database)


def _column_way(column: SourceColumn) -> ColumnWay | None:
    size = plain_decimal(column)
    if size is None:
        return None
    if size[1]:
        # As text, because the connector gives decimals as floats by default.
        return ColumnWay(f"TO_VARCHAR({column.select})", "digits", column.guard is not None)
    return ColumnWay(column.select, "whole", column.guard is not None)


def _make_split(
    database: Database,
    source_table: SourceTable,
    ways: tuple[ColumnWay, ...],
    select: str,
    *,
    guard_query: str | None,  # noqa: ARG001 - every guard is part of the SELECT
    rows: int | None,  # noqa: ARG001 - read in the connector's own pieces
) -> Split:
    from tidegauge.sources.snowflake.split import SnowflakeSplit

    return SnowflakeSplit(database, source_table, ways, select)


def _spread(splits: tuple[Split, ...]) -> tuple[Split, ...]:
    from tidegauge.sources.snowflake.split import spread

    return spread(splits)


SNOWFLAKE = SourceEngine(
    engine=Engine.SNOWFLAKE,
    rules=RULES,
    open_dialect=_open_dialect,
    literal=literal,
    table_name=table_name,
    types_query=_types_query,
    jdbc_options=None,
    column_way=_column_way,
    make_split=_make_split,
    full_name=_full_name,
    spread=_spread,
)
