"""One connection to Redshift, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tidegauge.errors import OutputError, OutputUnreachable, RuntimeMissing, TidegaugeError
from tidegauge.model.secret import mask
from tidegauge.model.spec import Database
from tidegauge.model.trace import trace_sql
from tidegauge.outputs.warehouse.staging import PREFIX
from tidegauge.outputs.warehouse.warehouse import LockTimeout, ValueRejected, WriteConflict

_CONNECT_SECONDS = 30
_LOAD_FACTOR = 20
"""How many times `patience` a session waits for other loads, which are sure to end."""
_PARTS = re.compile(r"""("(?:[^"]|"")*"(?:\."(?:[^"]|"")*")?)|'(?:[^']|'')*'|(\w+)""")
_BEFORE_A_TABLE = ("FROM", "INTO", "UPDATE", "JOIN")
_CHANGES = ("INSERT", "UPDATE", "DELETE")
_OWN = (f'"{PREFIX}', '"tidegauge_raw_')
"""Names of tables that need no lock begin so: only one attempt uses them."""
_COMMITS = '"tidegauge_commits"'

# Redshift gives most of its errors one and the same code; only the words tell them apart. The only constraint
# that it enforces is its catalogue's, which is violated when two sessions make the same table at once.
_CONFLICT = re.compile(
    r'serializable isolation violation|deadlock detected|concurrent transaction|unique constraint "pg_',
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"out of range|too long|overflow|cannot insert a null|null value in column|String length exceeds",
    re.IGNORECASE,
)


class RedshiftSession:
    """A `WarehouseSession`, and what Redshift needs besides.

    Redshift has no limit for waiting on a lock. So before a transaction first reads or writes a table, the
    session asks for the lock with a statement that does nothing else and has a time limit.
    """

    def __init__(self, connection: Any, place: str, patience: float) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._cursor.paramstyle = "qmark"
        self._place = place
        self._patience = patience
        self._held: set[tuple[str, str]] = set()
        self._fresh = True
        """Whether the transaction has not begun, so that it will still see what others commit now."""

    @classmethod
    def open(cls, database: Database, patience: float) -> RedshiftSession:
        driver = _import_driver()
        place = f"Redshift at {database.host}:{database.port or 5439}"
        ssl = database.options.get("ssl", "verify-full")
        seconds = int(database.options.get("connect_timeout", _CONNECT_SECONDS))
        try:
            connection = driver.connect(
                host=database.host,
                port=database.port or 5439,
                database=database.database or "dev",
                user=database.user or "",
                password=database.password.reveal() if database.password else "",
                ssl=ssl != "disable",
                sslmode="verify-full" if ssl == "disable" else ssl,
                timeout=seconds,
                application_name="tidegauge",
                max_prepared_statements=0,
            )
            # The driver's timeout would apply to every answer, and a COPY may take any time.
            connection._usock.settimeout(None)
            session = cls(connection, place, patience)
        except Exception as error:
            words = _words(error)
            raise OutputUnreachable(
                f"{place} cannot be reached: {mask(words)}",
                hint="check host, port, database, user and password of the connection, and its `options:`",
            ) from error
        try:
            session.run("SET timezone TO 'UTC'")
            session.run("SET enable_case_sensitive_identifier TO true")
            session.run("SET statement_timeout TO 0")
            session.commit()
        except TidegaugeError:
            session.close()
            raise
        return session

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        self._lock_tables(sql)
        self._execute(sql, values)
        return max(int(self._cursor.rowcount), 0) if sql.startswith(_CHANGES) else 0

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._lock_tables(sql)
        self._execute(sql, values)
        return [tuple(row) for row in self._cursor.fetchall()]

    def alone(self, sql: str) -> None:
        """Run a statement outside of a transaction."""
        self._connection.autocommit = True
        try:
            self._execute(sql)
        finally:
            self._connection.autocommit = False
            self._begin()

    def hold(self, table: str) -> None:
        """Lock the table: nobody else reads or writes it until the transaction ends."""
        self._run_within(f"LOCK {table}", self._patience * _LOAD_FACTOR)
        self._held |= {("read", table), ("write", table)}

    def commit(self) -> None:
        try:
            self._connection.commit()
        except Exception as error:
            raise self._translate(error) from error
        finally:
            self._begin()

    def rollback(self) -> None:
        with suppress(Exception):
            self._connection.rollback()
        self._begin()

    def close(self) -> None:
        with suppress(Exception):
            self._connection.close()

    def _begin(self) -> None:
        self._held.clear()
        self._fresh = True

    def _lock_tables(self, sql: str) -> None:
        """Get the locks that a statement needs and that the transaction does not have yet."""
        for how, table in _find_tables(sql):
            if (how, table) in self._held or any(name in table for name in _OWN):
                continue
            if table.endswith(_COMMITS):
                # Locked before the transaction reads anything, so that it sees what the last writer left;
                # else two loads of two tables would violate each other's isolation.
                if how == "write" and self._fresh:
                    self.hold(table)
            elif how == "write":
                self._run_within(f"DELETE FROM {table} WHERE 1 = 0", self._patience)
            else:
                self._run_within(f"SELECT 1 FROM {table} WHERE 1 = 0", self._patience)
            self._held.add((how, table))

    def _run_within(self, sql: str, seconds: float) -> None:
        self._execute(f"SET statement_timeout TO {round(seconds * 1000)}")
        self._execute(sql)
        self._execute("SET statement_timeout TO 0")

    def _execute(self, sql: str, values: Sequence[object] = ()) -> None:
        trace_sql("warehouse", sql)
        if not sql.startswith(("SET ", "LOCK ")):
            self._fresh = False
        try:
            self._cursor.execute(sql, tuple(values) if values else None)
        except Exception as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> TidegaugeError:
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else None
        words = mask(_words(error))
        if facts is None:
            return OutputUnreachable(
                f"the connection to {self._place} was lost: {words}", hint="run again once it answers"
            )
        code = str(facts.get("C", ""))
        if code in ("40001", "40P01") or _CONFLICT.search(words):
            return WriteConflict(f"another session was faster: {words}")
        if code in ("57014", "55P03"):
            return LockTimeout(f"another session holds it: {words}")
        if code[:2] in ("08", "53", "57", "28"):
            return OutputUnreachable(f"{self._place} went away: {words}", hint="run again once it answers")
        if code[:2] in ("22", "23") or _VALUE.search(words):
            return ValueRejected(words)
        return OutputError(
            f"{self._place} refused a statement: {words}", hint="the server's message above says why"
        )


def _find_tables(sql: str) -> list[tuple[str, str]]:
    """The tables of a statement, quoted as in its text, with `read` or `write`; only the first is written."""
    found: list[tuple[str, str]] = []
    before = ""
    for part in _PARTS.finditer(sql):
        quoted, word = part.groups()
        if quoted and before in _BEFORE_A_TABLE:
            first = not found and sql.startswith(_CHANGES)
            found.append(("write" if first else "read", quoted))
        before = word.upper() if word else ""
    return found


def _words(error: Exception) -> str:
    """The error's message and detail on one line."""
    facts = error.args[0] if error.args else ""
    if not isinstance(facts, dict):
        return " ".join(str(error).split()) or type(error).__name__
    parts = [str(facts[key]) for key in ("M", "D") if facts.get(key)]
    return " ".join(" – ".join(parts).split())


def _import_driver() -> Any:
    try:
        import redshift_connector
    except ImportError as error:
        raise RuntimeMissing(
            "loading into Redshift needs its driver, redshift_connector",
            hint="pip install 'tidegauge[redshift]'",
        ) from error
    return redshift_connector
