"""One connection to a DuckDB file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.outputs.warehouse import open_files as keep
from tidegauge.outputs.warehouse.file_lock import FileLock
from tidegauge.outputs.warehouse.warehouse import Overtaken, Refused
from tidegauge.storage.duckdb_files import DuckDBFile

if TYPE_CHECKING:
    import pyarrow as pa


class DuckDBSession:
    """A `WarehouseSession`. Transactions of one process write one by one: DuckDB lets one of two that change
    the same row fail, and ours are worth the wait."""

    def __init__(self, file: DuckDBFile, path: Path) -> None:
        self._file = file
        self._connection = file.connection
        self._path = path
        self._file_lock = FileLock(path)
        self._began = False

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        self._begin(writing=True)
        self._execute(sql, values)
        described = self._connection.description
        if described and described[0][0] == "Count":
            row = self._connection.fetchone()
            return int(row[0]) if row else 0
        return 0

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._begin(writing=False)
        self._execute(sql, values)
        return self._connection.fetchall()

    def commit(self) -> None:
        try:
            if self._began:
                self._execute("COMMIT")
        finally:
            self._end()

    def rollback(self) -> None:
        try:
            if self._began:
                self._execute("ROLLBACK")
        except TidegaugeError:
            pass  # a failed COMMIT has ended it already
        finally:
            self._end()

    def close(self) -> None:
        self.rollback()
        keep.close(self._file.path, self._file.close)

    def alone(self, sql: str) -> None:
        """Run a statement about a table of ours as a transaction of its own; waits for no writer."""
        self.rollback()
        self._execute(sql)

    def take_in(self, table: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int:
        """Bring Arrow batches into a table of ours, by position; waits for no writer. Returns how many."""
        import pyarrow as pa

        failure: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:  # else DuckDB would show it as its own
                failure.append(error)
                raise

        name = f"tidegauge_{uuid.uuid4().hex}"
        reader = pa.RecordBatchReader.from_batches(schema, watched())
        self._connection.register(name, reader)
        try:
            self._execute(f'INSERT INTO {table} SELECT * FROM "{name}"')
            row = self._connection.fetchone()
            return int(row[0]) if row else 0
        except TidegaugeError as error:
            raise (failure[0] if failure else error) from error
        finally:
            self._connection.unregister(name)

    def _begin(self, *, writing: bool) -> None:
        if writing:
            self._file_lock.acquire()
        if not self._began:
            self._execute("BEGIN")
            self._began = True

    def _end(self) -> None:
        self._began = False
        self._file_lock.release()

    def _execute(self, sql: str, values: Sequence[object] = ()) -> None:
        import duckdb

        try:
            self._connection.execute(sql, list(values) if values else None)
        except duckdb.TransactionException as error:
            message = first_line(error)
            raise (Refused if "constraint" in message else Overtaken)(message) from error
        except (duckdb.IntegrityError, duckdb.DataError) as error:
            raise Refused(first_line(error)) from error
        except (duckdb.IOException, duckdb.ConnectionException, duckdb.InternalException) as error:
            raise OutputUnreachable(
                f"{self._path}: {first_line(error)}",
                hint="check the disk and its free space; the next run goes on where this one stopped",
            ) from error
        except (duckdb.Error, RuntimeError) as error:
            raise OutputError(f"{self._path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    return mask(str(error).strip().partition("\n")[0])
