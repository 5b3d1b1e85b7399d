"""One operational table into its replica, in one stage, renamed and with exact counts."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.nursery import Nursery
from tests.support.project import Database, mysql_database, postgres_database
from tests.support.servers import MariaDB, Postgres

TABLE, REPLICA = "ETL_PIPELINE_RUN_HISTORY_LOG", "ETL_PIPELINE_RUN_HISTORY_LOG_REPLICATION"
COLUMNS = "PIPELINE_RUN_ID, PIPELINE_NAME, STATUS, LAST_UPDATE_DATE"
PROJECT = """\
pipeline: etl
ledger: sqlite:///ledger.db
connections:
  ops: {ops}
  replica: {replica}
sync:
  - {{from: ops, to: replica, tables: [ETL_PIPELINE_RUN_HISTORY_LOG], rename: "{{table}}_REPLICATION",
     cursor: LAST_UPDATE_DATE, key: PIPELINE_RUN_ID, mode: merge, deletes: none, settle: 1s}}
"""


def counted(folder: Path) -> list[tuple[int, int]]:
    """Rows inserted and updated by each run, as the paper's own view tells it."""
    with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        return sorted(ledger.execute("SELECT rows_inserted, rows_updated FROM etl_pipeline_sync_control"))


@pytest.mark.parametrize("way", ["mysql-mysql", "postgresql-postgresql", "mysql-postgresql"])
def test_a_table_is_kept_in_its_replica_with_exact_counts(
    tmp_path: Path, nursery: Nursery, mariadb: MariaDB, postgres: Postgres, way: str
) -> None:
    def database(engine: str) -> Database:
        return mysql_database(mariadb) if engine == "mysql" else postgres_database(postgres)

    ops, replica = (database(engine) for engine in way.split("-"))
    names = [ops.quote(name) for name in COLUMNS.split(", ")]
    key, pipeline, status, moment = names
    table = ops.quote(TABLE)
    ops.execute(
        f"CREATE TABLE {table} ({key} INT PRIMARY KEY, {pipeline} VARCHAR(40), {status} VARCHAR(10),"
        f" {moment} {ops.moment} NOT NULL)"
    )
    for number in range(20):
        ops.execute(f"INSERT INTO {table} VALUES ({number}, 'p{number}', 'RUNNING', {ops.ago(60)})")
    file = tmp_path / "tidegauge.yml"
    file.write_text(PROJECT.format(ops=ops.connection, replica=replica.connection))

    def ran() -> list[int]:
        ended = nursery.command("run", "--json", "--project", file)
        assert ended.code == 0, ended
        [flow] = ended.flows
        return [flow[f"rows_{what}"] for what in ("read", "inserted", "updated", "deleted")]

    def rows(where: Database, name: str) -> list[tuple[Any, ...]]:
        listed = ", ".join(where.quote(column) for column in COLUMNS.split(", "))
        return sorted(where.rows(f"SELECT {listed} FROM {where.quote(name)}"))

    assert ran() == [20, 20, 0, 0]
    ops.execute(
        f"UPDATE {table} SET {status} = 'SUCCESS', {moment} = {ops.ago(0)} WHERE {key} < 7",
        f"INSERT INTO {table} VALUES (100, 'new', 'RUNNING', {ops.ago(0)})",
        # Touched: the cursor is a column too, so this is a change.
        f"UPDATE {table} SET {moment} = {ops.ago(0)} WHERE {key} = 8",
    )
    time.sleep(2.5)
    assert ran() == [9, 1, 8, 0]
    assert rows(replica, REPLICA) == rows(ops, TABLE)
    assert counted(tmp_path) == [(1, 8), (20, 0)]
