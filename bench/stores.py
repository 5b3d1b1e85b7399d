"""Three SQL stores for a ledger, configured so that commits reach the disk."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.support.servers import MariaDB, Postgres, start_mariadb, start_postgres

# The tests' servers have durability off; the last option on a command line wins.
_DURABLE_MARIADB = ("--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync")
_DURABLE_POSTGRES = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")


class Place(Protocol):
    """A database for one ledger, and the bare driver's connection to the same database."""

    @property
    def address(self) -> str: ...

    def bare(self) -> Any:
        """Open the bare driver's connection, as durable as the ledger's; begins no transaction by itself."""


@dataclass(frozen=True)
class SqlitePlace:
    path: Path

    @property
    def address(self) -> str:
        return f"sqlite:///{self.path}"

    def bare(self) -> Any:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return closing(connection)


@dataclass(frozen=True)
class ServerPlace:
    server: MariaDB | Postgres
    database: str

    @property
    def address(self) -> str:
        return self.server.address(self.database)

    def bare(self) -> Any:
        return closing(self.server.connect(self.database))


@dataclass(frozen=True)
class Store:
    name: str
    version: str
    mark: str
    """The placeholder for a value in the driver's SQL."""
    _made: Any

    def place(self) -> Place:
        """Make a new, empty database."""
        made: Place = self._made()
        return made


@contextmanager
def stores() -> Iterator[list[Store]]:
    """Start SQLite in a temporary folder, and PostgreSQL and MariaDB on the same disk."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegauge-bench-")))
        numbers = iter(range(1000))
        postgres = stack.enter_context(start_postgres(options=_DURABLE_POSTGRES))
        mariadb = stack.enter_context(start_mariadb(options=_DURABLE_MARIADB))
        yield [
            Store("sqlite", sqlite3.sqlite_version, "?", lambda: SqlitePlace(folder / f"{next(numbers)}.db")),
            Store(
                "postgresql",
                _asked(postgres, "SHOW server_version"),
                "%s",
                lambda: ServerPlace(postgres, postgres.create_database()),
            ),
            Store(
                "mariadb",
                _asked(mariadb, "SELECT VERSION()"),
                "%s",
                lambda: ServerPlace(mariadb, mariadb.create_database()),
            ),
        ]


def _asked(server: MariaDB | Postgres, query: str) -> str:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return str(cursor.fetchone()[0])


def run(connection: Any, *statements: str) -> None:
    """Execute each statement, with any of the three drivers."""
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()
