"""How each column travels without Spark: the SQL for it, and how Arrow converts the answer.

The same values arrive as through JDBC; only the form on the wire differs. A decimal travels as a whole number
in units of its last digit, or as text if it is too wide for that; a date or a timestamp as a number of days
or microseconds, or as the driver's own type, which has no dates that do not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegauge.errors import TypeNotHeld
from tidegauge.model.arrow import schema_of, type_of
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.model.types import parse_decimal
from tidegauge.sources.texts import parse_text
from tidegauge.sources.types import FINISH

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST_WHOLE = 18
"""Digits that a 64-bit integer always holds."""
_OLDEST_DAY = -719162
"""0001-01-01, in days since 1970."""


class BeforeYear1(Exception):
    """A date or a timestamp before the year 1, which the driver can hold and an output cannot."""


@dataclass(frozen=True)
class ColumnWay:
    """How one column travels. `how` names the way in which `finish_array` converts the value on the wire."""

    select: str
    how: str
    guarded: bool
    """The SELECT has to ask for the column's guard. False: it has none, or the driver refuses bad values."""


OwnWay = Callable[[SourceColumn], ColumnWay | None]
"""An engine's own way for a column; None for the usual one. See `SourceEngine.column_way`."""


def column_ways(source_table: SourceTable, own_way: OwnWay) -> tuple[ColumnWay, ...]:
    """The way of each column. Raises TypeNotHeld for a column that only Spark's SQL can convert."""
    return tuple(_way(source_table, column, own_way) for column in source_table.columns)


def why_no_way(source_table: SourceTable, own_way: OwnWay) -> str | None:
    """Why a table cannot be read without Spark: its first column that only Spark's SQL can convert. None if
    it can."""
    try:
        column_ways(source_table, own_way)
    except TypeNotHeld as error:
        return error.message
    return None


def plain_decimal(column: SourceColumn) -> tuple[int, int] | None:
    """Precision and scale of a decimal that the database itself gives as one; None for other columns."""
    return parse_decimal(column.arrives) if column.finish == "{}" else None


def _way(source_table: SourceTable, column: SourceColumn, own_way: OwnWay) -> ColumnWay:
    guarded = column.guard is not None
    if column.wire == "string" and column.arrives != "string":
        return ColumnWay(column.select, "parsed", guarded)
    if own := own_way(column):
        return own
    if column.finish == FINISH["date"]:
        return ColumnWay(column.select, "days", guarded)
    if column.finish in (FINISH["timestamp"], FINISH["timestamp_ntz"]):
        return ColumnWay(column.select, "micros", guarded)
    if column.finish in ("{}", "CAST({} AS float)"):
        return ColumnWay(column.select, "cast", guarded)
    raise TypeNotHeld(
        f"{source_table.table}: column {column.name}, a {column.native}, can only be read through"
        " Spark's SQL",
        hint="leave `read:` at auto, or set it to jdbc",
    )


def finish_array(array: pa.Array, how: str, column: SourceColumn, what: str) -> pa.Array:
    """Convert the driver's column to the type that arrives; no value changes. Raises TypeNotHeld or
    BeforeYear1."""
    import pyarrow as pa

    target = type_of(column.arrives)
    match how:
        case "cast":
            return _cast(array, target)
        case "moment":
            return _refuse_before_year_1(array.cast(target))
        case "days":
            return array.cast(pa.int32()).cast(target)
        case "micros":
            return array.cast(pa.int64()).cast(target)
        case "units":
            whole = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
            # Take the same integers as decimals, with the point in its place.
            return pa.Array.from_buffers(target, len(whole), whole.buffers(), whole.null_count, whole.offset)
        case "digits":
            return array.cast(target)
        case "whole":
            # The driver gives an integer type that is as narrow as the values, or a decimal.
            wide = array.cast(pa.decimal128(19, 0)) if pa.types.is_integer(array.type) else array
            return wide.cast(target)
        case "parsed":
            return pa.array([_parse(text, column, what) for text in array.to_pylist()], target)
        case _:
            raise AssertionError(how)


def finish_batch(
    batch: pa.RecordBatch, source_table: SourceTable, ways: tuple[ColumnWay, ...]
) -> pa.RecordBatch:
    """Convert the driver's batch. A last extra column, if there is one, has the number of the column that a
    guard stops.

    Raises TypeNotHeld, which names the row, for a value that cannot be held exactly.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        finish_array(batch.column(number), way.how, column, f"{source_table.table}, column {column.name}")
        for number, (way, column) in enumerate(zip(ways, source_table.columns, strict=True))
    ]
    ready = pa.RecordBatch.from_arrays(columns, schema=schema_of(source_table.layout))
    if batch.num_columns > len(columns):
        guard = batch.column(len(columns))
        if guard.null_count < len(guard):
            first = pc.indices_nonzero(pc.is_valid(guard))[0].as_py()
            key = ready.select([part.name for part in source_table.key]).slice(first, 1)
            raise value_not_held(source_table, int(guard[first].as_py()), key.to_pylist()[0])
    return ready


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast between types that hold the same values; any other pair is a bug, of the driver's or ours."""
    import pyarrow as pa

    given = array.type
    if given == target:
        return array
    alike = (
        (pa.types.is_integer(given) and (pa.types.is_integer(target) or pa.types.is_decimal(target)))
        or (pa.types.is_floating(given) and pa.types.is_floating(target))
        or (_is_bytes(given) and (_is_bytes(target) or pa.types.is_string(target)))
        or (pa.types.is_large_string(given) and pa.types.is_string(target))
    )
    if not alike:
        raise AssertionError(f"the driver gave {given} for {target}")
    if pa.types.is_uint64(given) and pa.types.is_decimal(target):
        return array.cast(pa.decimal128(20, 0)).cast(target)
    return array.cast(target)


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _refuse_before_year_1(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    days = pa.types.is_date32(array.type)
    oldest = pc.min(array.cast(pa.int32() if days else pa.int64())).as_py()
    if oldest is not None and oldest < _OLDEST_DAY * (1 if days else 86_400_000_000):
        raise BeforeYear1
    return array


def _parse(text: str | None, column: SourceColumn, what: str) -> Any:
    """Parse text that `types:` makes another type. Raises TypeNotHeld, with the text in it."""
    if text is None:
        return None
    try:
        return parse_text(text, column.arrives)
    except ValueError:
        raise TypeNotHeld(
            f"{what}: not a {column.arrives}: {text}",
            hint="mend the row at the source, or say how the column shall arrive with `types:`",
        ) from None


def value_not_held(source_table: SourceTable, number: int, row: dict[str, Any]) -> TypeNotHeld:
    """The error that stops a batch, with the column and the row's key; `row` has the key as it arrives."""
    column = source_table.columns[number]
    key = ", ".join(_show(row[part.name]) for part in source_table.key)
    return TypeNotHeld(
        f"{source_table.table}: column {column.name}, a {column.native}, holds a value that cannot be"
        " held exactly,"
        f" in the row with the key {key}",
        hint="mend the row at the source, or say how the column shall arrive with `types:`",
    )


def _show(value: Any) -> str:
    """A value as the text that Spark's SQL writes for it; bytes as hexadecimal digits."""
    match value:
        case None:
            return "?"
        case bytes():
            return value.hex().upper()
        case bool():
            return str(value).lower()
        case datetime():
            text = value.replace(tzinfo=None).isoformat(" ", "seconds")
            return text + f".{value.microsecond:06d}".rstrip("0").rstrip(".")
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
