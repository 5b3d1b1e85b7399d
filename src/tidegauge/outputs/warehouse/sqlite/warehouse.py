"""SQLite: one file, one writer at a time, and columns that hold what they are given."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.canonical import add_functions
from tidegauge.model.secret import mask
from tidegauge.model.spec import TableName
from tidegauge.model.sqlite_codes import is_busy, read_plain_code
from tidegauge.model.table import Field
from tidegauge.model.trace import trace_sql
from tidegauge.model.types import holds, parse_decimal
from tidegauge.outputs.warehouse import lake_files as lake
from tidegauge.outputs.warehouse.file_lock import FileLock
from tidegauge.outputs.warehouse.file_warehouse import FileWarehouse
from tidegauge.outputs.warehouse.fit import Fit, FitVerdict
from tidegauge.outputs.warehouse.spark_rows import ensure_splits
from tidegauge.outputs.warehouse.warehouse import (
    LockTimeout,
    StagingTable,
    ValueRejected,
    WarehouseColumn,
    WarehouseSession,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "TEXT",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "DATETIME",
}
_SPARK = {kind: name for name, kind in _TYPES.items()}
_WHOLE = frozenset({"boolean", "tinyint", "smallint", "int", "bigint"})
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})
_AFFINITIES = {
    **dict.fromkeys(_WHOLE, ("INTEGER", "NUMERIC")),
    **dict.fromkeys(("float", "double"), ("REAL", "NUMERIC", "INTEGER")),
    "binary": ("BLOB",),
    **dict.fromkeys(_MOMENTS, ("TEXT", "NUMERIC")),
}
"""Affinities of the columns that hold every value of a type; `fit` has those for decimals and text."""
_LOOK_SECONDS = 2.0
"""Seconds that `look` waits for a writer."""
_EXACT = 15
"""Digits that SQLite's own numbers keep; decimals with more are kept as text."""


