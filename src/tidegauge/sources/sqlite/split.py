"""A split of a SQLite table, read by Python's own sqlite3 into Arrow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.errors import TypeNotHeld
from tidegauge.model.arrow import schema_of
from tidegauge.model.spec import Database
from tidegauge.model.table import SourceColumn, SourceTable
from tidegauge.sources.direct_types import ColumnWay, finish_array, value_not_held
from tidegauge.sources.sqlite.engine import translate_error
from tidegauge.sources.sqlite.kept_files import reading

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 20_000


@dataclass(frozen=True)
class SqliteSplit:
    """Implements `model.batch_data.Split`."""

    database: Database
    source_table: SourceTable
    ways: tuple[ColumnWay, ...]
    select: str

    def batches(self) -> Iterator[pa.RecordBatch]:
        path = self.database.path
        assert path is not None
        try:
            with reading(path) as connection:
                cursor = connection.execute(self.select)
                while rows := cursor.fetchmany(_PIECE):
                    yield self._finish(rows)
        except sqlite3.Error as error:
            raise translate_error(path, error) from error

    def _finish(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        import pyarrow as pa

        layout = self.source_table.layout
        values = list(zip(*rows, strict=True))
        count = len(self.source_table.columns)
        # Before anything is converted: a value of another kind than declared is NULL, and its guard is set.
        guards = values[count] if len(values) > count else ()
        bad = next((place for place, number in enumerate(guards) if number is not None), None)
        start = 0 if bad is None else bad
        stop = len(rows) if bad is None else bad + 1
        rows = rows[start:stop]
        columns = [
            self._column(number, column, rows) for number, column in enumerate(self.source_table.columns)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema_of(layout))
        if bad is not None:
            raise value_not_held(
                self.source_table, guards[bad], batch.select(list(layout.key)).to_pylist()[0]
            )
        return batch

    def _show_key(self, row: tuple[Any, ...]) -> str:
        named = {column.name: value for column, value in zip(self.source_table.columns, row, strict=False)}
        keys = [(name, named.get(name)) for name in self.source_table.layout.key]
        texts = (
            (n, value.decode(errors="replace") if isinstance(value, bytes) else value) for n, value in keys
        )
        return ", ".join(f"{name} = {value!r}" for name, value in texts)

    def _column(self, number: int, column: SourceColumn, rows: list[tuple[Any, ...]]) -> pa.Array:
        import pyarrow as pa

        wire = {"bigint": pa.int64(), "double": pa.float64(), "binary": pa.binary(), "string": pa.string()}
        what = f"{self.source_table.table}, column {column.name}"
        try:
            array = pa.array([row[number] for row in rows], wire[column.wire])
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            bad = next((row for row in rows if not _is_text(row[number])), rows[0])
            raise TypeNotHeld(
                f"{what}: text that is not UTF-8 in the row with {self._show_key(bad)}",
                hint="mend the row at the source",
            ) from error
        return finish_array(array, self.ways[number].how, column, what)


def _is_text(value: object) -> bool:
    try:
        return not isinstance(value, bytes) or value.decode() is not None
    except UnicodeDecodeError:
        return False
