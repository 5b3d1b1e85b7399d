"""Every key of a table, read from the database with one plain statement, without Spark.

On every engine one statement sees the table at one moment. The keys come in no particular order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tidegauge.errors import KeyUnsuitable, TypeNotHeld
from tidegauge.model.arrow import schema_of, type_of
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.spec import Database
from tidegauge.model.table import Field, Layout, SourceColumn, SourceTable
from tidegauge.sources import sql
from tidegauge.sources.dialect import COMMENT, Dialect
from tidegauge.sources.jdbc import only_key
from tidegauge.sources.open import open_dialect
from tidegauge.sources.texts import parse_text

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 50_000


def key_layout(source_table: SourceTable) -> Layout:
    """The layout of a table's key columns alone, in the order of the key."""
    return only_key(source_table).layout


def read_keys(
    database: Database,
    source_table: SourceTable,
    *,
    after: RowPosition | None = None,
    ordered: bool = False,
    rows: int = ROWS_AT_ONCE,
) -> Iterator[pa.RecordBatch]:
    """All keys of the table, or those of the rows past a position, as `schema_of(key_layout(source_table))`.

    `ordered`: without a position, only the keys of rows that have a cursor.

    Raises KeyUnsuitable for a key that is NULL, TypeNotHeld for one that cannot be held exactly.
    """
    narrow = only_key(source_table)
    # A session of its own: the source's has to stay free while this one streams.
    with closing(open_dialect(database)) as dialect:
        every = after is None and not ordered
        where = source_table.filter if every else sql.after(source_table, after, dialect.literal)
        yield from _batches(dialect, narrow, where, rows)


def moment_field(source_table: SourceTable, name: str) -> Field:
    """A field of this name and of the type of the cursor's column."""
    column = _cursor(source_table)
    return Field(name, column.arrives, column.native)


def make_cursor_scalar(source_table: SourceTable, value: Value | None) -> pa.Scalar:
    """One value of the cursor, as its column arrives; NULL if the column's type cannot hold it."""
    import pyarrow as pa

    arrives = _cursor(source_table).arrives
    kind = type_of(arrives)
    if value is None:
        return pa.scalar(None, kind)
    timed = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    try:
        if value.kind is ValueKind.BYTES:
            return pa.scalar(bytes.fromhex(value.text)).cast(kind)
        return pa.scalar(parse_text(value.text, arrives), kind) if timed else pa.scalar(value.text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return pa.scalar(None, kind)


def _cursor(source_table: SourceTable) -> SourceColumn:
    return next(column for column in source_table.columns if column.name == source_table.cursor.name)


def _batches(dialect: Dialect, source_table: SourceTable, where: str, rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = schema_of(source_table.layout)
    guarded = any(column.guard for column in source_table.columns)
    for block in dialect.stream(_select(dialect, source_table, where), rows):
        columns = list(zip(*block, strict=True))
        if guarded:
            _refuse_guarded(source_table, set(columns.pop()))
        arrays = [
            _array(source_table, column, values)
            for column, values in zip(source_table.columns, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _select(dialect: Dialect, source_table: SourceTable, where: str) -> str:
    values = [f"{column.select} AS c{i}" for i, column in enumerate(source_table.columns)]
    guards = [
        f"WHEN {column.guard} THEN {i}" for i, column in enumerate(source_table.columns) if column.guard
    ]
    if guards:
        values.append(f"CASE {' '.join(guards)} END AS g")
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {COMMENT} {', '.join(values)} FROM {sql.relation(source_table, dialect.name)}{condition}"


def _refuse_guarded(source_table: SourceTable, caught: set[Any]) -> None:
    for number in caught - {None}:
        column = source_table.columns[int(number)]
        raise TypeNotHeld(
            f"{source_table.table}: the key column {column.name}, a {column.native}, holds a value that"
            " cannot be"
            " held exactly",
            hint="mend the row, or choose another key",
        )


def _array(source_table: SourceTable, column: SourceColumn, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        made = _finish(column, values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise TypeNotHeld(
            f"{source_table.table}: the key column {column.name} holds a value that is not a"
            f" {column.arrives}",
            hint=f"mend the row, or let it arrive as text: types: {{{column.name}: string}}",
        ) from error
    if made.null_count:
        raise KeyUnsuitable(
            f"{source_table.table}: the key column {column.name} is NULL in some rows",
            hint="name other columns that identify a row: `key: [a, b]`",
        )
    return made


def _finish(column: SourceColumn, values: Sequence[Any]) -> pa.Array:
    """Convert values on the wire to the type that arrives, as `SourceColumn.finish` does in Spark."""
    import pyarrow as pa

    wire, arrives = type_of(column.wire), type_of(column.arrives)
    if pa.types.is_string(wire) and wire != arrives:
        return pa.array(
            [None if text is None else parse_text(text, column.arrives) for text in values], arrives
        )
    if isinstance(next((value for value in values if value is not None), None), str):
        # MySQL's driver gives numbers as text.
        return pa.array(values, pa.string()).cast(wire).cast(arrives)
    return pa.array(values, wire).cast(arrives)
