"""Projects that write to a warehouse, and what plain SQL finds in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import Lake, LocalLake, manifests
from tests.support.project import (
    Database,
    Project,
    mysql_database,
    postgres_database,
    s3_lake,
    sqlite_database,
)
from tests.support.servers import MariaDB, Postgres, Redshift
from tidegauge.ledger.open import open_ledger

Row = tuple[int, int, str]


@dataclass
class House(Project):
    """A project that copies table `t` into a warehouse; `lake_text` is empty if there is no lake."""

    target: Database = field(kw_only=True)
    serial: int = 0
    changes: tuple[int, int] = (0, 0)
    """Rows inserted and rows updated so far."""

    def write(self, *syncs: str, **changes: str) -> House:
        for name, value in changes.items():
            setattr(self, name, value)
        lake = f"  lake: {self.lake_text}\n" if self.lake_text else ""
        via = "via: lake, " if self.lake_text else ""
        entries = "".join(f"  - {{from: app, {via}to: house, {body}}}\n" for body in syncs)
        self.file.write_text(
            f"pipeline: crash\nledger: '{self.ledger}'\n{self.top}\nconnections:\n"
            f"  app: {self.database.connection}\n{lake}  house: {self.target.connection}\nsync:\n{entries}",
            encoding="utf-8",
        )
        return self

    @property
    def extract(self) -> str:
        return f"{self.name('t')}/extract"

    @property
    def load(self) -> str:
        """The name of the flow that writes to the warehouse."""
        return f"{self.name('t')}/load" if self.lake_text else self.name("t")

    def make(self) -> None:
        self.database.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, version INT NOT NULL, word {self.database.word} NOT NULL)",
            "CREATE INDEX by_version ON t (version, id)",
        )

    def change(self, inserts: int, updates: int) -> None:
        """Insert new rows, and update the rows that were unchanged for longest."""
        inserted, updated = self.changes
        assert updates <= inserted
        keys = [*range(inserted, inserted + inserts)]
        old = [(updated + n) % inserted for n in range(updates)]
        with closing(self.database.connect()) as connection:
            cursor = connection.cursor()
            for place in range(max(inserts, updates)):
                for key, is_new in [(keys[place : place + 1], True), (old[place : place + 1], False)]:
                    if key:
                        self.serial += 1
                        cursor.execute(_change(key[0], self.serial, is_new=is_new))
            connection.commit()
        self.changes = (inserted + inserts, updated + updates)

    def source(self) -> list[Row]:
        return sorted(self.database.rows("SELECT id, version, word FROM t"))

    def landed(self) -> list[Row]:
        return sorted(self.target.rows("SELECT id, version, word FROM t"))

    def commits(self) -> list[dict[str, Any]]:
        """Read the commit rows of the flow that writes to the warehouse, in order, without its head rows."""
        return [one for one in self._commits() if one["seq"]]

    def heads(self) -> list[tuple[int, int, int]]:
        """Read the head row of each epoch: epoch, last batch, and 1 if it is closed."""
        return [
            (one["epoch"], one["last_seq"], int(one["closed"])) for one in self._commits() if not one["seq"]
        ]

    def _commits(self) -> list[dict[str, Any]]:
        names = ["epoch", "seq", "last_seq", "closed", "rows", "inserted", "updated", "deleted", "run_id"]
        listed = ", ".join(map(self.target.quote, names))
        query = f"SELECT {listed} FROM tidegauge_commits WHERE flow = '{self.load}' ORDER BY epoch, seq"
        return [dict(zip(names, row, strict=True)) for row in self.target.rows(query)]

    def stages(self) -> list[str]:
        """List the staging tables that exist now."""
        where = "sqlite_master" if self.target.engine == "sqlite" else "information_schema.tables"
        name = "name" if self.target.engine == "sqlite" else "table_name"
        here = " AND table_schema = DATABASE()" if self.target.engine == "mysql" else ""
        found = self.target.rows(f"SELECT {name} FROM {where} WHERE {name} LIKE 'tidegauge_stage%'{here}")
        return sorted(name for (name,) in found)

    def marks(self) -> dict[str, tuple[int, int]]:
        """Read each flow's epoch and last batch from the ledger."""
        with open_ledger(self._ledger_address(), create=False) as ledger:
            return {mark.flow: (mark.epoch, mark.seq) for mark in ledger.watermarks("crash")}

    def tally(self) -> tuple[int, int]:
        """Read the rows and batches of the flow that writes to the warehouse from the ledger."""
        with open_ledger(self._ledger_address(), create=False) as ledger:
            tally = ledger.tallies("crash", [self.load])[self.load]
            return tally.rows, tally.batches

    def in_lake(self) -> list[dict[str, Any]]:
        return manifests(self.lake, self.name("t")) if self.lake_text else []

    def _ledger_address(self) -> str:
        return self.ledger.replace("sqlite:///", f"sqlite:///{self.folder}/")


def _change(key: int, version: int, *, is_new: bool) -> str:
    word = f"version {version} of {key}"
    if is_new:
        return f"INSERT INTO t (id, version, word) VALUES ({key}, {version}, '{word}')"
    return f"UPDATE t SET version = {version}, word = '{word}' WHERE id = {key}"


def duckdb_database(file: Path) -> Database:
    def connect() -> Any:
        import duckdb

        return duckdb.connect(file)

    return Database("duckdb", f"{{type: duckdb, path: '{file}'}}", "", connect)


def redshift_database(server: Redshift) -> Database:
    """Make a Redshift database; the test reads it through the PostgreSQL behind the stand-in."""
    os.environ["TG_REDSHIFT"] = server.password
    name = server.create_database()
    text = (
        f"{{type: redshift, host: {server.host}, port: {server.port}, database: {name}, user: {server.user},"
        f' password: "${{env:TG_REDSHIFT}}", iam_role: "{server.iam_role}", options: {{ssl: disable}}}}'
    )
    return Database("postgresql", text, "public.", lambda: server.postgres.connect(name))


Build = Callable[[str, str, str], House]


@pytest.fixture
def build(tmp_path: Path, request: pytest.FixtureRequest) -> Build:
    """A function that makes a house with an empty `t`, from source, lake (`local`, `s3` or "") and target."""

    def database(name: str, file: str) -> Database:
        match name:
            case "sqlite":
                return sqlite_database(tmp_path / f"{file}.db")
            case "duckdb":
                return duckdb_database(tmp_path / f"{file}.duckdb")
            case "mysql":
                server: MariaDB = request.getfixturevalue("mariadb")
                return mysql_database(server)
            case "postgresql":
                postgres: Postgres = request.getfixturevalue("postgres")
                return postgres_database(postgres)
            case _:
                redshift: Redshift = request.getfixturevalue("redshift")
                return redshift_database(redshift)

    def make(source: str, lake: str, target: str) -> House:
        text, store = "", LocalLake(tmp_path / "lake")
        place: Lake = store
        if lake == "local":
            text = "{type: parquet, path: lake}"
        elif lake == "s3":
            text, place = s3_lake(request.getfixturevalue("s3"))
        house = House(tmp_path, database(source, "source"), place, text, target=database(target, "target"))
        house.make()
        return house

    return make
