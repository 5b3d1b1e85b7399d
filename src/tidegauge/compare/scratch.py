"""A scratch database on disk, in which two sides of a table are compared by key, whatever their size.

Texts are compared byte by byte, without a collation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY = "160MB"
"""Memory that the scratch database may use; the rest lies on disk."""


@contextmanager
def scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="tidegauge-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": str(Path(folder) / "spill"),
            "threads": 2,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            yield connection
        finally:
            connection.close()


def fill(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    values: Sequence[str],
) -> int:
    """Put SQL `values` over the columns c0, c1, … of every batch into a table; returns the number of rows."""
    import pyarrow as pa

    plain = pa.schema([pa.field(f"c{i}", _storage_type(field.type)) for i, field in enumerate(schema)])
    selected = f"SELECT {', '.join(values)} FROM part"
    empty = plain.empty_table()
    connection.register("part", empty)
    connection.execute(f"CREATE TABLE {table} AS {selected}")
    rows = 0
    for batch in batches:
        connection.register("part", pa.Table.from_arrays(_plain(batch, schema), schema=plain))
        connection.execute(f"INSERT INTO {table} {selected}")
        rows += batch.num_rows
    connection.unregister("part")
    return rows


def restore(found: pa.Table, schema: pa.Schema) -> pa.Table:
    """A result of the scratch database, with its columns in the types of `schema` again."""
    import pyarrow as pa

    columns = [
        column.cast(_storage_type(field.type)).cast(field.type)
        for column, field in zip(found.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """The columns of the schema as the scratch database stores them. Raises OutputDisagrees where one is
    missing or cannot be cast."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        try:
            arrays.append(batch.column(field.name).cast(field.type).cast(_storage_type(field.type)))
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise OutputDisagrees(
                f"column {field.name} cannot be compared as {field.type}: {error}",
                hint="it was changed since it was delivered; `tidegauge plan` says what the next run does",
            ) from error
    return arrays


def _storage_type(kind: pa.DataType) -> pa.DataType:
    """The type in which the scratch database stores a value: times are microseconds, without a zone."""
    import pyarrow as pa

    return pa.int64() if pa.types.is_timestamp(kind) else kind
