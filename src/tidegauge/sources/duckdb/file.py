"""The file of a DuckDB source: how it is opened for a query, and what DuckDB's errors mean."""

from __future__ import annotations

from tidegauge.errors import RuntimeMissing, SourceError, SourceUnreachable, TableMissing
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database
from tidegauge.storage.duckdb_files import DuckDBFile, is_held, open_duckdb

PATIENCE = 30.0
"""Seconds to wait for another process that has the file open."""


def open_file(database: Database) -> DuckDBFile:
    """Open the file read-only, unless this process also writes to it. Raises SourceUnreachable or
    RuntimeMissing."""
    try:
        import duckdb
    except ImportError as error:
        raise RuntimeMissing("reading DuckDB needs the duckdb library", hint="pip install duckdb") from error
    assert database.path is not None
    if not database.path.exists():
        raise SourceUnreachable(
            f"{database.name}: there is no DuckDB file {database.path}",
            hint="check the path in `connections:`",
            retryable=False,
        )
    try:
        file = open_duckdb(database.path, writing=False, patience=PATIENCE)
    except duckdb.Error as error:
        raise _explain_unreachable(database, error) from error
    file.connection.execute("SET TimeZone = 'UTC'")
    return file


def _explain_unreachable(database: Database, error: Exception) -> SourceUnreachable:
    held = is_held(error)
    return SourceUnreachable(
        f"{database.name}: the DuckDB file {database.path} cannot be opened: {first_line(error)}",
        hint="DuckDB lets nobody else read a file that one process has open for writing: close it there, or"
        " open it there with read_only=True, and run again"
        if held
        else "check the path in `connections:`, and that the file is a DuckDB database you may read",
        retryable=held,
    )


def translate(database: Database, error: Exception) -> SourceError:
    import duckdb

    if isinstance(error, duckdb.CatalogException):
        return TableMissing(f"{database.name}: {first_line(error)}", hint="check the table's name")
    return SourceError(f"{database.name}: {first_line(error)}")


def first_line(error: Exception) -> str:
    return mask(str(error).strip().partition("\n")[0])
