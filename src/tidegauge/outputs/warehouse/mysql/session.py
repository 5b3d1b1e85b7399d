"""Connections to MySQL and MariaDB as a warehouse: in UTC, strict, with bounded waits and our own errors."""

from __future__ import annotations

import select
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import CLIENT, ER

from tidegauge.errors import OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.mysql_codes import CONNECTION_LOST, LOGIN_REFUSED
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database
from tidegauge.model.tls import tls_context
from tidegauge.model.trace import trace_sql
from tidegauge.outputs.warehouse.mysql.local_stream import StreamConnection, UnexpectedFileRequest
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
DEFAULT_PORT = 3306
_IDLE_SECONDS = 20
"""After so many idle seconds MariaDB ends the transaction of a process that was stopped in the middle of it,
before sessions that wait for its lock give up. MySQL has no such setting."""
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
    f" net_write_timeout = 600, net_read_timeout = 600 /*M! , idle_transaction_timeout = {_IDLE_SECONDS} */"
)
# Under the default a transaction would read the table as it was before the transaction waited for a lock.
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_CONFLICT = frozenset({ER.LOCK_DEADLOCK, 1020})
_VALUE = frozenset(
    {
        *(
            ER.BAD_NULL_ERROR,
            ER.DUP_ENTRY,
            ER.WARN_DATA_OUT_OF_RANGE,
            ER.WARN_DATA_TRUNCATED,
            ER.DATA_TOO_LONG,
        ),
        *(1292, 1364, 1366, 1411, 1451, 1452, 1690, 3819, 4025),
    }
)
_TOO_LONG_KEY = 1071
_DENIED = frozenset({1142, 1143, 1044, 1227})
DISABLED = frozenset({ER.NOT_ALLOWED_COMMAND, 3948, 4166})
"""Codes of the errors of a server that takes no LOAD DATA from its clients."""
_HOLDERS = (
    "SELECT p.ID, p.USER FROM information_schema.INNODB_TRX x JOIN information_schema.PROCESSLIST p"
    " ON p.ID = x.trx_mysql_thread_id WHERE p.ID <> CONNECTION_ID() AND x.trx_started"
    f" <= NOW() - INTERVAL {LOCK_SECONDS - 1} SECOND"
)


@dataclass(frozen=True)
class MysqlLogin:
    """All that a connection needs, including the password, in a form that can be pickled for a task."""

    name: str
    address: str
    arguments: dict[str, Any] = field(repr=False)
    options: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, database: Database) -> MysqlLogin:
        port = database.port or DEFAULT_PORT
        arguments: dict[str, Any] = {
            "host": database.host,
            "port": port,
            "user": database.user,
            # As bytes: the driver would write text in Latin-1, and the server holds it as UTF-8.
            "password": database.password.reveal().encode() if database.password else b"",
            "database": database.database,
            "connect_timeout": int(database.options.get("connect_timeout", "10")),
        }
        return cls(database.name, f"{database.host}:{port}", arguments, dict(database.options))

    def connect(self, patience: float = LOCK_SECONDS) -> MysqlSession:
        wait = max(1, round(patience))
        try:
            connection = StreamConnection(
                **self.arguments,
                charset="utf8mb4",
                autocommit=False,
                local_infile=True,
                client_flag=CLIENT.FOUND_ROWS,
                init_command=f"{_SESSION}, innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}",
                ssl=tls_context(self.options),
                ssl_disabled=self.options.get("ssl") == "disable" or None,
                program_name="tidegauge",
            )
            session = MysqlSession(connection, self)
            session.run(_ISOLATION)
        except pymysql.Error as error:
            raise translate_error(error, self) from error
        except (OSError, ValueError) as error:
            raise OutputUnreachable(
                f"{self.name}: {self.address} cannot be reached: {mask(str(error))}",
                hint="check host, port and the ssl options in `connections:`",
            ) from error
        return session


