"""Connections to PostgreSQL as a warehouse: in UTC, with bounded waits, and with our own errors only."""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tidegauge.errors import OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database
from tidegauge.model.trace import trace_sql
from tidegauge.outputs.warehouse.warehouse import (
    LOCK_SECONDS,
    LockTimeout,
    PermissionDenied,
    SessionConflict,
    ValueRejected,
    WriteConflict,
)

PLACEHOLDER = "\0"
"""Stands for a value in a statement; no identifier holds it."""
DEFAULT_PORT = 5432
_IDLE_SECONDS = 20
"""After so many idle seconds the server ends the transaction of a process that was stopped in the middle of
it, before sessions that wait for its lock give up."""
_SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET bytea_output = 'hex'; SET extra_float_digits = 3;"
    # As in the readers of a source, so that a value turned into text inside the database is the same text.
    " SET IntervalStyle = 'postgres'; SET xmloption = 'content';"
    f" SET idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s';"
    # Statements over whole batches: a sort in memory instead of on disk, and no compiler for each of them.
    " SET work_mem = '128MB'; SET jit = off;"
    # As for memory or an SSD: else, for a few rows, the server would read all of a large table.
    " SET random_page_cost = 1.1"
)
_FINAL = ("28", "3D")
_LOST = ("08", "57P", "25P03", "53")
_WAITED = "55P03"
_CONFLICT = ("40P01", "40001")
_VALUE = ("22", "23")
_CREATE_CONFLICTS = ("pg_type_typname_nsp_index", "pg_class_relname_nsp_index", "pg_namespace_nspname_index")
"""Constraints that one of two sessions violates that make the same table at once: IF NOT EXISTS does not see
a table that is not committed yet."""
_HOLDERS = """
SELECT DISTINCT c.relname, a.pid, a.usename, a.application_name
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_class c ON c.oid = l.relation
WHERE l.granted AND l.pid <> pg_backend_pid() AND l.locktype = 'relation' AND c.relkind IN ('r', 'p')
  AND l.mode <> 'AccessShareLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True)
class PostgresqlLogin:
    """All that a connection needs, including the password, in a form that can be pickled for a task."""

    name: str
    address: str
    arguments: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, database: Database) -> PostgresqlLogin:
        options = database.options
        port = database.port or DEFAULT_PORT
        arguments: dict[str, Any] = {
            "host": database.host,
            "port": port,
            "dbname": database.database or database.user,
            "user": database.user,
            "password": database.password.reveal() if database.password else None,
            "connect_timeout": int(options.get("connect_timeout", "10")),
            "application_name": "tidegauge",
            "client_encoding": "UTF8",
            "keepalives_idle": 30,
            "sslmode": options.get("ssl"),
            "sslrootcert": options.get("ssl_ca"),
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        return cls(database.name, f"{database.host}:{port}", given)

    def connect(self, patience: float = LOCK_SECONDS) -> PostgresqlSession:
        try:
            connection = psycopg.connect(
                "",
                autocommit=True,
                cursor_factory=psycopg.ClientCursor,
                prepare_threshold=None,
                **self.arguments,
            )
            connection.execute(f"{_SESSION}; SET lock_timeout = {round(patience * 1000)}".encode())
            connection.autocommit = False
        except (psycopg.Error, OSError) as error:
            raise translate_error(error, self) from error
        return PostgresqlSession(connection, self)


class PostgresqlSession:
    """A `WarehouseSession`. The driver puts values into the SQL text, so that no type is guessed for them."""

    def __init__(self, connection: psycopg.Connection[Any], login: PostgresqlLogin) -> None:
        self.connection = connection
        self.login = login

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        return max(0, self._execute(sql, values).rowcount)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cursor = self._execute(sql, values)
        try:
            return list(cursor.fetchall()) if cursor.description else []
        except psycopg.Error as error:
            raise self.translate(error) from error

    def commit(self) -> None:
        try:
            self.connection.commit()
        except psycopg.Error as error:
            raise self.translate(error) from error

    def rollback(self) -> None:
        try:
            self.connection.rollback()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        self.connection.close()

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended the session: to an idle one it sends nothing but the end."""
        return self.connection.closed or bool(select.select([self.connection.fileno()], [], [], 0)[0])

    def translate(self, error: Exception, sql: str = "") -> TidegaugeError:
        """The driver's error as one of ours; names the sessions that may be in the way."""
        ours = translate_error(error, self.login)
        if isinstance(ours, SessionConflict) and sql:
            ours.message += self._holders(sql)
            ours.args = (ours.message,)
        return ours

    def _execute(self, sql: str, values: Sequence[object]) -> psycopg.Cursor[Any]:
        trace_sql("warehouse", sql)
        try:
            if not values:
                return self.connection.execute(sql.encode())
            query = sql.replace("%", "%%").replace(PLACEHOLDER, "%s")
            return self.connection.execute(query.encode(), tuple(values))
        except psycopg.Error as error:
            raise self.translate(error, sql) from error

    def _holders(self, sql: str) -> str:
        try:
            self.connection.rollback()
            found = self.connection.execute(_HOLDERS).fetchall()
            self.connection.rollback()
        except psycopg.Error:
            return ""
        named = [
            f"session {pid} of {user}" + (f" ({program})" if program else "")
            for table, pid, user, program in found
            if f'"{table}"' in sql
        ]
        return f"; held by {', '.join(named)}" if named else ""


def translate_error(error: Exception, login: PostgresqlLogin) -> TidegaugeError:
    said, state, constraint = _diagnose(error)
    if state.startswith(_FINAL) or "authentication failed" in said or "no pg_hba.conf entry" in said:
        return OutputUnreachable(
            f"{login.name}: {login.address} refuses the login: {said}",
            hint="check user, password and database in `connections:`",
            retryable=False,
        )
    if state == _WAITED:
        return LockTimeout(f"{login.name}: {said}")
    if state in _CONFLICT or constraint in _CREATE_CONFLICTS:
        return WriteConflict(f"{login.name}: {said}")
    if state.startswith(_VALUE):
        return ValueRejected(f"{login.name}: {said}")
    if state.startswith(_LOST) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    ):
        return OutputUnreachable(
            f"{login.name}: {login.address} cannot be reached: {said}",
            hint="check that the server runs, and host and port in `connections:`",
        )
    if state == "42501":
        return PermissionDenied(
            f"{login.name}: {said}",
            hint="the login needs USAGE and CREATE on the schema, and to own the tables it changes",
        )
    failure = OutputError(f"{login.name}: {said}")
    failure.detail = state
    return failure


def _diagnose(error: Exception) -> tuple[str, str, str | None]:
    """What the server says, its code, and the constraint that it names."""
    said = mask(str(error).strip()) or type(error).__name__
    if not isinstance(error, psycopg.Error):
        return said, "", None
    found = error.diag
    if found.message_primary:
        said = mask(". ".join(part for part in (found.message_primary, found.message_detail) if part))
    return said, error.sqlstate or "", found.constraint_name
