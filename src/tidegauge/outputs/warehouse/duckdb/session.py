"""One connection to a DuckDB file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.trace import trace_sql
from tidegauge.outputs.warehouse.file_lock import FileLock
from tidegauge.outputs.warehouse.warehouse import ValueRejected, WriteConflict
from tidegauge.storage.duckdb_files import DuckDBFile

if TYPE_CHECKING:
    import pyarrow as pa


_LOOK_AFTER = 4
"""After every so many new keys, a session reads how much memory all keys take."""


class DuckDBSession:
    """A `WarehouseSession`. Writing transactions of this process wait for each other: of two that change the
    same row, DuckDB would let one fail."""

    def __init__(self, file: DuckDBFile, path: Path) -> None:
        self._file = file
        self._connection = file.connection
        self._path = path
        self._file_lock = FileLock(path)
        self._began = False
        self.worn = False
        """Whether the file is to be closed soon: keys hold much memory that DuckDB frees only then."""
        self.tables: set[str] = set()
        """Quoted names that were found to be tables, not views."""
        self._keys = 0

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        self._begin()
        self._execute(sql, values)
        described = self._connection.description
        if described and described[0][0] == "Count":
            row = self._connection.fetchone()
            return int(row[0]) if row else 0
        return 0

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._execute(sql, values)  # alone before the first `run`: a transaction for it would cost twice
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
        self._file.close()

    def alone(self, sql: str) -> None:
        """Run a statement on a table of this attempt alone, in its own transaction; waits for no writer."""
        self.rollback()
        self._execute(sql)

    def take_in(self, table: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int:
        """Insert Arrow batches, by position, into a table that only this attempt uses; waits for no writer.
        Returns the number of rows."""
        import pyarrow as pa

        failure: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as error:  # else DuckDB would raise it as an error of its own
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

    def describe(self, table: str) -> list[tuple[str, str, bool, bool]] | None:
        """Name, type, whether it is NOT NULL and whether it is a part of the key, of each column of a quoted
        table or view; None where there is no such name. Unlike the catalogue's views, it costs the same
        however many tables there are."""
        import duckdb

        sql = 'SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY cid'
        try:
            if self._began:
                self._connection.table(table)  # a statement on a missing table would end the transaction
            found = self.rows(sql, (table,))
        except duckdb.CatalogException:
            return None
        except duckdb.Error as error:
            raise OutputError(f"{self._path}: {first_line(error)}") from error
        except OutputError as error:
            if isinstance(error.__cause__, duckdb.CatalogException):
                return None
            raise
        return [(str(name), str(kind), bool(no), bool(pk)) for name, kind, no, pk in found]

    def count_key(self, limit: int) -> None:
        """Count a key that was made; mark the session as worn where the file's keys take more than `limit`
        bytes of memory."""
        self._keys += 1
        if self._keys % _LOOK_AFTER:
            return
        sql = "SELECT SUM(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'ART_INDEX'"
        ((found,),) = self.rows(sql)
        self.worn = int(found or 0) > limit

    def is_view(self, table: str) -> bool:
        """Whether a name that `describe` has found is a view: only tables have `rowid`. Asked in a
        transaction of its own, which may fail."""
        import duckdb

        with self._connection.cursor() as beside:
            try:
                beside.execute(f"SELECT rowid FROM {table} LIMIT 0")
            except duckdb.BinderException:
                return True
            except duckdb.CatalogException:
                return False  # this session has just made it
            except duckdb.Error as error:
                raise OutputError(f"{self._path}: {first_line(error)}") from error
        return False

    def _begin(self) -> None:
        self._file_lock.acquire()
        if not self._began:
            self._execute("BEGIN")
            self._began = True

    def _end(self) -> None:
        self._began = False
        self._file_lock.release()

    def _execute(self, sql: str, values: Sequence[object] = ()) -> None:
        trace_sql("warehouse", sql)
        import duckdb

        try:
            self._connection.execute(sql, list(values) if values else None)
        except duckdb.TransactionException as error:
            message = first_line(error)
            raise (ValueRejected if "constraint" in message else WriteConflict)(message) from error
        except (duckdb.IntegrityError, duckdb.DataError) as error:
            raise ValueRejected(first_line(error)) from error
        except (duckdb.IOException, duckdb.ConnectionException, duckdb.InternalException) as error:
            raise OutputUnreachable(
                f"{self._path}: {first_line(error)}",
                hint="check the disk and its free space; the next run goes on where this one stopped",
            ) from error
        except (duckdb.Error, RuntimeError) as error:
            raise OutputError(f"{self._path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    return mask(str(error).strip().partition("\n")[0])
