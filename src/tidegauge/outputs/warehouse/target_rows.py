"""The rows that a target shows, as Arrow: each value in the source's type, whatever the driver returns.

Rows are read in blocks along the key, each in a transaction of its own: nobody waits for a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import inf
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputError
from tidegauge.model.arrow import type_of
from tidegauge.model.spec import TableName
from tidegauge.model.table import Field
from tidegauge.outputs.warehouse.warehouse import Warehouse, WarehouseSession

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 20_000

_EXACT = Context(prec=60, traps=[Inexact, InvalidOperation])


def read(
    warehouse: Warehouse,
    sessions: Callable[[], AbstractContextManager[WarehouseSession]],
    table: TableName,
    fields: Sequence[Field],
    *,
    key: Sequence[str],
    where: Sequence[str] = (),
    block: int = BLOCK,
) -> Iterator[pa.RecordBatch]:
    """The fields of every row for which the SQL conditions hold; the key's fields are among them. Without a
    key all rows come at once: there is no order to read blocks in."""
    import pyarrow as pa

    schema = pa.schema([pa.field(field.name, type_of(field.type)) for field in fields])
    places = [next(i for i, field in enumerate(fields) if field.name == name) for name in key]
    ordered = [warehouse.name(name) for name in key]
    listed = ", ".join(warehouse.select(field) for field in fields)
    piece, most = _limit_to_block(ordered, block)
    last: tuple[Any, ...] | None = None
    while True:
        past, values = make_condition_after(warehouse, ordered, last) if last is not None else ("", ())
        conditions = " AND ".join(part for part in (*where, past) if part)
        sql = f"SELECT {listed} FROM {warehouse.table(table)}" + (
            f" WHERE {conditions}" if conditions else ""
        )
        with sessions() as session:
            found = session.rows(f"{sql}{piece}", values)
        if found:
            yield _record_batch(table, fields, schema, found)
        if len(found) < most:
            return
        last = tuple(found[-1][place] for place in places)


def _limit_to_block(ordered: Sequence[str], block: int) -> tuple[str, float]:
    """SQL that limits a statement to one block, and the block's size; infinite without a key."""
    return (f" ORDER BY {', '.join(ordered)} LIMIT {int(block)}", block) if ordered else ("", inf)


def _record_batch(
    table: TableName, fields: Sequence[Field], schema: pa.Schema, found: Sequence[tuple[Any, ...]]
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*found, strict=True)
    arrays = [make_array(table, field, values) for field, values in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def make_condition_after(
    warehouse: Warehouse, names: Sequence[str], last: tuple[Any, ...]
) -> tuple[str, tuple[Any, ...]]:
    """SQL condition for the keys after `last`, and its values: what `(a, b) > (?, ?)` means, which not every
    engine has or finds by an index."""
    parts: list[str] = []
    values: list[Any] = []
    for place, name in enumerate(names):
        equal = [f"{before} = {warehouse.placeholder}" for before in names[:place]]
        parts.append(" AND ".join([*equal, f"{name} > {warehouse.placeholder}"]))
        values += last[: place + 1]
    return "(" + " OR ".join(f"({part})" for part in parts) + ")", tuple(values)


def make_array(table: TableName, field: Field, values: Sequence[Any]) -> pa.Array:
    """The driver's values as an Arrow array. Raises OutputError, naming the column, for a value that is not
    of the field's type."""
    import pyarrow as pa

    kind = type_of(field.type)
    make = _choose_converter(kind)
    try:
        return pa.array(
            [None if value is None else make(value) for value in values] if make else values, kind
        )
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        ArithmeticError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise OutputError(
            f"the column {field.name} of {table} holds a value that is not a {field.type}: {error}",
            hint="it was changed by another hand; mend the row",
        ) from error


def _choose_converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The function that turns a driver's value into one of this type; None where Arrow takes it as it is."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_binary(kind):
        return _bytes
    if pa.types.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        return lambda value: _decimal(value, unit)
    if pa.types.is_date(kind):
        return _day
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz else _moment
    return None


def _bytes(value: Any) -> bytes:
    # Where a driver returns text, it is hexadecimal digits.
    return bytes.fromhex(value.removeprefix("\\x")) if isinstance(value, str) else bytes(value)


def _decimal(value: Any, unit: Decimal) -> Decimal:
    # A float comes from SQLite, which keeps decimals of up to 15 digits so; its shortest text is exact.
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    return exact if exact.as_tuple().exponent == unit.as_tuple().exponent else _EXACT.quantize(exact, unit)


def _day(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _moment(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.replace(tzinfo=None)


def _instant(value: Any) -> datetime:
    """A time in UTC. A target without a type for times with a zone holds them in UTC without one."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
