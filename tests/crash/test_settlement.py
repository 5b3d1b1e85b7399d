"""Kill the runner again and again, over both stages, under live writers; the warehouses end up as the source.

Several writers insert rows and bump others in transactions of random length, some left open for a while, with
many rows on one and the same timestamp. Meanwhile `tidegauge sync` runs in a loop, by every strategy in turn,
into PostgreSQL, with a lake between and without, and into the stand-in for Redshift. TIDEGAUGE_KILLS says how
often it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.crash.houses import redshift_database
from tests.support.nursery import Nursery
from tests.support.project import Database, here, mysql_database, postgres_database, s3_lake
from tests.support.servers import S3, MariaDB, Postgres, Redshift

pytestmark = pytest.mark.timeout(1800)

KILLS = int(os.environ.get("TIDEGAUGE_KILLS", "8"))
WRITERS = 3
KEYS = 60
TABLES = {"orders": "TIMESTAMP(6)", "payments": "TIMESTAMP"}
"""With the type of their cursor: of whole seconds, many rows share one."""
STRATEGIES = ("sequential", "inter-table", "intra-table")


class Writer(threading.Thread):
    """Writes keys of its own, so that no two of them wait for each other."""

    def __init__(self, database: Database, number: int, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.transactions = 0
        self._database = database
        self._number = number
        self._chance = random.Random(seed + number)
        self._stop_asked = stop
        self._version = 0

    def run(self) -> None:
        with closing(self._database.connect()) as connection:
            while not self._stop_asked.is_set():
                self._transaction(connection.cursor())
                self.transactions += 1

    def _transaction(self, cursor: Any) -> None:
        chance = self._chance
        cursor.execute("BEGIN")
        for _ in range(chance.randint(1, 4)):
            # One statement, so one timestamp for all its rows.
            keys = chance.sample(range(KEYS), chance.randint(1, 5))
            cursor.execute(
                self._upsert(chance.choice([*TABLES]), [key * WRITERS + self._number for key in keys])
            )
            if chance.random() < 0.2:
                time.sleep(chance.uniform(0, 1.2))
        cursor.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
        time.sleep(chance.uniform(0.02, 0.2))

    def _upsert(self, table: str, keys: list[int]) -> str:
        rows = []
        for key in keys:
            self._version += 1
            rows.append(f"({key}, {self._version}, 'word {self._version} of {key}')")
        return (
            f"INSERT INTO {table} (id, version, word) VALUES {', '.join(rows)} ON DUPLICATE KEY UPDATE"
            " version = VALUES(version), word = VALUES(word), at = CURRENT_TIMESTAMP(6)"
        )


@pytest.fixture
def source(mariadb: MariaDB) -> Database:
    database = mysql_database(mariadb)
    for table, moment in TABLES.items():
        digits = moment.removeprefix("TIMESTAMP")
        database.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, version INT NOT NULL, word VARCHAR(40) NOT NULL,"
            f" at {moment} NOT NULL DEFAULT CURRENT_TIMESTAMP{digits}, KEY by_time (at, id))"
        )
    return database


def write_project(folder: Path, source: Database, lake: str, target: Database) -> Path:
    folder.mkdir()
    between, via = (f"  lake: {lake}\n", "via: lake, ") if lake else ("", "")
    file = folder / "tidegauge.yml"
    file.write_text(
        "pipeline: settlement\nledger: 'sqlite:///ledger.db'\nconnections:\n"
        f"  app: {source.connection}\n{between}  house: {target.connection}\n"
        f"sync:\n  - {{from: app, {via}to: house, tables: ['*'], cursor: at, settle: 1s,"
        " batch_rows: 30}\n"
    )
    return file


def test_a5_b1_kills_over_both_stages_under_live_writers_lose_and_double_nothing(
    source: Database, tmp_path: Path, nursery: Nursery, postgres: Postgres, redshift: Redshift, s3: S3
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    targets = {
        "postgresql": postgres_database(postgres),
        "redshift": redshift_database(redshift),
        "one stage": postgres_database(postgres),
    }
    projects = {
        "postgresql": write_project(
            tmp_path / "p", source, "{type: parquet, path: lake}", targets["postgresql"]
        ),
        "redshift": write_project(tmp_path / "r", source, s3_lake(s3)[0], targets["redshift"]),
        "one stage": write_project(tmp_path / "o", source, "", targets["one stage"]),
    }
    commands = [
        ["sync", "--json", "--strategy", strategy, "--project", str(project)]
        for strategy in STRATEGIES
        for project in projects.values()
    ]
    stop = threading.Event()
    writers = [Writer(source, number, seed, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    began, kills, struck = time.monotonic(), 0, False
    try:
        while kills < KILLS or not struck:
            victim = nursery.start("loop", commands=chance.sample(commands, len(commands)))
            # More of them, and later ones, on a machine that takes its time before it is at work.
            time.sleep(chance.uniform(0.3, 4) if kills < KILLS else chance.uniform(2, 20))
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            killed = nursery.end()
            assert killed.code == -signal.SIGKILL, f"it went wrong by itself: {killed.out}"
            kills += 1
            struck = struck or any(_at_work(project) for project in projects.values())
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    took = time.monotonic() - began
    transactions = sum(writer.transactions for writer in writers)
    print(f"{kills} kills in {took:.0f} s, {transactions} transactions at the source")
    time.sleep(2.5)
    hits: Counter[str] = Counter()
    for name, project in projects.items():
        last = nursery.command("sync", "--json", "--project", project)
        assert last.code == 0, last
        for table in TABLES:
            compare(source, targets[name], table)
        history = here("history", "--json", "--limit", "10000", "--project", project).json["events"]
        hit = Counter(event["flow"] for event in history if event["event"] == "taken_over")
        print(f"{name}: kills that hit a flow at work: {dict(hit)}")
        hits += hit
    assert hits, "no kill hit a run at work"


def _at_work(project: Path) -> bool:
    """Whether whoever was killed last had a flow in hand."""
    flows = here("status", "--json", "--project", project).json["flows"]
    return any(one["state"] == "RUNNING" for one in flows)


def compare(source: Database, target: Database, table: str) -> None:
    columns = "id, version, word, at"
    there = {row[0]: as_utc(row) for row in source.rows(f"SELECT {columns} FROM {table}")}
    found = [as_utc(row) for row in target.rows(f"SELECT {columns} FROM {table}")]
    assert len(found) == len({row[0] for row in found}), "a key is there twice"
    assert {row[0]: row for row in found} == there
    commits = target.rows(
        f"SELECT epoch, seq, inserted, deleted FROM tidegauge_commits WHERE flow LIKE '%.{table}%'"
    )
    batches = [row for row in commits if row[1]]
    assert sorted(row[:2] for row in batches) == [(0, n) for n in range(1, len(batches) + 1)]
    assert sum(row[2] for row in batches) == len(there), "rows that were inserted, as the tags count them"
    print(f"{table}: {len(there)} rows, {len(batches)} batches")


def as_utc(row: tuple[Any, ...]) -> tuple[Any, ...]:
    moment: datetime = row[-1]
    return (*row[:-1], moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment)
