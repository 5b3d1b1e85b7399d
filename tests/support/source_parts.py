"""Shared by the tests of sources: databases to read from, and surveys and batches of their tables."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb

from tests.support.servers import MariaDB, Postgres
from tests.support.snowflake_server import SnowflakeServer
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Window
from tidegauge.model.secret import Secret
from tidegauge.model.spec import Database, Engine, NullCursor, TableName, TableOptions
from tidegauge.model.table import SourceTable, Survey
from tidegauge.sources import sql
from tidegauge.sources.engines import find_engine
from tidegauge.sources.jdbc import JdbcReader
from tidegauge.sources.open import open_source

NOW = timedelta(0)
_BARE_AT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bat\b""")


@dataclass(frozen=True)
class Place:
    """A fresh database, and a way to run statements in it with autocommit."""

    database: Database
    run: Callable[[str], Any]
    connect: Callable[[], Any]

    @property
    def engine(self) -> Engine:
        return self.database.engine

    def table(self, name: str) -> TableName:
        match self.engine:
            case Engine.SQLITE:
                return TableName(None, name)
            case Engine.MYSQL:
                return TableName(self.database.database, name)
            case Engine.DUCKDB:
                return TableName("main", name)
            case Engine.SNOWFLAKE:
                return TableName(self.database.schema, name)
            case _:
                return TableName("public", name)

    def survey(
        self,
        name: str,
        *,
        after: RowPosition | None = None,
        step: int = 1_000_000,
        pending: str | None = None,
        **options: Any,
    ) -> tuple[SourceTable, Survey]:
        source = open_source(self.database)
        try:
            source_table = source.describe(self.table(name), asked(**options))
            return source_table, source.survey(source_table, after, step, pending)
        finally:
            source.close()

    def read(self, source_table: SourceTable, batch: Batch, columns: str) -> list[tuple[Any, ...]]:
        """Read a batch's rows with the reader's SELECTs, but with the test's choice of columns."""
        rows: list[tuple[Any, ...]] = []
        for select in JdbcReader(self.database).selects(source_table, batch):
            # The text before the last FROM is the reader's list of columns.
            _, _, tail = select.rpartition(" FROM ")
            rows += self.run(f"SELECT {columns} FROM {tail}")
        return rows


def asked(cursor: str = "at", *, settle: timedelta = NOW, **options: Any) -> TableOptions:
    return TableOptions(cursor=cursor, settle=settle, **options)


def batches(survey: Survey, after: RowPosition | None, parallel: int = 1) -> list[Batch]:
    """Make batches as the planner does: `parallel` splits in each."""
    made: list[Batch] = []
    for start in range(0, len(survey.cuts), parallel):
        part = survey.cuts[start : start + parallel]
        splits = tuple(cut.position for cut in part[:-1])
        made.append(Batch((Window(after, part[-1].position),), splits, sum(cut.rows for cut in part)))
        after = part[-1].position
    return made


def sqlite_place(folder: Path) -> Place:
    path = folder / "it's 100% the source?.db"
    sqlite3.connect(path).close()

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None)

    def run(statement: str) -> Any:
        with connect() as connection:
            return connection.execute(statement).fetchall()

    return Place(Database("local", Engine.SQLITE, path=path), run, connect)


def duckdb_place(folder: Path) -> Place:
    path = folder / "it's 100% the source?.duckdb"
    duckdb.connect(str(path)).close()

    def connect() -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(str(path))
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def run(statement: str) -> Any:
        # `at` is a keyword in DuckDB, and the tests' tables have a column of that name.
        quoted = _BARE_AT.sub(lambda found: '"at"' if found[0] == "at" else found[0], statement)
        with connect() as connection:
            return connection.execute(quoted).fetchall()

    return Place(Database("local", Engine.DUCKDB, path=path), run, connect)


def snowflake_place(server: SnowflakeServer) -> Place:
    """Make a new schema. Unquoted names become upper case, as in Snowflake."""
    schema = server.create_schema()

    def run(statement: str) -> Any:
        return server.run(statement, schema)

    return Place(server.database("app", schema), run, lambda: server.connect(schema))


def mysql_place(server: MariaDB, name: str | None = None) -> Place:
    """Make a new database, or open the one of this name."""
    name = name or server.create_database()
    database = Database(
        "app",
        Engine.MYSQL,
        host=server.host,
        port=server.port,
        database=name,
        user=server.user,
        password=Secret(server.password),
    )

    def connect() -> Any:
        connection = server.connect(name)
        connection.cursor().execute("SET time_zone = '+00:00'")
        return connection

    def run(statement: str) -> Any:
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    return Place(database, run, connect)


def postgresql_place(server: Postgres, name: str | None = None) -> Place:
    """Make a new database, or open the one of this name."""
    name = name or server.create_database()
    database = Database(
        "app",
        Engine.POSTGRESQL,
        host=server.host,
        port=server.port,
        database=name,
        user=server.user,
        password=Secret(server.password),
    )

    def connect() -> Any:
        connection = server.connect(name)
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def run(statement: str) -> Any:
        with connect() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    return Place(database, run, connect)


def with_nulls(policy: NullCursor) -> dict[str, Any]:
    return {"null_cursor": policy}


def predicate(place: Place, source_table: SourceTable, lower: RowPosition | None, upper: RowPosition) -> str:
    return sql.between(source_table, lower, upper, find_engine(place.database).literal)
