"""Connections to a SQL ledger's database, with the settings that the ledger's promises need."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import ExecutionContext
from sqlalchemy.pool import PoolResetState, QueuePool

from tidegauge.ledger.address import Address

BUSY_SECONDS = 30
"""How long to wait for another writer before saying that the store is locked."""
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 5
"""After so many seconds the server ends an idle transaction, such as that of a process that was paused in its
middle, before those who wait for its lock give up."""
_IN_TRANSACTION = 1
"""The flag SERVER_STATUS_IN_TRANS in each answer of a MySQL server."""
_POOL = 5
_OVERFLOW = 45
"""Connections beyond the pool: each thread of a run takes one for milliseconds at a time."""

WRITE = {"tidegauge_write": True}
"""Execution options of a connection that is going to write."""
FIRST = "tidegauge_first"
"""Execution option of a statement on PostgreSQL: SQL that is run before it with the same values, in the same
round trip. What the statement sees is then no older than the end of the first one."""


def connect(address: Address, *, create: bool = False) -> Engine:
    """An engine for the address, which has not opened anything yet. `create` lets SQLite make the file."""
    return _sqlite(address, create=create) if address.path is not None else _server(address)


def clock_only() -> Engine:
    """An empty database in memory, for its clock, which is this machine's, like that of a SQLite file."""
    return create_engine("sqlite://")


def _sqlite(address: Address, *, create: bool) -> Engine:
    uri = f"file:{quote(str(address.path))}?mode={'rwc' if create else 'rw'}"

    def open_file() -> sqlite3.Connection:
        # isolation_level None: the driver begins no transactions of its own, SQLAlchemy's `begin` does.
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A commit is on the disk when it returns; WAL alone would leave it in memory.
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    engine = create_engine(
        "sqlite://",
        creator=open_file,
        poolclass=QueuePool,
        pool_size=_POOL,
        max_overflow=_OVERFLOW,
        hide_parameters=True,
    )
    engine.dialect, compiled = _compile_once()
    engine.update_execution_options(compiled_cache=compiled)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: SQLite lets no transaction wait for it that has read before.
        writes = connection.get_execution_options().get("tidegauge_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@cache
def _compile_once() -> tuple[Dialect, dict[Any, Any]]:
    """One dialect, and one cache of compiled statements, for all ledgers in SQLite files: SQLAlchemy would
    compile them again for each ledger that is opened, a sixth of the work of a small run."""
    engine = create_engine("sqlite://")
    engine.connect().close()  # the first connection completes the dialect
    engine.dispose()
    # The cache needs no limit: values are not part of a statement, and the statements are few.
    return engine.dialect, {}


def _server(address: Address) -> Engine:
    assert address.url is not None
    mysql = address.scheme == "mysql"
    extra: dict[str, Any] = (
        {} if "connect_timeout" in address.url.query else {"connect_timeout": _CONNECT_SECONDS}
    )
    if mysql:
        extra |= {"charset": "utf8mb4", "local_infile": False}
        if address.url.password:
            # As bytes: the driver would encode text as Latin-1, and the server expects UTF-8.
            extra["password"] = str(address.url.password).encode()
    elif "application_name" not in address.url.query:
        extra |= {"application_name": "tidegauge"}
    engine = create_engine(
        address.url,
        # With MySQL's default, two planners would lock each other's gaps, and neither would see the other's
        # commits.
        isolation_level="READ COMMITTED",
        connect_args=extra,
        pool_size=_POOL,
        max_overflow=_OVERFLOW,
        # Whoever uses a connection finds out that it is dead; a ping before each use costs a round trip.
        pool_pre_ping=False,
        pool_reset_on_return=None if mysql else "rollback",
        hide_parameters=True,
    )
    settings = (
        f"SET SESSION innodb_lock_wait_timeout = {BUSY_SECONDS}"
        # For SYSDATE, which is in the session's zone.
        ", SESSION time_zone = '+00:00'"
        f" /*M! , SESSION idle_transaction_timeout = {_IDLE_SECONDS} */"
        if mysql
        else f"SET lock_timeout = '{BUSY_SECONDS}s';"
        f" SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'"
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(settings)
        connection.commit()

    if mysql:
        event.listen(engine, "do_connect", _connect_mysql)
        event.listen(engine, "reset", _end_transaction)
    else:
        event.listen(engine, "do_execute", _execute_with_first)
    return engine


def _connect_mysql(_dialect: Dialect, _record: object, words: Any, arguments: Any) -> object:
    from tidegauge.model.mysql_connection import MysqlConnection

    return MysqlConnection(*words, **arguments)


def _end_transaction(connection: Any, _record: object, state: PoolResetState) -> None:
    """Roll back a MySQL connection that goes back to the pool, if a transaction is open. SQLAlchemy itself
    would send a ROLLBACK after every COMMIT."""
    if not state.transaction_was_reset and connection.server_status & _IN_TRANSACTION:
        connection.rollback()


def _execute_with_first(
    cursor: Any, statement: str, parameters: Any, context: ExecutionContext | None
) -> bool:
    """Send a statement together with the one that has to run before it (see FIRST). False if it has none:
    SQLAlchemy then sends it."""
    first = None if context is None else context.execution_options.get(FIRST)
    if first is None:
        return False
    with cursor.connection.pipeline():
        cursor.connection.execute(first, parameters)
        cursor.execute(statement, parameters)
    return True
