"""Turns Spark's type names into Arrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.table import Layout
from tidegauge.model.types import parse_decimal

if TYPE_CHECKING:
    import pyarrow as pa


def schema_of(layout: Layout) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(field.name, type_of(field.type)) for field in layout.fields])


def type_of(name: str) -> pa.DataType:
    """Return the Arrow type of a Spark type name. Timestamps have microseconds; `timestamp` is in UTC."""
    import pyarrow as pa

    if size := parse_decimal(name):
        return pa.decimal128(*size)
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[name]
