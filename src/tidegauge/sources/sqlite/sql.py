"""SQLite's own SQL: names, values, and the file's address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote as percent

from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import TableName
from tidegauge.sources.dialect import refuse_nul


def uri(path: Path) -> str:
    """The file as SQLite's own address, whatever characters its name has."""
    return f"file:{percent(str(path))}?mode=ro"


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    match value.kind:
        case ValueKind.INT:
            return value.text
        case ValueKind.BYTES:
            return f"X'{value.text}'"
        case _:
            # As bytes: nothing in a text can end the literal, and a NUL in it counts.
            return f"CAST(X'{value.text.encode().hex()}' AS TEXT)"


def table_name(table: TableName) -> str:
    return quote(table.table)
