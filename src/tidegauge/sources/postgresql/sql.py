"""PostgreSQL's own SQL: names, values, and what every session of ours sets first."""

from __future__ import annotations

from tidegauge.errors import SourceError
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import TableName
from tidegauge.sources.dialect import refuse_nul

SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres';"
    " SET bytea_output = 'hex'; SET xmloption = 'content'"
)
DEFAULT_PORT = 5432


def quote(name: str) -> str:
    return '"' + refuse_nul(name).replace('"', '""') + '"'


def literal(value: Value) -> str:
    """Always an untyped literal, so that it takes the type of what it is compared with."""
    text = value.text
    if value.kind is ValueKind.BYTES:
        text = f"\\x{text}"
    elif value.kind is ValueKind.TIMESTAMPTZ:
        text = f"{text}+00"
    elif value.kind is ValueKind.TEXT and "\0" in text:
        raise SourceError("a position holds a NUL character, which PostgreSQL's text never does")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{escaped}'"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema or 'public')}.{quote(table.table)}"
