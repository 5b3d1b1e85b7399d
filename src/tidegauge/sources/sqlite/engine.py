"""Reading SQLite: names and values in its SQL, the file's address, and Python's own driver for the rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote as percent

from tidegauge.errors import SourceError, SourceUnreachable
from tidegauge.model.batch_data import Split
from tidegauge.model.engines import Engine
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import Database, TableName
from tidegauge.model.sqlite_codes import is_busy
from tidegauge.model.table import SourceTable
from tidegauge.sources.dialect import Dialect, refuse_nul
from tidegauge.sources.direct_types import ColumnWay
from tidegauge.sources.engine import SourceEngine
from tidegauge.sources.jdbc_address import ROWS_AT_ONCE
from tidegauge.sources.sqlite.types import RULES

UNTYPED = "column without a type"
"""What people read as the type of a column that is declared without one."""


def uri(path: Path) -> str:
    """The read-only SQLite URI of a file, whatever characters its name has."""
    return f"file:{percent(str(path))}?mode=ro"


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    match value.kind:
        case ValueKind.INT:
            return value.text
        case ValueKind.BYTES:
            return f"X'{value.text}'"
        case (
            ValueKind.DECIMAL | ValueKind.DATE | ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ | ValueKind.TEXT
        ):
            # As hexadecimal digits: no text can end the literal, and a NUL in it is kept.
            return f"CAST(X'{value.text.encode().hex()}' AS TEXT)"


def table_name(table: TableName) -> str:
    return quote(table.table)


def translate_error(path: Path, error: sqlite3.Error | UnicodeError) -> SourceError:
    """The driver's error as one of ours."""
    if is_busy(error):
        return SourceUnreachable(
            f"{path} is locked by another process", hint="run again when its writer is done"
        )
    return SourceError(f"{path}: {error}")


def _types_query(database: Database, table: TableName) -> str:  # noqa: ARG001 - a session has one database
    name = literal(Value(ValueKind.TEXT, table.table))
    return f"SELECT name, coalesce(nullif(type, ''), '{UNTYPED}') FROM pragma_table_xinfo({name})"


def _open_dialect(database: Database) -> Dialect:
    from tidegauge.sources.sqlite.dialect import SqliteDialect

    return SqliteDialect(database)


def _jdbc_options(database: Database) -> dict[str, str]:
    assert database.path is not None
    return {
        "url": f"jdbc:sqlite:{uri(database.path)}",
        "driver": "org.sqlite.JDBC",
        "open_mode": "1",
        "busy_timeout": "30000",
        "fetchsize": ROWS_AT_ONCE,
    }


def _make_split(
    database: Database,
    source_table: SourceTable,
    ways: tuple[ColumnWay, ...],
    select: str,
    *,
    guard_query: str | None,  # noqa: ARG001 - every guard is part of the SELECT
    rows: int | None,  # noqa: ARG001 - read in blocks, however many there are
) -> Split:
    from tidegauge.sources.sqlite.split import SqliteSplit

    return SqliteSplit(database, source_table, ways, select)


SQLITE = SourceEngine(
    engine=Engine.SQLITE,
    rules=RULES,
    open_dialect=_open_dialect,
    literal=literal,
    table_name=table_name,
    types_query=_types_query,
    jdbc_options=_jdbc_options,
    make_split=_make_split,
)
