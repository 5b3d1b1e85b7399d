"""A table and its replica in databases of any kind, and the rows that the replica must hold."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import (
    Database,
    duckdb_database,
    here,
    mysql_database,
    postgres_database,
    snowflake_database,
    sqlite_database,
)

TABLE, REPLICA = "ETL_PIPELINE_RUN_HISTORY_LOG", "ETL_PIPELINE_RUN_HISTORY_LOG_REPLICATION"
COLUMNS = ("PIPELINE_RUN_ID", "PIPELINE_NAME", "STATUS", "LAST_UPDATE_DATE")
ENGINES = ("sqlite", "duckdb", "postgresql", "mysql", "snowflake")
PROJECT = """\
pipeline: etl
ledger: sqlite:///ledger.db
connections:
  ops: {ops}
  replica: {replica}
sync:
  - {{from: ops, to: {to}, tables: [{table}], rename: "{{table}}_REPLICATION",
     cursor: LAST_UPDATE_DATE, key: PIPELINE_RUN_ID, mode: merge, deletes: hard, settle: 1s{more}}}
"""


class Pair:
    """A source table and its replica, with the rows that the replica must hold."""

    def __init__(self, folder: Path, ops: Database, replica: Database, *, to: str, more: str = "") -> None:
        self.ops, self.replica = ops, ops if to == "ops" else replica
        self.file = folder / "tidegauge.yml"
        self.file.write_text(
            PROJECT.format(ops=ops.connection, replica=replica.connection, to=to, table=TABLE, more=more)
        )
        self.expected: dict[int, tuple[str, str]] = {}
        key, name, status, moment = map(ops.quote, COLUMNS)
        ops.execute(
            f"CREATE TABLE {ops.quote(TABLE)} ({key} INT PRIMARY KEY, {name} {ops.word}, {status} {ops.word},"
            f" {moment} {ops.moment} NOT NULL)"
        )

    @property
    def flow(self) -> str:
        return f"{self.ops.home}{TABLE}"

    def insert(self, numbers: range, ago: int) -> None:
        ops = self.ops
        values = ", ".join(f"({n}, 'it''s {n}', 'RUNNING', {ops.ago(ago)})" for n in numbers)
        ops.execute(f"INSERT INTO {ops.quote(TABLE)} VALUES {values}")
        self.expected |= {n: (f"it's {n}", "RUNNING") for n in numbers}

    def change(self, below: int, ago: int) -> None:
        key, _, status, moment = map(self.ops.quote, COLUMNS)
        self.ops.execute(
            f"UPDATE {self.ops.quote(TABLE)} SET {status} = 'SUCCESS', {moment} = {self.ops.ago(ago)}"
            f" WHERE {key} < {below}"
        )
        self.expected |= {n: (name, "SUCCESS") for n, (name, _) in self.expected.items() if n < below}

    def delete(self, number: int) -> None:
        key = self.ops.quote(COLUMNS[0])
        self.ops.execute(f"DELETE FROM {self.ops.quote(TABLE)} WHERE {key} = {number}")
        del self.expected[number]

    def run(self) -> list[int]:
        ran = here("run", "--json", "--project", self.file)
        assert ran.code == 0, ran.said
        [flow] = ran.json["flows"]
        return [flow[f"rows_{what}"] for what in ("inserted", "updated", "deleted")]

    def run_all(self) -> None:
        """Run twice: for what is left of an earlier plan, and for the new rows after it."""
        for _ in range(2):
            ran = here("run", "--project", self.file)
            assert ran.code == 0, ran.said

    def keep_in_step(self) -> None:
        """Insert, update and delete rows, and check that the replica has the same rows after each run."""
        self.insert(range(20), ago=3600)
        assert self.run() == [20, 0, 0]
        self.check()
        self.change(7, ago=60)
        self.insert(range(100, 103), ago=60)
        self.delete(15)
        assert self.run() == [3, 7, 1]
        self.check()
        assert self.run() == [0, 0, 0]

    def check(self) -> None:
        held = _rows(self.replica, REPLICA)
        assert {n: (name, status) for n, name, status, _ in held} == self.expected
        assert len(held) == len(self.expected)
        assert held == _rows(self.ops, TABLE)
        verified = here("verify", "--json", "--project", self.file)
        assert verified.code == 0, verified.said


def _rows(where: Database, table: str) -> list[tuple[Any, ...]]:
    listed = ", ".join(map(where.quote, COLUMNS))
    found = where.rows(f"SELECT {listed} FROM {where.quote(table)}")
    # Snowflake's NUMBER(38,0) is text in SQLite, which has no number that wide.
    return sorted((int(key), *map(_plain, rest)) for key, *rest in found)


def _plain(value: Any) -> Any:
    match value:
        case str() if value[:2] == "20":
            return datetime.fromisoformat(value)
        case _:
            return value


def make_database(engine: str, request: pytest.FixtureRequest, file: Path) -> Database:
    match engine:
        case "sqlite":
            return sqlite_database(file)
        case "duckdb":
            return duckdb_database(file)
        case "mysql":
            return mysql_database(request.getfixturevalue("mariadb"))
        case "postgresql":
            return postgres_database(request.getfixturevalue("postgres"))
        case _:
            return snowflake_database(request.getfixturevalue("snowflake"))
