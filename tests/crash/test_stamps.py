"""A row stamped long before its transaction began, and a planner killed as it remembers who to wait for."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash import dying
from tests.crash.dying import Death
from tests.support.lake import rows
from tests.support.nursery import Nursery
from tests.support.project import local, mysql_database, until
from tests.support.servers import MariaDB

WAITING = (
    "SELECT COUNT(*) FROM information_schema.PROCESSLIST"
    " WHERE STATE LIKE 'Waiting for table%' AND DB = DATABASE()"
)


@pytest.mark.parametrize("side", ["before", "after"])
def test_a27_a_plan_killed_beside_its_ledger_loses_nobody_it_waits_for(
    mariadb: MariaDB, nursery: Nursery, tmp_path: Path, side: str
) -> None:
    database = mysql_database(mariadb)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP(6) NOT NULL DEFAULT NOW(6), KEY (at))",
        "CREATE TABLE gate (id INT PRIMARY KEY)",
        "INSERT INTO gate VALUES (2)",
        "INSERT INTO t (id) VALUES (1)",
    )
    project = local(tmp_path, database).write("tables: [t], cursor: at, settle: 1s")

    def run(at: Death | None = None) -> int:
        return dying.run(nursery, at, None, "run", "--json", "--project", project.file).code

    def arrived() -> list[int]:
        return sorted(row["id"] for row in rows(project.lake, project.name("t")))

    until(lambda: run() == 0 and arrived() == [1])
    with closing(database.connect()) as late, closing(database.connect()) as owner:
        late.autocommit(False)
        owner.cursor().execute("LOCK TABLES gate WRITE")
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(late.cursor().execute, "INSERT INTO t (id) SELECT id FROM gate")
            until(lambda: database.rows(WAITING) == [(1,)])
            # Seen while it waits for the lock, and remembered or not, as the kill has it.
            assert run(Death(("tidegauge.ledger.sql_ledger:SqlLedger.plan",), side)) == -9
            time.sleep(2.5)  # more than settle, and the second that a transaction's start is rounded to
            owner.cursor().execute("UNLOCK TABLES")
            waits.result()
        database.execute("INSERT INTO t (id) VALUES (3)")
        assert run() == 0
        late.commit()
    until(lambda: run() == 0 and arrived() == [1, 2, 3])
