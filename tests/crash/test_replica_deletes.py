"""Rows that a replica has not applied yet are not taken for deleted ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.nursery import Ended, Kill, Nursery
from tests.support.project import duckdb_database, until
from tests.support.servers import Postgres, start_postgres, start_standby
from tidegauge.run.steps import Step

LEFT = "no row is deleted: this replica may lack rows that were read before"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with start_postgres() as primary, start_standby(primary) as standby:
        yield primary, standby


class Shop:
    """A table on a primary and its standby, which is brought into DuckDB with `deletes: hard`."""

    def __init__(
        self, folder: Path, nursery: Nursery, servers: tuple[Postgres, Postgres], cursor: str, via: str = ""
    ) -> None:
        self.nursery, (self.primary, self.standby) = nursery, servers
        self.name = self.primary.create_database()
        self.file, self.cursor, self.via = folder / "tidegauge.yml", cursor, via
        self.password, self.target = folder / "password", duckdb_database(folder / "dw.duckdb")
        self.password.write_text(self.primary.password)
        self.execute("CREATE TABLE t (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        self.execute("CREATE TABLE beat (n int)")

    def execute(self, statement: str, *, standby: bool = False) -> list[tuple[Any, ...]]:
        server = self.standby if standby else self.primary
        with server.connect(self.name) as connection:
            connection.autocommit = True
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def run(self, server: Postgres, kill: Kill | None = None) -> Ended:
        lake = "  lake: {type: parquet, path: lake}\n" if self.via else ""
        self.file.write_text(
            "pipeline: shop\nledger: sqlite:///ledger.db\nconnections:\n"
            f"  app: {{type: postgresql, host: {server.host}, port: {server.port}, database: {self.name},"
            f' user: {server.user}, password: "${{file:{self.password}}}"}}\n'
            f"{lake}  dw: {self.target.connection}\nsync:\n"
            f"  - {{from: app, {self.via} to: dw, tables: [public.t], cursor: {self.cursor}, mode: merge,"
            " deletes: hard, deletes_limit: 100%, settle: 0s}\n"
        )
        if kill is not None:
            return self.nursery.run(self.file, kill=kill)
        return self.nursery.command("run", "--json", "--project", self.file)

    def landed(self) -> list[int]:
        return [number for (number,) in self.target.rows("SELECT id FROM t ORDER BY id")]

    def await_applied(self) -> None:
        self.execute("INSERT INTO beat VALUES (1)")
        [(count,)] = self.execute("SELECT COUNT(*) FROM beat")
        until(lambda: self._count_applied() == count)

    def _count_applied(self) -> int:
        try:
            return int(self.execute("SELECT COUNT(*) FROM beat", standby=True)[0][0])
        except psycopg.Error:
            return 0  # the database or the table is not there yet

    def await_landed(self, server: Postgres, wanted: list[int]) -> None:
        """Run until just these rows have landed: how far a replica is read moves with its primary's news."""

        def ran() -> bool:
            self.await_applied()
            assert self.run(server).code == 0
            return self.landed() == wanted

        until(ran, tell=self.landed)

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Inside the block the standby applies nothing that is new."""
        self.await_applied()
        self.execute("SELECT pg_wal_replay_pause()", standby=True)
        try:
            paused = "SELECT 1 WHERE pg_get_wal_replay_pause_state() = 'paused'"
            until(lambda: self.execute(paused, standby=True))
            yield
        finally:
            self.execute("SELECT pg_wal_replay_resume()", standby=True)


CURSORS = pytest.mark.parametrize("cursor", ["at", "id"])


@pytest.mark.shown_on("straight")
@CURSORS
@pytest.mark.parametrize("via", ["", "via: lake,"], ids=["straight", "lake"])
def test_a7_a12_rows_that_a_replica_lacks_are_not_deleted(
    tmp_path: Path, nursery: Nursery, servers: tuple[Postgres, Postgres], cursor: str, via: str
) -> None:
    primary, standby = servers
    shop = Shop(tmp_path, nursery, servers, cursor, via)
    shop.execute("INSERT INTO t SELECT FROM generate_series(1, 3)")
    with shop.behind():
        shop.execute("INSERT INTO t SELECT FROM generate_series(1, 2)")
        shop.execute("DELETE FROM t WHERE id = 1")
        assert shop.run(primary).code == 0
        assert shop.landed() == [2, 3, 4, 5]
        ran = shop.run(standby)
        assert ran.code == 0, ran
        assert any(LEFT in note for note in ran.flows[-1]["notes"])
        assert shop.landed() == [2, 3, 4, 5]
    shop.execute("DELETE FROM t WHERE id = 2")
    shop.execute("INSERT INTO t DEFAULT VALUES")
    shop.await_landed(standby, [3, 4, 5, 6])


@CURSORS
def test_a7_a12_deletes_planned_on_the_primary_take_nothing_away_when_a_replica_takes_them_up(
    tmp_path: Path, nursery: Nursery, servers: tuple[Postgres, Postgres], cursor: str
) -> None:
    primary, standby = servers
    shop = Shop(tmp_path, nursery, servers, cursor)
    shop.execute("INSERT INTO t SELECT FROM generate_series(1, 3)")
    with shop.behind():
        assert shop.run(primary).code == 0
        shop.execute("INSERT INTO t SELECT FROM generate_series(1, 2)")
        shop.execute("DELETE FROM t WHERE id = 1")
        kill = Kill("public.t", "before", Step.PUBLISH, 2)
        assert shop.run(primary, kill=kill).code == -9
        assert shop.landed() == [1, 2, 3, 4, 5]
        assert shop.run(standby).code == 0
        assert shop.landed() == [1, 2, 3, 4, 5]
    shop.execute("INSERT INTO t DEFAULT VALUES")
    shop.await_landed(standby, [2, 3, 4, 5, 6])
