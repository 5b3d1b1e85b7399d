"""Targets that a run looks at together: what is wrong is noticed, and what changes after the look too.

The look serves planning. Whoever commits reads the head, the table and its columns again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import (
    Database,
    Project,
    Ran,
    duckdb_database,
    local,
    mysql_database,
    postgres_database,
    sqlite_database,
)
from tests.support.servers import MariaDB, Postgres
from tidegauge.config.load import load_project
from tidegauge.flows.flow import Flow
from tidegauge.flows.selection.select import choose
from tidegauge.flows.table.target_check import check_targets
from tidegauge.ledger.open import open_ledger
from tidegauge.outputs.warehouse.duckdb.session import DuckDBSession
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.run import planner
from tidegauge.sources.connections import SourceConnections

TABLES = ("a", "b", "c")


@pytest.fixture(params=["duckdb", "postgresql", pytest.param("mysql", marks=pytest.mark.long)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    match request.param:
        case "postgresql":
            server: Postgres = request.getfixturevalue("postgres")
            return postgres_database(server)
        case "mysql":
            maria: MariaDB = request.getfixturevalue("mariadb")
            return mysql_database(maria)
        case _:
            return duckdb_database(tmp_path / "target.duckdb")


def made(
    tmp_path: Path, target: Database, tables: Sequence[str] = TABLES, route: str = "to: warehouse"
) -> Project:
    source = sqlite_database(tmp_path / "source.db")
    for table in tables:
        source.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word TEXT)")
    add(source, 1, tables)
    project = local(tmp_path, source).write(
        'tables: ["*"], cursor: id, key: id',
        route=route,
        connections=f"  warehouse: {target.connection}\n",
    )
    assert project.here("run").code == 0
    return project


def add(source: Database, number: int, tables: Sequence[str] = TABLES) -> None:
    for table in tables:
        source.insert(table, [(number, f"word {number}")])


def ids(target: Database, table: str) -> list[int]:
    return [int(n) for (n,) in target.rows(f"SELECT id FROM {table} ORDER BY id")]


def states(ran: Ran) -> dict[str, str]:
    return {one["flow"]: one["state"] for one in ran.json["flows"]}


@pytest.fixture
def after_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[list[str]]]:
    """Let another hand do something between the look and the commits; which flows stood is kept."""

    def let(hand: Callable[[], object]) -> list[list[str]]:
        stood: list[list[str]] = []

        def look(flows: Sequence[Flow]) -> None:
            check_targets(flows)
            stood.append([flow.spec.name for flow in flows if flow.target_checked])
            hand()

        monkeypatch.setattr(planner, "check_targets", look)
        return stood

    return let


def test_d9_a_target_that_was_dropped_is_noticed_by_the_one_look_also_without_news(
    tmp_path: Path, target: Database
) -> None:
    project = made(tmp_path, target)
    target.execute("DROP TABLE b")
    ran = project.here("run", "--json")
    assert ran.code == 1
    assert states(ran) == {"a": "SKIPPED", "b": "FAILED", "c": "SKIPPED"}
    assert "is gone" in ran.flow("b")["error"]["message"]


def test_d9_a_target_that_was_emptied_is_noticed_too(tmp_path: Path, target: Database) -> None:
    project = made(tmp_path, target)
    target.execute("DELETE FROM c")
    ran = project.here("run", "--json")
    assert states(ran) == {"a": "SKIPPED", "b": "SKIPPED", "c": "FAILED"}
    assert "is empty" in ran.flow("c")["error"]["message"]


def test_d9_a_target_dropped_after_the_look_is_not_made_anew(
    tmp_path: Path, target: Database, after_look: Callable[[Callable[[], object]], list[list[str]]]
) -> None:
    project = made(tmp_path, target)
    add(project.database, 2)
    stood = after_look(lambda: target.execute("DROP TABLE b"))
    ran = project.here("run", "--json")
    assert stood == [["a", "b", "c"]]
    assert states(ran) == {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS"}
    assert "is gone" in ran.flow("b")["error"]["message"]
    assert ids(target, "a") == ids(target, "c") == [1, 2]


def test_b17_an_epoch_opened_after_the_look_keeps_the_planned_batch_out(
    tmp_path: Path, target: Database, after_look: Callable[[Callable[[], object]], list[list[str]]]
) -> None:
    project = made(tmp_path, target)
    add(project.database, 2)
    with SourceConnections() as sources:
        loaded = load_project(project.file)
        [flow] = [one for one in choose(loaded, [], sources).flows if one.name == "b"]

    def reset() -> None:
        WarehouseOutput(flow).open_epoch("test", "b", 1, (0, 1), "another hand")

    stood = after_look(reset)
    ran = project.here("run", "--json")
    assert stood == [["a", "b", "c"]]
    assert states(ran) == {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS"}
    assert "later epoch" in ran.flow("b")["error"]["message"]
    assert ids(target, "b") == [1]
    with open_ledger(loaded.ledger, create=False) as ledger:
        [mark] = ledger.watermarks("test", ["b"])
    assert mark.seq == 1


def test_columns_that_change_after_the_look_are_seen_by_the_commit(
    tmp_path: Path, target: Database, after_look: Callable[[Callable[[], object]], list[list[str]]]
) -> None:
    project = made(tmp_path, target)
    add(project.database, 2)
    after_look(
        lambda: target.execute("ALTER TABLE a ADD COLUMN extra INTEGER", "ALTER TABLE b DROP COLUMN word")
    )
    ran = project.here("run", "--json")
    assert states(ran) == {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS"}, ran.said
    assert "has lost the column word" in ran.flow("b")["error"]["message"]
    assert target.rows("SELECT id, word, extra FROM a ORDER BY id") == [
        (1, "word 1", None),
        (2, "word 2", None),
    ]
    assert ids(target, "b") == [1]


def test_b5_a_warehouse_that_has_more_than_the_ledger_does_not_stand(
    tmp_path: Path, target: Database
) -> None:
    project = made(tmp_path, target)
    before = project.ledger_file.read_bytes()
    add(project.database, 2, ["b"])
    assert project.here("run").code == 0
    project.ledger_file.write_bytes(before)
    for beside in ("-wal", "-shm"):
        project.ledger_file.with_name(project.ledger_file.name + beside).unlink(missing_ok=True)
    ran = project.here("run", "--json")
    assert states(ran) == {"a": "SKIPPED", "b": "FAILED", "c": "SKIPPED"}
    assert "more batches than the ledger knows" in ran.flow("b")["error"]["message"]


def test_nothing_new_costs_no_question_for_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = DuckDBSession._execute

    def execute(self: DuckDBSession, sql: str, values: Sequence[object] = ()) -> None:
        asked.append(sql)
        real(self, sql, values)

    monkeypatch.setattr(DuckDBSession, "_execute", execute)
    tables = [f"t{number}" for number in range(30)]
    target = duckdb_database(tmp_path / "target.duckdb")
    project = made(tmp_path, target, tables, "via: lake, to: warehouse")
    asked.clear()
    ran = project.here("run", "--json")
    assert set(states(ran).values()) == {"SKIPPED"}
    assert len(states(ran)) == 60
    assert len(asked) < 10, asked


def test_of_a_thousand_new_flows_one_finds_a_table_that_is_somebody_elses(
    tmp_path: Path, target: Database
) -> None:
    source = sqlite_database(tmp_path / "source.db")
    for table in TABLES:
        source.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word TEXT)")
    add(source, 1)
    target.execute(f"CREATE TABLE b (id INTEGER PRIMARY KEY, word {target.word})")
    target.insert("b", [(7, "theirs")]) if target.engine != "duckdb" else target.execute(
        "INSERT INTO b VALUES (7, 'theirs')"
    )
    project = local(tmp_path, source).write(
        'tables: ["*"], cursor: id, key: id',
        route="to: warehouse",
        connections=f"  warehouse: {target.connection}\n",
    )
    ran = project.here("run", "--json")
    found: dict[str, Any] = states(ran)
    assert found == {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS"}
    assert ran.flow("b")["error"]["type"] == "OutputNotEmpty"
    assert ids(target, "b") == [7]
