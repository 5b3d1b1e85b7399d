"""What `health` says of a plan that nobody has begun, because its process ended between plan and claim."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from tests.support.nursery import own_nursery
from tests.support.project import Project, here, local, sqlite_database
from tidegauge.ledger.base import BaseLedger

TABLES = ("orders", "people")
DUCKDB = "  warehouse: {type: duckdb, path: warehouse.duckdb}\n"
DIED = 77
"""The exit code of a process that ends at its first claim."""


def _project(folder: Path) -> Project:
    made = local(folder, sqlite_database(folder / "app.db"))
    for table in TABLES:
        made.database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
        made.database.insert(table, [(1, "2025-01-01 12:00:00")])
    return made.write(
        "tables: ['*'], cursor: at, settle: 0s, mode: merge",
        route="to: warehouse",
        connections=DUCKDB,
        top="health: {stuck: 2h}",
    )


def run_until_claim(file: str) -> tuple[int, str]:
    """Run the project in a process that ends without a word as it claims its first flow."""

    def die(*_: object, **__: object) -> NoReturn:
        os._exit(DIED)

    with patch.object(BaseLedger, "claim", die):
        ran = here("run", "--project", file)
    return ran.code, ran.said


def test_a_plan_that_no_process_has_claimed_in_time_is_stuck(tmp_path: Path) -> None:
    project = _project(tmp_path)
    task = f"{__name__}:{run_until_claim.__name__}"
    assert own_nursery().fork("call", function=task, given={"file": str(project.file)}).wait() == DIED
    assert project.here("health").code == 0, "it was made just now"
    with closing(sqlite3.connect(project.ledger_file)) as ledger:
        ledger.execute("UPDATE plans SET created_at = datetime(created_at, '-3 hours') || '.000000'")
        ledger.commit()
    found = project.here("health", "--json")
    assert (found.code, found.json["status"]) == (1, "CRITICAL"), found.said
    said = {table: found.flow(table)["problems"] for table in TABLES}
    assert said == {table: ["stuck: a plan that was made 3 h ago is not done"] for table in TABLES}
    assert project.here("run").code == 0
    assert project.here("health").code == 0
