"""MySQL's and MariaDB's SQL of a row's hash. Texts are hashed as bytes, so that no collation matters."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.compare.blocks.words import HashedColumn
from tidegauge.model.canonical import DIGITS, FormKind
from tidegauge.model.engines import Engine, hash_in_sql
from tidegauge.model.types import parse_decimal

_WIDEST = 65


class MysqlHash:
    floats = "mysql"
    check = ""
    in_process = False
    whole = " USE INDEX ()"

    def hash(self, columns: Sequence[HashedColumn]) -> str:
        texts = ", ',', ".join(map(_text, columns))
        # A row longer than the server's `max_allowed_packet` has no hash: a random number takes its place, so
        # that the row differs and is compared by its values.
        unlike = f"CAST(FLOOR(RAND() * {16**DIGITS}) AS SIGNED)"
        return f"IFNULL({hash_in_sql(Engine.MYSQL, f'CONCAT({texts})')}, {unlike})"

    def total(self, expression: str) -> str:
        return f"SUM({expression})"


def _text(column: HashedColumn) -> str:
    value = column.expression
    match column.form.kind:
        case FormKind.TEXT:
            text = f"CONVERT({value} USING utf8mb4)"
            return f"IFNULL(CONCAT(LENGTH({text}), ':', CAST({text} AS BINARY)), ':')"
        case FormKind.BYTES:
            return f"IFNULL(CONCAT('x', LOWER(HEX({value}))), '')"
        case FormKind.FLOAT:
            return f"IFNULL(CASE WHEN {value} = 0 THEN '0' ELSE CAST({value} + 0e0 AS CHAR) END, '')"
        case _ if column.type == "date":
            value, scale = f"(TO_DAYS({value}) - 719528)", 0
        case _ if column.type in ("timestamp", "timestamp_ntz"):
            value, scale = f"TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {value})", 0
        case _:
            size = parse_decimal(column.type)
            scale = size.scale if size else 0
    if scale != column.form.scale:
        value = f"CAST({value} AS DECIMAL({_WIDEST}, {column.form.scale}))"
    # Without `+ 0`, a column declared with ZEROFILL would show its zeros.
    return f"IFNULL(CAST({value} + 0 AS CHAR), '')"