class SQLite(FileWarehouse):
    now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    true = "1"
    false = "0"
    folds_case = True

    def connect(self) -> SQLiteSession:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self._path, timeout=self.patience, isolation_level=None, check_same_thread=False
            )
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()
            add_functions(connection)
        except (sqlite3.Error, OSError) as error:
            raise self._cannot_open(error) from error
        return SQLiteSession(connection, self._path)

    def look(self) -> None:
        uri = f"file:{quote(str(self._path))}?mode=rw"
        try:
            with closing(
                sqlite3.connect(uri, uri=True, timeout=_LOOK_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()
                # This takes only the lock of a writer: nothing is written, not even a journal.
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._cannot_open(error) from error

    def _cannot_open(self, error: sqlite3.Error | OSError) -> OutputUnreachable:
        return self.cannot_open(str(error), held=is_busy(error))

    def columns(self, session: WarehouseSession, table: TableName) -> tuple[Field, ...] | None:
        found = session.rows("SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden <> 1", (table.table,))
        if not found:
            return None
        kinds = session.rows(
            "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')",
            (table.table,),
        )
        if ("view",) in kinds:
            raise OutputError(
                f"{table} in {self.place} is a view", hint="load into another table with `rename:`"
            )
        return tuple(Field(name, _spark_type(declared), declared) for name, declared in found)

    def tables(self, session: WarehouseSession, schema: str | None, prefix: str) -> list[str]:  # noqa: ARG002
        found = session.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return [name for (name,) in found if name.startswith(prefix)]

    def table(self, table: TableName) -> str:
        return self.name(table.table)

    def name(self, identifier: str) -> str:
        if "\0" in identifier:
            raise OutputError(
                f"SQLite has no name {identifier!r}", hint="rename the column, or the table with `rename:`"
            )
        return super().name(identifier)

    def type(self, field: Field, *, key: bool) -> str:
        if size := parse_decimal(field.type):
            return f"DECIMAL{'_TEXT' if size.precision > _EXACT else ''}({size.precision},{size.scale})"
        # Declared as INTEGER, a key of one column is the row's own number (rowid) and needs no index.
        return "INTEGER" if key and field.type == "bigint" else _TYPES[field.type]

    def fit(self, held: Field, field: Field, *, key: bool) -> Fit:  # noqa: ARG002
        """The fit by affinity, which is all that a declared type means to SQLite."""
        kind = _affinity(held.source_type)
        size = parse_decimal(field.type)
        if size:
            exact = kind == "TEXT" or (kind == "INTEGER" and holds(held.type, field.type))
            if size.precision <= _EXACT or exact:
                return Fit(FitVerdict.HOLDS if kind != "BLOB" else FitVerdict.REFUSED)
            return Fit(FitVerdict.NARROW if kind != "BLOB" else FitVerdict.REFUSED)
        if field.type in _AFFINITIES:
            return Fit(FitVerdict.HOLDS if kind in _AFFINITIES[field.type] else FitVerdict.REFUSED)
        return Fit(FitVerdict.HOLDS if kind == "TEXT" or not held.source_type else FitVerdict.REFUSED)

    def misfit(self, held: Field, value: str) -> str:  # noqa: ARG002
        return f"LENGTH(LTRIM(REPLACE(REPLACE({value}, '-', ''), '.', ''), '0')) > {_EXACT}"

    def differs(self, left: str, right: str) -> str:
        return f"{left} IS NOT {right}"

    def load(
        self,
        session: WarehouseSession,
        stage: StagingTable,
        batch_data: BatchRows,
        spark: Callable[[], SparkSession],
    ) -> int:
        assert isinstance(session, SQLiteSession)
        lake.check(batch_data.files)
        columns = [WarehouseColumn(f.name, self.type(f, key=f.name in stage.key)) for f in stage.fields]
        columns.append(WarehouseColumn(stage.ordinal, self.integer_type))
        marks = ", ".join("?" * len(columns))
        with ensure_splits(batch_data, spark) as brought:
            session.run(self.create(stage.table, columns))
            sql = f"INSERT INTO {self.table(stage.table)} VALUES ({marks})"
            rows = 0
            for number, split in enumerate(brought.splits):
                for batch in split.batches():
                    rows += session.many(sql, _tuples(batch, stage, number))
            session.commit()
        return rows


class SQLiteSession:
    """A `WarehouseSession`. Writers wait for those of this process, and for others up to `patience`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file_lock = FileLock(path)

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        self._begin()
        return max(self._execute(sql, values).rowcount, 0)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def many(self, sql: str, rows: Iterator[tuple[Any, ...]]) -> int:
        self._begin()
        try:
            return self._connection.executemany(sql, rows).rowcount
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def commit(self) -> None:
        if self._connection.in_transaction:
            self._execute("COMMIT", ())
        self._file_lock.release()

    def rollback(self) -> None:
        try:
            self._connection.rollback()
        except sqlite3.Error:
            pass  # the transaction has ended already
        finally:
            self._file_lock.release()

    def close(self) -> None:
        self.rollback()
        self._connection.close()

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._file_lock.acquire()
            self._execute("BEGIN IMMEDIATE", ())

    def _execute(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        trace_sql("warehouse", sql)
        try:
            return self._connection.execute(sql, tuple(values))
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> OutputError:
        code, text = read_plain_code(error), mask(str(error))
        if is_busy(error):
            return LockTimeout(f"another process writes to {self._path}")
        if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH):
            return ValueRejected(text)
        if code in (
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        ):
            return OutputUnreachable(
                f"{self._path}: {text}",
                hint="check the disk, its free space and the file's permissions, then run again",
            )
        return OutputError(f"{self._path}: {text}")


def _tuples(batch: pa.RecordBatch, stage: StagingTable, number: int) -> Iterator[tuple[Any, ...]]:
    columns = [_values(column, field) for column, field in zip(batch.columns, stage.fields, strict=True)]
    return zip(*columns, [number] * batch.num_rows, strict=True)


def _values(column: pa.Array, field: Field) -> list[Any]:
    """Values as they are given to SQLite: decimals as text, and times as text that sorts as the times do."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        if pc.any(pc.is_nan(column)).as_py():
            raise ValueRejected(f"the column {field.name} has a NaN, which SQLite would keep as NULL")
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.string())
    elif pa.types.is_decimal(column.type):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    elif pa.types.is_date(column.type):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    return values


def _spark_type(declared: str) -> str:
    if size := parse_decimal(declared.upper().replace("_TEXT", "", 1)):
        return f"decimal({size.precision},{size.scale})"
    if known := _SPARK.get(declared.upper()):
        return known
    return {"INTEGER": "bigint", "TEXT": "string", "REAL": "double", "BLOB": "binary"}.get(
        _affinity(declared), ""
    )


def _affinity(declared: str) -> str:
    """The affinity of a declared type, by SQLite's own rules in their order."""
    name = declared.upper()
    if "INT" in name:
        return "INTEGER"
    if any(word in name for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not name or "BLOB" in name:
        return "BLOB"
    return "REAL" if any(word in name for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"
