"""MySQL's and MariaDB's own SQL: names, values, and what every session of ours sets first."""

from __future__ import annotations

from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import TableName
from tidegauge.sources.dialect import refuse_nul

SESSION = "time_zone = '+00:00', sql_mode = '', net_write_timeout = 600"
"""`sql_mode` is emptied because one of its words pads CHAR values, and others change what quotes mean."""
DEFAULT_PORT = 3306


def quote(name: str) -> str:
    return "`" + refuse_nul(name).replace("`", "``") + "`"


def literal(value: Value) -> str:
    match value.kind:
        case ValueKind.INT | ValueKind.DECIMAL:
            return value.text
        case ValueKind.DATE:
            return f"DATE'{value.text}'"
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
            return f"TIMESTAMP'{_micros(value.text)}'"
        case ValueKind.BYTES:
            return f"X'{value.text}'"
        case ValueKind.TEXT:
            # As bytes: no quote, escape or sql_mode can change what it says.
            return f"_utf8mb4 X'{value.text.encode().hex()}'"


def table_name(table: TableName) -> str:
    return f"{quote(table.schema)}.{quote(table.table)}" if table.schema else quote(table.table)


def _micros(text: str) -> str:
    """MySQL rounds a seventh digit up; a bound is cut instead."""
    whole, point, fraction = text.partition(".")
    return f"{whole}{point}{fraction[:6]}"
