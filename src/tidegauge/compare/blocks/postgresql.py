"""PostgreSQL's SQL of a row's hash. `concat` writes each value as its type's output does, and NULL as ''."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.model.canonical import FormKind
from tidegauge.model.engines import Engine, hash_in_sql
from tidegauge.model.types import parse_decimal

_ARGUMENTS = 90
"""Arguments in one call at most; the server's limit is 100."""


class PostgresqlHash:
    floats = "postgresql"
    # The MD5 of a text is that of its bytes in the server's encoding. Fewer digits would hide a difference:
    # up to version 11, less than 3 gives too few.
    check = (
        "SELECT CASE WHEN current_setting('server_encoding') = 'UTF8'"
        " AND current_setting('extra_float_digits')::int >= 3 THEN 1 ELSE 0 END"
    )
    in_process = False
    whole = ""

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        parts: list[str] = []
        for column in columns:
            parts += [*(["','"] if parts else []), *_texts(column)]
        return hash_in_sql(Engine.POSTGRESQL, _concat(parts))

    def total(self, expression: str) -> str:
        return f"SUM({expression})"


def _concat(parts: list[str]) -> str:
    if len(parts) <= _ARGUMENTS:
        return f"concat({', '.join(parts)})"
    groups = [parts[at : at + _ARGUMENTS] for at in range(0, len(parts), _ARGUMENTS)]
    return _concat([_concat(group) for group in groups])


def _texts(column: HashedColumn) -> list[str]:
    value = column.expression
    match column.form.kind:
        case FormKind.TEXT:
            # For char(n) both parts include the padding, which a cast to text would remove.
            return [f"octet_length({value})", "':'", value]
        case FormKind.BYTES:
            return [f"'x' || encode({value}, 'hex')"]
        case FormKind.FLOAT:
            return [f"CASE WHEN {value} = 0 THEN '0' ELSE ({value})::float8::text END"]
        case _ if column.type == "date":
            return [f"({value} - '1970-01-01'::date)"]
        case _ if column.type in ("timestamp", "timestamp_ntz"):
            return [f"(extract(epoch FROM {value}) * 1000000)::bigint"]
        case _ if column.type == "boolean":
            value, scale = f"({value})::int", 0
        case _:
            size = parse_decimal(column.type)
            scale = size.scale if size else 0
    return [value if scale == column.form.scale else f"round({value}, {column.form.scale})"]
