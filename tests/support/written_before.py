"""Projects written by earlier versions, unpacked into a test's folder: see tests/fixtures/README.md."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.fixtures import dumps
from tests.fixtures.shop import WAREHOUSE
from tests.support.lake import LocalLake
from tests.support.lake import rows as lake_rows
from tests.support.project import Ran, here
from tests.support.servers import MariaDB, Postgres

FIXTURES = Path(__file__).parents[1] / "fixtures"
SETS = sorted(path.name for path in FIXTURES.glob("v*"))
Rows = Counter[tuple[Any, ...]]


@dataclass
class Old:
    """A copy of such a project. Its folder is the working folder, where its ledger expects the source."""

    folder: Path
    connect: Callable[[], Any] | None = None
    """Opens a connection to the project's warehouse; None if it has none."""
    connect_ledger: Callable[[], Any] | None = None
    """Opens a connection to the ledger; None if it is not in a database."""

    def do(self, *words: str, code: int = 0) -> Ran:
        ran = here(*words, "--json", "--project", "tidegauge.yml")
        assert ran.code == code, ran.said
        return ran

    def said(self, name: str) -> Any:
        """Read an output that the earlier version saved."""
        return json.loads((self.folder / "said" / f"{name}.json").read_text(encoding="utf-8"))

    def source(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "source.db")) as connection:
            return connection.execute(sql, values).fetchall()

    def columns(self, table: str) -> list[str]:
        return [name for (name,) in self.source("SELECT name FROM pragma_table_info(?)", table)]

    def expected(self, table: str) -> Rows:
        return Counter(self.source(f"SELECT * FROM {table}"))

    def in_lake(self, table: str) -> Rows:
        names = self.columns(table)
        found = lake_rows(LocalLake(self.folder / "lake"), table)
        return Counter(tuple(row[name] for name in names) for row in found)

    def in_warehouse(self, table: str, *more: str) -> Rows:
        # Qualified, because `at` alone is a keyword in DuckDB.
        names = ", ".join(f"t.{name}" for name in (*self.columns(table), *more))
        assert self.connect is not None
        return Counter(_fetch(self.connect, f"SELECT {names} FROM {table} AS t"))

    def in_ledger(self, sql: str) -> list[tuple[Any, ...]]:
        assert self.connect_ledger is not None
        return _fetch(self.connect_ledger, sql)


def _fetch(connect: Callable[[], Any], sql: str) -> list[tuple[Any, ...]]:
    with closing(connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def unpack(version: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack a project and make its folder the working folder; return the folder."""
    shutil.unpack_archive(FIXTURES / version / f"{name}.tar.xz", folder)
    monkeypatch.chdir(folder / name)
    return folder / name


def open_old(
    version: str, name: str, folder: Path, request: pytest.FixtureRequest, *, warehouse: bool = True
) -> Old:
    """Unpack a project, and restore its databases on the test's servers."""
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    home = unpack(version, name, folder, monkeypatch)

    def serve(server: Postgres | MariaDB, ledger: str, landed: str) -> None:
        monkeypatch.setenv("OLD_LEDGER", server.address(ledger))
        monkeypatch.setenv("OLD_PORT", str(server.port))
        monkeypatch.setenv("OLD_WAREHOUSE", landed)
        monkeypatch.setenv("OLD_USER", server.user)
        monkeypatch.setenv("OLD_PASSWORD", server.password)

    match name:
        case "sqlite":
            return Old(
                home,
                lambda: duckdb.connect(str(home / "warehouse.duckdb")),
                lambda: sqlite3.connect(home / "ledger.db"),
            )
        case "json" | "delta":
            return Old(home, lambda: sqlite3.connect(home / "warehouse.db"))
        case "postgresql":
            postgres: Postgres = request.getfixturevalue("postgres")
            landed = dumps.restore_postgres(postgres, home / "warehouse.sql") if warehouse else ""
            ledger = dumps.restore_postgres(postgres, home / "ledger.sql")
            serve(postgres, ledger, landed)
            return Old(home, lambda: postgres.connect(landed), lambda: postgres.connect(ledger))
        case _:
            mariadb: MariaDB = request.getfixturevalue("mariadb")
            ledger = mariadb.create_database()
            dumps.restore_mariadb(mariadb, ledger, home / "ledger.sql")
            if warehouse:
                dumps.restore_mariadb(mariadb, WAREHOUSE, home / "warehouse.sql")
            serve(mariadb, ledger, WAREHOUSE)
            return Old(home, lambda: mariadb.connect(WAREHOUSE), lambda: mariadb.connect(ledger))


def ledger_address(name: str) -> str:
    """Return the ledger's address for a tracker that runs in the project's folder."""
    return {"sqlite": "sqlite:///ledger.db", "json": "json:ledger", "delta": "delta:ledger"}.get(
        name
    ) or os.environ["OLD_LEDGER"]


def assert_says_the_same(kept: Any, now: Any, *, passing: Sequence[str] = (), place: str = "") -> None:
    """Check that every old field has its old value. There may be new fields; `passing` ones may change."""
    if isinstance(kept, dict):
        for name, value in kept.items():
            if name not in passing:
                assert name in now, f"{place}: there is no {name} any more"
                assert_says_the_same(value, now[name], passing=passing, place=f"{place}/{name}")
    elif isinstance(kept, list):
        assert len(kept) == len(now), f"{place}: there are {len(now)}, and were {len(kept)}"
        for number, (one, other) in enumerate(zip(kept, now, strict=True)):
            assert_says_the_same(one, other, passing=passing, place=f"{place}/{number}")
    else:
        assert now == kept, f"{place}: it is {now!r}, and was {kept!r}"


def history_of(log: Sequence[tuple[Any, ...]], when: int) -> Rows:
    """Compute the history (scd2) of rows `(key, …)` given in order of arrival: each version of a key, with
    valid_from, valid_to and is_current appended.

    `when` is the index of the column that orders them.
    """
    found: Rows = Counter()
    for key in {row[0] for row in log}:
        # Of two rows with the same time, the one that arrived later counts.
        versions = list({row[when]: row for row in log if row[0] == key}.values())
        kept: list[tuple[Any, ...]] = []
        for row in sorted(versions, key=lambda row: row[when]):
            if not kept or row[:when] != kept[-1][:when]:
                kept.append(row)
        ends = [row[when] for row in kept[1:]] + [None]
        found.update((*row, row[when], end, end is None) for row, end in zip(kept, ends, strict=True))
    return found
