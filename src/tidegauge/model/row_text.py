"""Rows as JSON and back, without loss: every digit, microseconds, NULLs; bytes in base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def write_rows(batch: pa.RecordBatch) -> Iterator[str]:
    names = [json.dumps(name, ensure_ascii=False) for name in batch.schema.names]
    columns = [_write_column(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield "{" + ",".join(f"{name}:{value}" for name, value in zip(names, row, strict=True)) + "}"


def read_rows(texts: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Parse what `write_rows` wrote. A column that a text lacks is NULL. Raises ValueError for a value that
    does not fit its column."""
    import pyarrow as pa

    bodies = [json.loads(text, parse_float=Decimal) for text in texts]
    try:
        arrays = [
            pa.array(
                [
                    None if (value := body.get(field.name)) is None else _choose_reader(field.type)(value)
                    for body in bodies
                ],
                field.type,
            )
            for field in schema
        ]
    except (ArithmeticError, TypeError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_column(column: pa.Array) -> list[str]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        # Not through Python's datetime, which ends at the year 9999.
        zone = "Z" if kind.tz else ""
        texts = column.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
        return ["null" if text is None else f'"{text.replace(" ", "T")}{zone}"' for text in texts]
    if pa.types.is_date(kind):
        column = column.cast(pa.string())
    return ["null" if value is None else _write_value(value) for value in column.to_pylist()]


def _write_value(value: Any) -> str:
    match value:
        case Decimal():
            return format(value, "f")
        case bytes():
            return json.dumps(base64.b64encode(value).decode("ascii"))
        case float() if value != value or value in (float("inf"), float("-inf")):
            return json.dumps({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)])
        case _:
            return json.dumps(value, ensure_ascii=False)


def _choose_reader(kind: pa.DataType) -> Callable[[Any], Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_binary(kind):
        return base64.b64decode
    if pa.types.is_floating(kind):
        return float
    return lambda value: value