class MysqlSession:
    """A `WarehouseSession`."""

    def __init__(self, connection: StreamConnection, login: MysqlLogin) -> None:
        self.connection = connection
        self.login = login
        self.holds = False
        """Whether the session has a lock that lasts until it closes (`MySQL.hold`)."""

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        rows, _ = self._execute(sql, values)
        return rows

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        _, found = self._execute(sql, values)
        return found

    def commit(self) -> None:
        try:
            self.connection.commit()
        except (pymysql.Error, OSError) as error:
            raise self.translate(error) from error

    def rollback(self) -> None:
        try:
            self.connection.rollback()
        except (pymysql.Error, OSError):
            self.close()

    def close(self) -> None:
        with suppress(pymysql.Error, OSError):
            self.connection.close()

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended the session: to an idle one it sends nothing but the end."""
        line: Any = getattr(self.connection, "_sock", None)  # the driver has no other way to ask
        return line is None or bool(select.select([line], [], [], 0)[0])

    def translate(self, error: Exception) -> TidegaugeError:
        """The driver's error as one of ours; names the sessions that may be in the way."""
        ours = translate_error(error, self.login)
        if isinstance(ours, SessionConflict):
            ours.message += self._holders()
            ours.args = (ours.message,)
        return ours

    def _execute(self, sql: str, values: Sequence[object]) -> tuple[int, list[tuple[Any, ...]]]:
        trace_sql("warehouse", sql)
        try:
            with self.connection.cursor() as cursor:
                if values:
                    cursor.execute(sql.replace("%", "%%").replace(PLACEHOLDER, "%s"), tuple(values))
                else:
                    cursor.execute(sql)
                described: Any = cursor.description  # None without a result set, which the stubs leave out.
                if described is not None:
                    return 0, list(cursor.fetchall())
                return max(0, int(cursor.rowcount)), []
        except (pymysql.Error, OSError) as error:
            raise self.translate(error) from error

    def _holders(self) -> str:
        try:
            with self.connection.cursor() as cursor:
                self.connection.rollback()
                cursor.execute(_HOLDERS)
                found = cursor.fetchall()
                self.connection.rollback()
        except (pymysql.Error, OSError):
            return ""
        named = ", ".join(f"session {number} of {user}" for number, user in found)
        return f"; open for as long: {named}" if named else ""


def translate_error(error: Exception, login: MysqlLogin) -> TidegaugeError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    said = mask(str(error.args[-1])) if error.args else type(error).__name__
    if isinstance(error, UnexpectedFileRequest):
        return OutputError(
            f"{login.name}: {login.address} misbehaves: {said}",
            hint="find out who answers at this address; no file was read",
        )
    if code in LOGIN_REFUSED:
        return OutputUnreachable(
            f"{login.name}: {login.address} refuses the login: {said}",
            hint="check user, password and database in `connections:`",
            retryable=False,
        )
    if code == ER.LOCK_WAIT_TIMEOUT:
        return LockTimeout(f"{login.name}: {said}")
    if code in _CONFLICT:
        return WriteConflict(f"{login.name}: {said}")
    if code in _VALUE:
        return ValueRejected(f"{login.name}: {said}")
    if code in CONNECTION_LOST or isinstance(error, pymysql.err.InterfaceError | OSError):
        return OutputUnreachable(
            f"{login.name}: {login.address} cannot be reached: {said}",
            hint="check that the server runs, and host and port in `connections:`",
        )
    if code == _TOO_LONG_KEY:
        return OutputError(
            f"{login.name}: the key does not fit into an index of the server: {said}",
            hint="choose a `key:` of shorter columns: text takes four bytes for each character of its length",
        )
    if code in _DENIED:
        return PermissionDenied(
            f"{login.name}: {said}",
            hint="the login needs SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER and DROP on the database",
            detail=str(code),
        )
    failure = OutputError(f"{login.name}: {said}")
    failure.detail = str(code)
    return failure
