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
from tidegauge.outputs.warehouse.warehouse import Overtaken, Refused
from tidegauge.storage.duckdb_files import DuckDBFile

if TYPE_CHECKING:
    import pyarrow as pa


_LOOK_AFTER = 4
"""New keys after which a session looks how much memory all of them take."""


class DuckDBSession:
    """A `WarehouseSession`. Transactions of one process write one by one: DuckDB lets one of two that change
    the same row fail, and ours are worth the wait."""

    def __init__(self, file: DuckDBFile, path: Path) -> None:
        self._file = file
        self._connection = file.connection
        self._path = path
        self._file_lock = FileLock(path)
        self._began = False
        self.worn = False
        """The file shall be closed soon: much memory is held that DuckDB lets go only then."""
        self.tables: set[str] = set()
        """Quoted names of what was found to be a table, and no view."""
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
        self._execute(sql, values)  # before the first `run` it stands alone: a transaction for it costs twice
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

    def describe(self, table: str) -> list[tuple[str, str, bool, bool]] | None:
        """Name, type, whether it is NOT NULL and whether it is a part of the key, of each column of a quoted
        table or view; None where there is none. Costs the same however many tables there are, which the
        views of the catalogue do not."""
        import duckdb

        sql = 'SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY cid'
        try:
            if self._began:
                self._connection.table(table)  # a statement that does not find it would end the transaction
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
        """A key was made. If keys take more memory than so many bytes, of the whole file, it is worn."""
        self._keys += 1
        if self._keys % _LOOK_AFTER:
            return
        sql = "SELECT SUM(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'ART_INDEX'"
        ((found,),) = self.rows(sql)
        self.worn = int(found or 0) > limit

    def is_view(self, table: str) -> bool:
        """Of what `describe` has found: only tables have rows with numbers. Asked in a transaction of its
        own, which may fail."""
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
