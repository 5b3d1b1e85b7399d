"""Tables that go, and come back: what every command says of them, and how a person ends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.drafts import OTHER, draft
from tests.support.project import (
    Database,
    Project,
    local,
    mysql_database,
    postgres_database,
    refused,
    sqlite_database,
)
from tests.support.servers import MariaDB, Postgres
from tidegauge.ledger.open import open_ledger

WAREHOUSE = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
EVERY = 'tables: ["*"], cursor: id, key: id'
WHY = ("--reason", "it was merged into orders", "--yes")
READER, PASSWORD = "tg_gone_reader", "gone-1-reader"


def fill(database: Database, *tables: str, rows: int = 3) -> None:
    for table in tables:
        database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word {database.word})")
        database.insert(table, [(n, f"word {n}") for n in range(1, rows + 1)])


def made(tmp_path: Path, database: Database, sync: str = EVERY, **changes: str) -> Project:
    project = local(tmp_path, database)
    return project.write(sync, **{"route": "to: warehouse", "connections": WAREHOUSE, **changes})


def landed(project: Project, table: str) -> list[int]:
    with duckdb.connect(str(project.folder / "warehouse.duckdb"), read_only=True) as connection:
        return [n for (n,) in connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()]


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """Tables orders and items in SQLite, both delivered."""
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders", "items")
    project = made(tmp_path, database)
    assert project.here("run").code == 0
    return project


# --- what every command says


Hands = tuple[Callable[[], None], Callable[[], None]]
"""Take the table items away, and bring it back."""


def dropped(database: Database) -> Hands:
    """As MySQL and SQLite bring it back: they know a table by its name."""
    return (
        lambda: database.execute("ALTER TABLE items RENAME TO kept_elsewhere"),
        lambda: database.execute("ALTER TABLE kept_elsewhere RENAME TO items"),
    )


def _sqlite(tmp_path: Path, _: pytest.FixtureRequest) -> tuple[Database, Hands]:
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders", "items")
    return database, dropped(database)


def _mysql(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Database, Hands]:
    database = mysql_database(request.getfixturevalue("mariadb"))
    fill(database, "orders", "items")
    return database, dropped(database)


def _postgresql(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Database, Hands]:
    database = postgres_database(request.getfixturevalue("postgres"))
    fill(database, "orders", "items")
    return database, dropped(database)


def _mysql_grant(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Database, Hands]:
    server: MariaDB = request.getfixturevalue("mariadb")
    database = mysql_database(server, password="${env:TG_GONE}")
    fill(database, "orders", "items")
    os.environ["TG_GONE"] = PASSWORD
    name = database.home.removesuffix(".")
    database.execute(f"CREATE USER IF NOT EXISTS {READER}@'%' IDENTIFIED BY '{PASSWORD}'")
    for table in ("orders", "items"):
        database.execute(f"GRANT SELECT ON {name}.{table} TO {READER}@'%'")
    bare = replace(
        database, connection=database.connection.replace(f"user: {server.user}", f"user: {READER}")
    )
    return bare, (
        lambda: database.execute(f"REVOKE SELECT ON {name}.items FROM {READER}@'%'"),
        lambda: database.execute(f"GRANT SELECT ON {name}.items TO {READER}@'%'"),
    )


def _postgresql_grant(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Database, Hands]:
    server: Postgres = request.getfixturevalue("postgres")
    database = postgres_database(server, password="${env:TG_GONE}")
    fill(database, "orders", "items")
    os.environ["TG_GONE"] = PASSWORD
    # Of this database alone: other processes' tests use the server too.
    [(reader,)] = database.rows(f"SELECT '{READER}_' || current_database()")
    database.execute(f"CREATE ROLE {reader} LOGIN PASSWORD '{PASSWORD}'")
    database.execute(f"GRANT SELECT ON orders, items TO {reader}")
    bare = replace(
        database, connection=database.connection.replace(f"user: {server.user}", f"user: {reader}")
    )
    return bare, (
        lambda: database.execute(f"REVOKE SELECT ON items FROM {reader}"),
        lambda: database.execute(f"GRANT SELECT ON items TO {reader}"),
    )


CASES = [_sqlite, _mysql, _postgresql, _mysql_grant, _postgresql_grant]


@pytest.mark.shown_on("sqlite", "postgresql", "mysql_grant")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.strip("_"))
def test_a29_a_table_that_is_shown_no_more_is_failed_and_goes_on_once_it_is_back(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    case: Callable[[Path, pytest.FixtureRequest], tuple[Database, Hands]],
) -> None:
    database, (take_away, bring_back) = case(tmp_path, request)
    project = made(tmp_path, database, 'tables: ["orders", "item*"], cursor: id, key: id')
    assert project.here("run").code == 0
    take_away()
    orders, items = project.name("orders"), project.name("items")
    health = project.here("health", "--json")  # before any run has found out
    assert (health.code, health.flow(items)["state"]) == (1, "FAILED"), health.said
    assert "no longer shows this table" in health.flow(items)["problems"][0]
    for command in ("run", "plan"):
        ran = project.here(command, "--json")
        assert ran.code == 1, ran.said
        flow = ran.flow(items)
        assert (flow["state"], flow["error"]["type"]) == ("FAILED", "TableMissing")
        assert f"tidegauge forget -t {items}" in flow["error"]["hint"]
        assert ran.flow(orders)["state"] == "SKIPPED"
    status = project.here("status", "--json").flow(items)
    assert (status["state"], status["last_run"]["state"]) == ("FAILED", "FAILED")
    assert "no longer shows this table" in status["last_run"]["error"]["message"]
    assert "no longer shows this table" in project.here("status").out
    assert project.here("health").code == 1
    verified = project.here("verify", "--json")
    equal = {one["table"]: one["equal"] for one in verified.json["tables"]}
    assert (verified.code, equal) == (1, {orders: True, items: False})
    assert project.here("doctor").code == 1
    bring_back()
    ran = project.here("run", "--json")
    assert (ran.code, ran.flow(items)["state"]) == (0, "SKIPPED"), ran.said
    assert project.here("status", "--json").flow(items)["state"] == "SKIPPED"
    assert project.here("health").code == project.here("verify").code == 0


def test_a29_a_table_that_is_shown_and_may_not_be_read_any_more_is_failed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """MariaDB shows a table to whoever may do anything with it."""
    database, (take_away, bring_back) = _mysql_grant(tmp_path, request)
    items = f"{database.home}items"
    database.execute(f"GRANT INSERT ON {items} TO {READER}@'%'")
    project = made(tmp_path, database)
    assert project.here("run").code == 0
    take_away()
    ran = project.here("run", "--json")
    assert (ran.code, ran.flow(items)["state"]) == (1, "FAILED"), ran.said
    assert ran.flow(project.name("orders"))["state"] == "SKIPPED"
    assert project.here("health").code == project.here("verify").code == 1
    bring_back()
    assert project.here("run").code == project.here("health").code == 0


def test_a29_a_view_that_took_the_tables_place_is_named(shop: Project) -> None:
    shop.database.execute("DROP TABLE items", "CREATE VIEW items AS SELECT * FROM orders")
    ran = shop.here("run")
    refused(ran, "there is a view of that name now")


def test_a29_a_named_table_that_is_gone_stops_no_other(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders", "items")
    project = made(tmp_path, database, "tables: [orders, items, itmes], cursor: id, key: id")
    ran = project.here("run", "--json")  # one of them never was
    states = {one["flow"]: one["state"] for one in ran.json["flows"]}
    assert (ran.code, states) == (1, {"app: itmes": "FAILED", "items": "SUCCESS", "orders": "SUCCESS"})
    assert "did you mean items?" in ran.flow("app: itmes")["error"]["hint"]
    assert project.here("run", "-t", "orders").code == 0
    project.write("tables: [orders, items], cursor: id, key: id")
    database.execute("DROP TABLE items")
    database.insert("orders", [(4, "more")])
    ran = project.here("run", "--json")
    assert (ran.code, ran.flow("items")["state"], ran.flow("orders")["state"]) == (1, "FAILED", "SUCCESS")
    assert "take its name out of `tables:`" in ran.flow("items")["error"]["hint"]
    assert landed(project, "orders") == [1, 2, 3, 4]
    project.write("tables: [orders], cursor: id, key: id")
    assert project.here("run").code == project.here("health").code == 0


def test_a29_a_plan_that_was_left_of_a_table_that_is_gone_is_failed_too(shop: Project) -> None:
    with open_ledger(f"sqlite:///{shop.ledger_file}", create=True) as ledger:
        [mark] = ledger.watermarks("test", ["items"])
        made = draft("items", pipeline="test", inputs=("items",))
        made = replace(made, inputs=(replace(made.inputs[0], source_id=str(mark.source_id)),))
        plan = ledger.plan([made], owner=OTHER, run_id="run")["items"]
        ledger.claim(plan, owner=OTHER, run_id="run", lease=timedelta(0))  # and nobody heard of it again
    shop.database.execute("DROP TABLE items")
    ran = shop.here("run", "--json")
    assert (ran.code, ran.flow("items")["state"]) == (1, "FAILED")
    assert shop.here("retry").code == 1
    assert shop.here("status", "--json").flow("items")["state"] == "FAILED"
    assert "no longer shows" in shop.here("health", "--json").flow("items")["problems"][0]
    assert shop.here("forget", "-t", "items", *WHY).code == 0
    assert shop.here("run").code == shop.here("health").code == 0


def test_a29_all_tables_of_a_database_that_was_emptied_are_failed(shop: Project) -> None:
    shop.database.execute("DROP TABLE items", "DROP TABLE orders")
    states = {one["flow"]: one["state"] for one in shop.here("run", "--json").json["flows"]}
    assert states == {"items": "FAILED", "orders": "FAILED"}


def test_a29_a_database_that_is_gone_is_no_table_that_is_gone(shop: Project) -> None:
    (shop.folder / "source.db").unlink()
    ran = shop.here("run", "--json")
    [flow] = ran.json["flows"]
    assert (ran.code, flow["error"]["type"]) == (1, "SourceUnreachable")
    refused(shop.here("forget", "-t", "items", *WHY), "cannot be known", "exclude:")


@pytest.mark.parametrize("server", ["mariadb", "postgres"])
def test_a29_a_login_that_is_refused_is_no_table_that_is_gone(
    tmp_path: Path, request: pytest.FixtureRequest, server: str
) -> None:
    make: Callable[[Any], Database] = mysql_database if server == "mariadb" else postgres_database
    database = make(request.getfixturevalue(server))
    fill(database, "orders")
    project = made(tmp_path, database)
    assert project.here("run").code == 0
    variable = "TG_MYSQL" if server == "mariadb" else "TG_POSTGRES"
    os.environ[variable] += "?"
    [flow] = project.here("run", "--json").json["flows"]
    assert (flow["state"], flow["error"]["type"]) == ("FAILED", "SourceUnreachable")


# --- a user's edit of the file is no loss


def test_a29_what_the_file_leaves_out_is_not_missed(shop: Project) -> None:
    shop.database.execute("DROP TABLE items")
    assert shop.here("run").code == 1
    for sync in (EVERY + ", exclude: [items]", "tables: [orders], cursor: id, key: id"):
        shop.write(sync)
        assert shop.here("run").code == shop.here("health").code == shop.here("verify").code == 0
        left = shop.here("status", "--json").flow("items")
        assert left["in_file"] is False
        assert "this file does not name it" in shop.here("status").out
    shop.write("tables: ['*'], key: id, override: {orders: {cursor: id}}")  # no cursor for items any more
    assert shop.here("run").code == 0
    assert shop.here("forget", "-t", "items", *WHY).code == 0
    assert [one["flow"] for one in shop.here("status", "--json").json["flows"]] == ["orders"]


def test_a29_a_sync_that_was_taken_out_is_not_missed_in_another_that_has_its_pattern(tmp_path: Path) -> None:
    database, other = (sqlite_database(tmp_path / f"{name}.db") for name in ("source", "other"))
    fill(database, "orders")
    fill(other, "items")
    project = made(tmp_path, database, connections=f"{WAREHOUSE}  more: {other.connection}\n")
    second = '  - {from: more, to: warehouse, tables: ["*"], cursor: id, key: id}\n'
    whole = project.file.read_text()
    project.file.write_text(whole + second)
    assert project.here("run").code == 0
    project.file.write_text(whole)
    ran = project.here("run", "--json")
    assert ran.code == 0
    assert [one["flow"] for one in ran.json["flows"]] == ["orders"]
    [note] = ran.json["notes"]
    assert "a watermark of items, taken from sqlite:" in note


# --- forget


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("postgres", "mariadb")]


@pytest.mark.shown_on("sqlite", "delta")
@pytest.mark.parametrize("store_address", ["sqlite", "json", "delta", *LONG], indirect=True)
def test_a29_forget_ends_it_on_every_store_and_undo_brings_it_back(
    tmp_path: Path, store_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders", "items")
    monkeypatch.setenv("TG_LEDGER", store_address)
    project = made(tmp_path, database, ledger="${env:TG_LEDGER}")
    assert project.here("run").code == 0
    away, back = dropped(database)
    project.write(EVERY + ", exclude: [kept_*]")
    away()
    assert project.here("run").code == 1
    shown = project.here("forget", "-t", "items", "--dry-run", "--json").json
    assert (shown["done"], shown["flows"][0]["from"]["items"]["cursor"]) == (False, "3")
    refused(project.here("forget", "-t", "items", "--yes"), "needs a reason", code=2)
    refused(project.here("forget", "-t", "items", "--reason", "why"), "not confirmed", code=2)
    assert project.here("run").code == 1
    assert project.here("forget", "-t", "items", *WHY).code == 0
    for command in ("run", "plan", "health", "verify"):
        assert project.here(command).code == 0, command
    for command in ("status", "watermark list"):
        assert "items" not in project.here(*command.split()).out
    [event] = [one for one in project.here("history", "--json").json["events"] if one["event"] == "forgotten"]
    assert (event["flow"], event["reason"], event["from"]["cursor"]) == ("items", WHY[1], "3")
    back()
    database.insert("items", [(4, "word 4")])
    for command in ("run", "plan", "health"):
        assert project.here(command).code == 1, command
    assert "watermark undo -t items" in project.here("run", "--json").flow("items")["error"]["hint"]
    assert project.here("status", "--json").flow("items")["state"] == "FAILED"
    assert project.here("watermark", "undo", "-t", "items", "--reason", "it is back", "--yes").code == 0
    ran = project.here("run", "--json")
    assert (ran.code, ran.flow("items")["rows_written"]) == (0, 1), ran.said
    assert landed(project, "items") == [1, 2, 3, 4]
    assert project.here("verify").code == 0


def test_a29_a_forgotten_table_that_is_back_can_begin_again(shop: Project) -> None:
    away, back = dropped(shop.database)
    shop.write(EVERY + ", exclude: [kept_*]")
    away()
    assert shop.here("forget", "--select", "*", *WHY).code == 0  # of all, those that are gone
    back()
    refused(shop.here("run"), "was forgotten", "watermark reset -t items")
    assert shop.here("watermark", "reset", "-t", "items", "--reason", "anew", "--yes").code == 0
    ran = shop.here("run", "--json")
    assert (ran.code, ran.flow("items")["rows_read"]) == (0, 3)
    assert landed(shop, "items") == [1, 2, 3]


def test_a29_undo_of_what_was_forgotten_by_mistake_needs_no_table(shop: Project) -> None:
    shop.database.execute("DROP TABLE items")
    assert shop.here("forget", "-t", "items", *WHY).code == 0
    assert shop.here("run").code == 0
    assert shop.here("watermark", "undo", "-t", "items", "--reason", "oh", "--yes").code == 0
    assert shop.here("run").code == 1


@pytest.mark.parametrize("words", [("run", "--full-refresh"), ("watermark", "reset", "--select", "*")])
def test_a29_what_cannot_be_read_again_is_not_thrown_away(shop: Project, words: tuple[str, ...]) -> None:
    shop.database.execute("DROP TABLE items")
    refused(shop.here(*words, *WHY), "items: connection 'app' no longer shows this table")
    assert landed(shop, "items") == landed(shop, "orders") == [1, 2, 3]
    assert shop.here("run", "--full-refresh", "-t", "orders", *WHY).code == 0


def test_a29_what_is_there_is_not_forgotten(shop: Project) -> None:
    refused(shop.here("forget", "-t", "items", *WHY), "is a flow of this file", "exclude:", code=2)
    refused(shop.here("forget", "-t", "itmes", *WHY), "knows no flow itmes", "items", code=2)
    refused(shop.here("forget", *WHY), "needs to know which flows", code=2)
    assert shop.here("run").code == 0


def test_a29_of_two_stages_the_first_fails_the_second_waits_and_both_are_forgotten(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders", "items")
    project = made(tmp_path, database, route="via: lake, to: warehouse")
    assert project.here("run", "--stage", "extract").code == 0
    database.execute("DROP TABLE items")
    ran = project.here("run", "--json")
    states = {one["flow"]: one["state"] for one in ran.json["flows"]}
    assert ran.code == 1
    assert (states["items/extract"], states["items/load"]) == ("FAILED", "SKIPPED")
    assert states["orders/load"] == "SUCCESS"
    shown = project.here("forget", "-t", "items", "--dry-run", "--json").json["flows"]
    assert [one["flow"] for one in shown] == ["items/extract"]
    assert project.here("run", "--stage", "load").code == 0  # what was read before still arrives
    assert landed(project, "items") == [1, 2, 3]
    assert project.here("verify").code == 1
    assert project.here("forget", "-t", "items", *WHY).code == 0
    assert project.here("run").code == project.here("health").code == project.here("verify").code == 0
    assert landed(project, "items") == [1, 2, 3]


# --- what the file says in vain


def test_f4_an_override_of_no_table_and_a_view_under_a_pattern_are_said(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path / "source.db")
    fill(database, "orders")
    database.execute("CREATE VIEW big_orders AS SELECT * FROM orders")
    override = "override: {oders: {batch_rows: 10}, ord*: {batch_rows: 20}}"
    project = made(tmp_path, database, f"{EVERY}, {override}")
    for command in ("plan", "run"):
        ran = project.here(command, "--json")
        view, mistaken = ran.json["notes"]
        assert ran.code == 0
        assert "view big_orders" in view
        assert "the override 'oders' is of no table that is read here; did you mean orders?" in mistaken
        assert "tidegauge.yml:" in mistaken
        said = project.here(command).out
        assert view in said
        assert mistaken in said
    assert project.here("plan", "-t", "orders", "--json").json["notes"] == []
    found = [one["says"] for one in project.here("doctor", "--json").json["findings"]]
    assert {f"note: {view}", f"note: {mistaken}"} <= set(found)
    project.write(f"{EVERY}, exclude: [big_*]")
    assert project.here("run", "--json").json["notes"] == []
    project.write("tables: [orders, big_orders], cursor: id, key: id")
    assert project.here("run").code == 0, "a view that is named is read"
    database.execute("CREATE VIRTUAL TABLE notes USING fts5(line)")
    project.write("tables: [orders, notes], cursor: id, key: id")
    refused(project.here("run"), "only the virtual table notes")
