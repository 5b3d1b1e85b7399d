"""DuckDB's SQL of a row's hash. `concat` writes NULL as ''."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.model.canonical import FormKind
from tidegauge.model.engines import Engine, hash_in_sql
from tidegauge.model.types import parse_decimal

_WIDEST = 38


class DuckdbHash:
    floats = ""
    check = ""
    in_process = False
    whole = ""

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        texts = ", ',', ".join(map(_text, columns))
        return hash_in_sql(Engine.DUCKDB, f"concat({texts})")

    def total(self, expression: str) -> str:
        return f"SUM({expression})"


def _text(column: HashedColumn) -> str:
    value = column.expression
    match column.form.kind:
        case FormKind.TEXT:
            return f"strlen({value}), ':', {value}"
        case FormKind.BYTES:
            return f"'x' || lower(hex({value}))"
        case _ if column.type == "date":
            return f"({value} - DATE '1970-01-01')"
        case _ if column.type in ("timestamp", "timestamp_ntz"):
            return f"epoch_us({value})"
        case _ if column.type == "boolean":
            value, scale = f"CAST({value} AS INTEGER)", 0
        case _:
            size = parse_decimal(column.type)
            scale = size.scale if size else 0
            if size and not size.whole and scale == column.form.scale:
                # DuckDB writes a decimal without digits before the point as `.5`, not `0.5`.
                minus = f"CASE WHEN {value} < 0 THEN '-0' WHEN {value} >= 0 THEN '0' END"
                return f"{minus}, ltrim(CAST({value} AS VARCHAR), '-')"
    if scale == column.form.scale:
        return value
    return f"CAST({value} AS DECIMAL({_WIDEST}, {column.form.scale}))"
