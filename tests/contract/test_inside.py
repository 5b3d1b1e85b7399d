"""`execute: database`: a table into its replica in the same database, by that database alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.project import (
    Database,
    duckdb_database,
    here,
    mysql_database,
    postgres_database,
    shell,
    sqlite_database,
)
from tests.support.replicas import ENGINES, REPLICA, TABLE, Pair, make_database
from tests.support.servers import MariaDB, Postgres
from tidegauge.config.load import load_project
from tidegauge.model.state import State
from tidegauge.observe.events import RunEvent, StepBegun
from tidegauge.run import run as engine_run
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport
from tidegauge.run.steps import Step
from tidegauge.storage import kept_open

INSIDE = ", execute: database"


def _inside(folder: Path, one: Database, more: str = "") -> Pair:
    return Pair(folder, one, one, to="ops", more=INSIDE + more)


@pytest.mark.shown_on("sqlite", "postgresql", "mysql")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_is_kept_in_its_replica_inside_the_database(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    _inside(tmp_path, make_database(engine, request, tmp_path / "one.db")).keep_in_step()


def test_neither_spark_nor_a_driver_of_its_own_is_even_imported(tmp_path: Path) -> None:
    """As the command a user types: whatever reads rows out of a database ends the process that imports it."""
    pair = _inside(tmp_path, sqlite_database(tmp_path / "one.db"), ", batch_rows: 3000")
    pair.insert(range(10_000), ago=3600)
    traps = tmp_path / "traps"
    for name in ("pyspark", "connectorx", "pyarrow"):
        (traps / name).mkdir(parents=True)
        (traps / name / "__init__.py").write_text("import os\nos.write(2, b'a trap')\nos._exit(99)\n")
    path = os.pathsep.join([str(traps), *filter(None, [os.environ.get("PYTHONPATH")])])
    pair.file.write_text(pair.file.read_text().replace("deletes: hard, ", ""))
    ran = shell("run", "--json", "--project", pair.file, env={"PYTHONPATH": path})
    assert ran.code == 0, ran.said
    assert ran.json["flows"][0]["rows_inserted"] == 10_000
    pair.check()


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", pytest.param("duckdb", marks=pytest.mark.long)])
def test_no_row_comes_out_of_the_database(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    fetched = 0

    def counted(rows: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def count(*given: Any) -> list[Any]:
            nonlocal fetched
            found = rows(*given)
            fetched += len(found)
            return found

        return count

    from tidegauge.outputs.warehouse.duckdb.session import DuckDBSession
    from tidegauge.outputs.warehouse.postgresql.session import PostgresqlSession
    from tidegauge.outputs.warehouse.sqlite.warehouse import SQLiteSession
    from tidegauge.sources.duckdb.dialect import DuckDBDialect
    from tidegauge.sources.postgresql.dialect import PostgresqlDialect
    from tidegauge.sources.sqlite.dialect import SqliteDialect

    for kind in (DuckDBSession, PostgresqlSession, SQLiteSession):
        monkeypatch.setattr(kind, "rows", counted(kind.rows))
    for dialect in (DuckDBDialect, PostgresqlDialect, SqliteDialect):
        monkeypatch.setattr(dialect, "rows", counted(dialect.rows))
        monkeypatch.setattr(dialect, "stream", None)
    pair = _inside(tmp_path, make_database(engine, request, tmp_path / "one.db"))
    pair.file.write_text(pair.file.read_text().replace("deletes: hard, ", ""))
    pair.insert(range(9_000), ago=3600)
    assert pair.run() == [9_000, 0, 0]
    # What is asked of catalogues; of SQLite also how the first thousand cursors are written.
    assert 10 < fetched < 1_500


# What another hand does between the plan and the write


def _run_while(pair: Pair, meddle: Callable[[], None]) -> FlowReport:
    """One run, in which somebody does something just before the first batch is written."""
    left = [meddle]

    def tell(event: RunEvent) -> None:
        if isinstance(event, StepBegun) and event.step is Step.WRITE and left:
            left.pop()()

    report = engine_run.run(load_project(pair.file), RunOptions(), tell=tell, stop=threading.Event())
    assert not left
    [flow] = report.flows
    return flow


@pytest.mark.shown_on("sqlite", "postgresql")
@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgresql", "mysql"])
def test_a_table_that_is_dropped_under_a_plan_stops_the_batch_and_comes_back(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    pair = _inside(tmp_path, one)
    pair.insert(range(5), ago=3600)
    table, other = one.quote(TABLE), one.quote("elsewhere")
    flow = _run_while(pair, lambda: one.execute(f"ALTER TABLE {table} RENAME TO {other}"))
    assert flow.state is State.FAILED
    assert flow.error is not None
    assert type(flow.error).__name__ == "SourceError", flow.error
    assert TABLE in flow.error.message
    assert flow.error.hint
    assert one.rows(f"SELECT * FROM {one.quote(REPLICA)}") == []
    one.execute(f"ALTER TABLE {other} RENAME TO {table}")
    pair.run_all()
    pair.check()


CHANGED = {
    "postgresql": "ALTER TABLE {t} ALTER {c} TYPE double precision",
    "mysql": "ALTER TABLE {t} MODIFY {c} DOUBLE",
    "duckdb": "ALTER TABLE {t} ALTER {c} TYPE DOUBLE",
}


@pytest.mark.shown_on("postgresql", "duckdb")
@pytest.mark.parametrize("engine", CHANGED)
def test_a_type_that_changes_under_a_plan_rounds_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    """Every one of these engines puts 2.6 into a column of integers as 3, and says nothing."""
    one = make_database(engine, request, tmp_path / "one.db")
    pair = _inside(tmp_path, one)
    table = one.quote(TABLE)
    one.execute(f"ALTER TABLE {table} ADD COLUMN size INT")
    one.execute(f"INSERT INTO {table} VALUES (1, 'a', 'RUNNING', {one.ago(3600)}, 2)")

    def change() -> None:
        one.execute(CHANGED[engine].format(t=table, c="size"), f"UPDATE {table} SET size = 2.6")

    flow = _run_while(pair, change)
    assert flow.state is State.FAILED
    assert flow.error is not None
    assert "the column size was" in flow.error.message
    assert flow.error.retryable
    assert one.rows(f"SELECT size FROM {one.quote(REPLICA)}") == []
    one.execute(f"DROP TABLE {one.quote(REPLICA)}")
    ran = here("run", "--full-refresh", "--yes", "--reason", "another type", "--project", pair.file)
    assert ran.code == 0, ran.said
    assert one.rows(f"SELECT size FROM {one.quote(REPLICA)}") == [(2.6,)]


@pytest.mark.shown_on("sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("first", [True, False])
def test_a_key_that_is_there_twice_is_refused_and_nothing_lands(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str, first: bool
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    pair = _inside(tmp_path, one)
    one.execute(f"DROP TABLE {one.quote(TABLE)}")
    key, *texts, moment = map(one.quote, ("PIPELINE_RUN_ID", "PIPELINE_NAME", "STATUS", "LAST_UPDATE_DATE"))
    listed = ", ".join(f"{name} {one.word}" for name in texts)
    one.execute(f"CREATE TABLE {one.quote(TABLE)} ({key} INT, {listed}, {moment} {one.moment} NOT NULL)")
    before = 0
    if not first:
        pair.insert(range(3), ago=3600)
        before = len(pair.expected)
        assert pair.run() == [3, 0, 0]

    def double() -> None:  # after the plan, which looks for such keys itself
        one.execute(
            f"INSERT INTO {one.quote(TABLE)} SELECT {key} , 'twin', 'X', {moment} FROM {one.quote(TABLE)}"
            f" WHERE {key} = 100"
        )

    pair.insert(range(100, 102), ago=60)
    flow = _run_while(pair, double)
    assert flow.state is State.FAILED
    assert type(flow.error).__name__ == "KeyUnsuitable", flow.error
    assert len(one.rows(f"SELECT * FROM {one.quote(REPLICA)}")) == before
    one.execute(f"DELETE FROM {one.quote(TABLE)} WHERE {one.quote('PIPELINE_NAME')} = 'twin'")
    pair.run_all()
    pair.check()


# One login reads and writes


def _as_loader(pair: Pair, connection: str) -> None:
    text = pair.file.read_text().replace("to: ops", "to: replica")
    head, _, tail = text.partition("  replica: ")
    pair.file.write_text(f"{head}  replica: {connection}\n{tail.partition(chr(10))[2]}")


def test_a_login_that_may_not_read_is_named_with_what_to_grant_it_on_postgresql(
    tmp_path: Path, postgres: Postgres
) -> None:
    one = postgres_database(postgres)
    pair = _inside(tmp_path, one)
    pair.insert(range(4), ago=3600)
    loader = f"loader_{one.rows('SELECT current_database()')[0][0]}"
    os.environ["TG_LOADER"] = "its own secret"
    one.execute(
        f"CREATE ROLE {loader} LOGIN PASSWORD 'its own secret'",
        "CREATE SCHEMA dw",
        f"GRANT ALL ON SCHEMA dw TO {loader}",
        f"GRANT USAGE ON SCHEMA public TO {loader}",
    )
    try:
        _as_loader(
            pair,
            one.connection.replace(f"user: {postgres.user}", f"user: {loader}, schema: dw").replace(
                "TG_POSTGRES", "TG_LOADER"
            ),
        )
        refused = here("run", "--json", "--project", pair.file)
        assert refused.code == 1, refused.said
        error = refused.json["flows"][0]["error"]
        assert f"the login {loader} may not read public.{TABLE}" in error["message"]
        assert f"GRANT SELECT ON public.{TABLE} TO {loader}" in error["hint"]

        one.execute(f'GRANT SELECT ON public."{TABLE}" TO {loader}')
        assert pair.run() == [4, 0, 0]
        pair.insert(range(10, 12), ago=60)
        flow = _run_while(pair, lambda: one.execute(f'REVOKE SELECT ON public."{TABLE}" FROM {loader}'))
        assert flow.error is not None
        assert f"the login {loader} may not read" in flow.error.message
        one.execute(f'GRANT SELECT ON public."{TABLE}" TO {loader}')
        pair.run_all()
        assert len(one.rows(f'SELECT * FROM dw."{REPLICA}"')) == 6
    finally:
        one.execute(f"DROP OWNED BY {loader} CASCADE", f"DROP ROLE {loader}")


def test_one_transaction_spans_two_databases_of_a_server_and_one_login_reads_both(
    tmp_path: Path, mariadb: MariaDB
) -> None:
    one = mysql_database(mariadb)
    pair = _inside(tmp_path, one)
    pair.insert(range(4), ago=3600)
    house = mariadb.create_database()
    loader = f"loader_{house}"[:32]
    os.environ["TG_LOADER"] = "its own secret"
    one.execute(
        f"CREATE USER '{loader}'@'%' IDENTIFIED BY 'its own secret'",
        f"GRANT ALL ON {house}.* TO '{loader}'@'%'",
    )
    source = one.home.removesuffix(".")
    _as_loader(
        pair,
        one.connection.replace(f"user: {mariadb.user}", f"user: {loader}")
        .replace(f"database: {source}", f"database: {house}")
        .replace("TG_MYSQL", "TG_LOADER"),
    )
    refused = here("run", "--json", "--project", pair.file)
    assert refused.code == 1, refused.said
    error = refused.json["flows"][0]["error"]
    assert f"the login {loader} may not read {source}.{TABLE}" in error["message"]
    assert f"GRANT SELECT ON {source}.{TABLE} TO {loader}" in error["hint"]

    one.execute(f"GRANT SELECT ON {source}.* TO '{loader}'@'%'")
    assert pair.run() == [4, 0, 0]
    pair.change(2, ago=60)
    assert pair.run() == [0, 2, 0]
    held = one.rows(f"SELECT PIPELINE_RUN_ID, STATUS FROM {house}.{REPLICA} ORDER BY 1")
    assert held == [(n, status) for n, (_, status) in sorted(pair.expected.items())]
    one.execute(f"DROP USER '{loader}'@'%'")


# Everything else that a flow can do


@pytest.mark.shown_on("sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "duckdb", "mysql"])
def test_backfill_repair_refresh_and_a_new_column_work_as_elsewhere(
    tmp_path: Path, request: pytest.FixtureRequest, engine: str
) -> None:
    one = make_database(engine, request, tmp_path / "one.db")
    pair = _inside(tmp_path, one, ", batch_rows: 4")
    pair.insert(range(10), ago=3600)
    pair.insert(range(10, 20), ago=1800)
    assert pair.run() == [20, 0, 0]
    table, replica = one.quote(TABLE), one.quote(REPLICA)
    key, _, status = map(one.quote, ("PIPELINE_RUN_ID", "PIPELINE_NAME", "STATUS"))

    def command(*words: str, code: int = 0) -> None:
        ran = here(*words, "--project", pair.file)
        assert ran.code == code, ran.said

    one.execute(f"UPDATE {replica} SET {status} = 'WRONG' WHERE {key} IN (1, 12)")
    one.execute(f"DELETE FROM {replica} WHERE {key} = 3")
    command("verify", code=1)
    command("repair", "-t", pair.flow, "--yes", "--reason", "somebody wrote there")
    pair.check()

    one.execute(f"UPDATE {replica} SET {status} = 'WRONG' WHERE {key} = 2")
    command("backfill", "-t", pair.flow, "--from", "2000-01-01", "--yes", "--reason", "somebody wrote there")
    pair.check()

    one.execute(f"ALTER TABLE {table} ADD COLUMN note {one.word}")
    pair.expected[50] = ("new", "RUNNING")
    one.execute(f"INSERT INTO {table} VALUES (50, 'new', 'RUNNING', {one.ago(60)}, 'é')")
    assert pair.run() == [1, 0, 0]
    assert one.rows(f"SELECT note FROM {replica} WHERE {key} = 50") == [("é",)]
    pair.check()

    one.execute(f"DELETE FROM {replica} WHERE {key} < 5")
    command("run", "--full-refresh", "--yes", "--reason", "made anew")
    pair.check()


def test_a_plan_of_the_other_way_is_finished_inside(tmp_path: Path) -> None:
    """And the other way round: what a plan froze means the same to both."""
    one = duckdb_database(tmp_path / "one.db")
    pair = Pair(tmp_path, one, one, to="ops", more=", batch_rows: 4, execute: auto")
    pair.insert(range(20), ago=3600)
    for execute in ("database", "auto", "database"):
        ran = here("run", "--limit", "4", "--project", pair.file)
        assert ran.code == 0, ran.said
        text = pair.file.read_text()
        pair.file.write_text(
            text.replace("execute: auto", "execute: X").replace("execute: database", "execute: X")
        )
        pair.file.write_text(pair.file.read_text().replace("execute: X", f"execute: {execute}"))
    pair.run_all()
    pair.check()


def test_a_table_is_never_written_onto_itself(tmp_path: Path) -> None:
    one = sqlite_database(tmp_path / "one.db")
    pair = _inside(tmp_path, one)
    text = pair.file.read_text().replace("{table}_REPLICATION", TABLE.lower())
    pair.file.write_text(text)
    ran = here("run", "--json", "--project", pair.file)
    assert ran.code != 0
    assert "onto itself" in ran.said


def test_a_run_opens_one_connection_to_its_target(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = _inside(tmp_path, postgres_database(postgres))
    pair.insert(range(10), ago=3600)
    pair.run()
    pair.change(5, ago=60)
    opened: list[str] = []
    connect = psycopg.connect

    def counted(*given: Any, **named: Any) -> Any:
        opened.append(str(named.get("application_name")))
        return connect(*given, **named)

    monkeypatch.setattr(psycopg, "connect", counted)
    # However slow the machine is.
    monkeypatch.setattr(kept_open, "LINGER", 600.0)
    project = load_project(pair.file)
    report = engine_run.run(project, RunOptions(remarks=False), tell=lambda _: None, stop=threading.Event())
    assert [flow.ok for flow in report.flows] == [True]
    # The reader's own, and those that look for deleted rows, come and go; of the target's there is one.
    assert opened.count("tidegauge") == 1, opened
