"""One connection to Snowflake, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from tidegauge.errors import OutputError, OutputUnreachable, TidegaugeError
from tidegauge.model.snowflake_login import import_connector, snowflake_login, snowflake_words
from tidegauge.model.spec import Database
from tidegauge.model.trace import trace_sql
from tidegauge.outputs.warehouse.warehouse import LockTimeout, PermissionDenied, ValueRejected, WriteConflict

_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE")
_COMMITS = ("CREATE ", "ALTER ", "DROP ")
_CONFLICT = re.compile(r"conflict|number of waiters", re.IGNORECASE)
"""Two sessions changed the same rows; or too many wait for a lock, which has the code of a lock timeout."""


class SnowflakeSession:
    """A `WarehouseSession`. It sends BEGIN itself, because the connector else commits each statement."""

    def __init__(self, connection: Any, place: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._place = place
        self._open = False

    @classmethod
    def open(cls, database: Database, patience: float) -> SnowflakeSession:
        connector = import_connector()
        place = f"Snowflake, account {database.account}"
        try:
            connection = connector.connect(**snowflake_login(database))
            session = cls(connection, place)
        except Exception as error:
            raise OutputUnreachable(
                f"{place} cannot be reached: {snowflake_words(error)}",
                hint="check account, user, password, role and warehouse of the connection",
            ) from error
        try:
            session._execute(f"ALTER SESSION SET LOCK_TIMEOUT = {max(1, round(patience))}")
        except TidegaugeError:
            session.close()
            raise
        return session

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        if sql.startswith(_COMMITS):
            self.commit()  # the server would do so silently
            self._execute(sql, values)
            return 0
        self._begin()
        self._execute(sql, values)
        return max(int(self._cursor.rowcount or 0), 0) if sql.lstrip().upper().startswith(_CHANGES) else 0

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._begin()
        self._execute(sql, values)
        try:
            return [tuple(map(_to_int, row)) for row in self._cursor.fetchall()]
        except Exception as error:
            raise self._translate(error) from error

    def commit(self) -> None:
        if self._open:
            self._open = False
            self._execute("COMMIT")

    def rollback(self) -> None:
        if self._open:
            self._open = False
            with suppress(TidegaugeError):
                self._execute("ROLLBACK")

    def close(self) -> None:
        self.rollback()
        with suppress(Exception):
            self._connection.close()

    def _begin(self) -> None:
        if not self._open:
            self._execute("BEGIN")
            self._open = True

    def _execute(self, sql: str, values: Sequence[object] = ()) -> None:
        trace_sql("warehouse", sql)
        try:
            self._cursor.execute(sql, tuple(values) if values else None)
        except Exception as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> TidegaugeError:
        errors = import_connector().errors
        words, state = snowflake_words(error), str(getattr(error, "sqlstate", "") or "")
        if state == "40001" or _CONFLICT.search(words):
            return WriteConflict(f"another session was faster: {words}")
        if state == "57014":
            return LockTimeout(f"another session holds it: {words}")
        if state[:2] in ("22", "23"):
            return ValueRejected(words)
        if state == "42501":
            return PermissionDenied(
                f"{self._place} refused a statement: {words}", hint="the server's message above says why"
            )
        if isinstance(error, errors.OperationalError | errors.InterfaceError) or state[:2] == "08":
            return OutputUnreachable(
                f"the connection to {self._place} was lost: {words}", hint="run again once it answers"
            )
        return OutputError(
            f"{self._place} refused a statement: {words}", hint="the server's message above says why"
        )


def _to_int(value: Any) -> Any:
    """A decimal of scale 0 as an int, as the connector mostly returns it; other values as they are."""
    return int(value) if isinstance(value, Decimal) and value.as_tuple().exponent == 0 else value
