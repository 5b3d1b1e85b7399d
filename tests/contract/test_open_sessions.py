"""Connections that are kept while a run goes on: how many there are, and what is not taken from them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import postgres_database
from tests.support.replicas import Pair
from tests.support.servers import Postgres
from tests.support.warehouse_servers import postgres_database as spec_of
from tidegauge.config.load import load_project
from tidegauge.errors import OutputError, OutputUnreachable
from tidegauge.model.spec import Database
from tidegauge.outputs.warehouse.open_sessions import SWITCH, kept_sessions
from tidegauge.outputs.warehouse.postgresql.session import PostgresqlLogin, PostgresqlSession
from tidegauge.outputs.warehouse.warehouse import Refused
from tidegauge.run import run as engine
from tidegauge.run.options import RunOptions


@pytest.fixture
def database(postgres: Postgres) -> Database:
    return spec_of(postgres)


def _number(session: PostgresqlSession) -> int:
    return int(session.rows("SELECT pg_backend_pid()")[0][0])


def _open(postgres: Postgres, database: Database) -> set[int]:
    """The sessions of ours that the server has now."""
    with postgres.connect(database.database or "") as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'tidegauge'"
        ).fetchall()
    return {pid for (pid,) in found}


@pytest.fixture
def login(database: Database) -> PostgresqlLogin:
    return PostgresqlLogin.of(database)


@pytest.fixture
def kept() -> Iterator[None]:
    with kept_sessions():
        yield


def _used(login: PostgresqlLogin) -> int:
    session = login.connect()
    number = _number(session)
    session.close()
    session.close()  # twice is once
    return number


@pytest.mark.usefixtures("kept")
def test_the_next_one_gets_it_and_no_two_at_once(login: PostgresqlLogin) -> None:
    first = _used(login)
    one, other = login.connect(), login.connect()
    assert _number(one) == first
    assert _number(other) != first
    # With a transaction of its own: what the last one left open is gone.
    one.run("CREATE TABLE half_done (a int)")
    one.close()
    other.close()
    with_other_patience = login.connect(7.0)
    assert with_other_patience.rows("SHOW lock_timeout") == [("7s",)]
    assert with_other_patience.rows("SELECT to_regclass('half_done')") == [(None,)]


def test_nothing_is_kept_outside_of_a_run_or_with_the_switch_off(
    postgres: Postgres, database: Database, login: PostgresqlLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    _used(login)
    with kept_sessions(), kept_sessions():
        _used(login)
    monkeypatch.setenv(SWITCH, "off")
    with kept_sessions():
        _used(login)
        _used(login)
    for _ in range(200):
        if not _open(postgres, database):
            break
        threading.Event().wait(0.05)
    assert _open(postgres, database) == set()


@pytest.mark.usefixtures("kept")
def test_one_that_the_server_has_ended_is_not_taken(
    postgres: Postgres, database: Database, login: PostgresqlLogin
) -> None:
    first = _used(login)
    with postgres.connect(database.database or "") as connection:
        connection.execute(f"SELECT pg_terminate_backend({first}, 10000)")
    assert _used(login) != first


@pytest.mark.usefixtures("kept")
def test_whoever_asks_after_an_error_asks_over_another_connection(login: PostgresqlLogin) -> None:
    first = _used(login)
    session = login.connect()
    assert _number(session) == first
    with pytest.raises((OutputError, Refused, OutputUnreachable)):
        session.run("SELECT 1 / 0")
    session.close()
    assert _used(login) != first


def test_a_run_opens_two_connections_and_leaves_none(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = postgres_database(postgres)
    pair = Pair(tmp_path, one, one, to="ops", more=", execute: database")
    pair.insert(range(10), ago=3600)
    pair.run()
    pair.change(5, ago=60)
    opened: list[str] = []
    import psycopg

    connect = psycopg.connect

    def counted(*given: object, **named: object) -> object:
        opened.append(str(named.get("application_name")))
        return connect(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(psycopg, "connect", counted)
    project = load_project(pair.file)
    report = engine.run(project, RunOptions(remarks=False), tell=lambda _: None, stop=threading.Event())
    assert [flow.ok for flow in report.flows] == [True]
    # The reader's own, and those that look for deleted rows, come and go; of the target's there is one.
    assert opened.count("tidegauge") == 1, opened
