"""A lock that was waited for in vain, and a session that was faster: two errors, by the server's code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from pymysql.constants import ER

from tidegauge.errors import OutputUnreachable
from tidegauge.model.engines import Engine
from tidegauge.model.spec import Database, TableName
from tidegauge.outputs.warehouse import commits
from tidegauge.outputs.warehouse.commits import Commits
from tidegauge.outputs.warehouse.mysql import session as mysql
from tidegauge.outputs.warehouse.postgresql import session as postgresql
from tidegauge.outputs.warehouse.redshift.session import RedshiftSession
from tidegauge.outputs.warehouse.sqlite.warehouse import SQLite, SQLiteSession
from tidegauge.outputs.warehouse.warehouse import LockTimeout, WriteConflict


class NoServer:
    def cursor(self) -> Any:
        return type("Cursor", (), {})()


def on_postgresql(kind: type[psycopg.Error]) -> Exception:
    return postgresql.translate_error(kind("no"), postgresql.PostgresqlLogin("w", "h:1", {}))


def on_mysql(code: int) -> Exception:
    login = mysql.MysqlLogin("w", "h:1", {}, {})
    return mysql.translate_error(pymysql.err.OperationalError(code, "no"), login)


def on_redshift(code: str, words: str) -> Exception:
    return RedshiftSession(NoServer(), "Redshift", 1)._translate(RuntimeError({"C": code, "M": words}))


def on_snowflake(state: str, words: str) -> Exception:
    errors = pytest.importorskip("snowflake.connector.errors")
    from tidegauge.outputs.warehouse.snowflake.session import SnowflakeSession

    return SnowflakeSession(NoServer(), "Snowflake")._translate(
        errors.ProgrammingError(msg=words, sqlstate=state)
    )


@pytest.mark.parametrize(
    "waited",
    [
        lambda: on_postgresql(psycopg.errors.LockNotAvailable),
        lambda: on_mysql(ER.LOCK_WAIT_TIMEOUT),
        lambda: on_redshift("57014", "Query cancelled: statement timeout"),
        lambda: on_snowflake("57014", "Statement was aborted: LOCK_TIMEOUT"),
    ],
    ids=["postgresql", "mysql", "redshift", "snowflake"],
)
def test_a_lock_that_was_waited_for_in_vain(waited: Any) -> None:
    assert type(waited()) is LockTimeout


@pytest.mark.parametrize(
    "overtaken",
    [
        lambda: on_postgresql(psycopg.errors.DeadlockDetected),
        lambda: on_postgresql(psycopg.errors.SerializationFailure),
        lambda: on_mysql(ER.LOCK_DEADLOCK),
        lambda: on_mysql(1020),
        lambda: on_redshift("XX000", "1023 - Serializable isolation violation on table"),
        lambda: on_redshift("23505", 'duplicate key violates unique constraint "pg_class_relname_index"'),
        lambda: on_snowflake("40001", "changed since"),
        lambda: on_snowflake(
            "57014", "aborted because the number of waiters for this lock exceeds the limit"
        ),
    ],
)
def test_a_session_that_was_faster(overtaken: Any) -> None:
    error = overtaken()
    assert type(error) is WriteConflict
    assert error.retryable


def test_a_catalogue_that_duckdb_lets_only_one_change(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    from tidegauge.outputs.warehouse.duckdb.warehouse import DuckDB

    warehouse = DuckDB(Database("w", Engine.DUCKDB, path=tmp_path / "w.duckdb"))
    first, second = warehouse.connect(), warehouse.connect()
    first.run("CREATE TABLE t (id INT)")
    first.commit()
    first.run("ALTER TABLE t ADD COLUMN a INT")
    with pytest.raises(WriteConflict):
        second.alone("ALTER TABLE t ADD COLUMN b INT")
    first.close()
    second.close()


class Slow:
    """A session whose first statement that makes something fails, a number of times."""

    def __init__(self, session: SQLiteSession, error: Exception, times: int) -> None:
        self._session, self._error, self.left = session, error, times

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        if self.left:
            self.left -= 1
            raise self._error
        return self._session.run(sql, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.mark.parametrize("times", [1, commits._TRIES - 1])
def test_who_was_overtaken_looks_again(tmp_path: Path, times: int) -> None:
    warehouse = SQLite(Database("w", Engine.SQLITE, path=tmp_path / "w.db"))
    session = Slow(warehouse.connect(), WriteConflict("another session was faster"), times)
    made = Commits(warehouse, TableName(None, "t"), "shop", "t/load")
    assert made.make(session)[-1].epoch == 0
    assert len(made.heads(session)) == 1


@pytest.mark.parametrize(
    ("error", "times"),
    [(LockTimeout("held"), 1), (OutputUnreachable("gone"), 1), (WriteConflict("faster"), 99)],
)
def test_who_waited_in_vain_or_is_always_overtaken_gives_up(
    tmp_path: Path, error: Exception, times: int
) -> None:
    warehouse = SQLite(Database("w", Engine.SQLITE, path=tmp_path / "w.db"))
    session = Slow(warehouse.connect(), error, times)
    with pytest.raises(type(error)):
        Commits(warehouse, TableName(None, "t"), "shop", "t/load").make(session)
    assert session.left in (0, 99 - commits._TRIES)
