"""Kill the runner twenty times at random moments under a live writer; source and target end up equal.

The writer inserts rows and bumps others in transactions of random length, several at once, and keeps every
version of a row it ever committed: the lake must hold the last one of each key, and none that never was.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.lake import manifests, rows
from tests.support.project import (
    ROOT,
    Database,
    Project,
    end,
    local,
    mysql_database,
    postgres_database,
    until,
)
from tests.support.servers import MariaDB, Postgres

KILLS = 20
WRITERS = 3
KEYS = 120
LOOP = """
import sys
from tests.support.project import here
while True:
    ran = here("run", "--json", "--project", sys.argv[1])
    if ran.code:
        print(ran.said, file=sys.stderr)
        sys.exit(1)
"""

COLUMNS = {
    "mysql": "id INT PRIMARY KEY, version INT NOT NULL, word VARCHAR(40) NOT NULL,"
    " at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY by_time (at, id)",
    "postgresql": "id int PRIMARY KEY, version int NOT NULL, word text NOT NULL,"
    " at timestamptz NOT NULL DEFAULT now()",
}
UPSERT = {
    "mysql": "INSERT INTO t (id, version, word) VALUES ({0}, {1}, '{2}') ON DUPLICATE KEY UPDATE"
    " version = {1}, word = '{2}', at = now(6)",
    "postgresql": "INSERT INTO t (id, version, word) VALUES ({0}, {1}, '{2}') ON CONFLICT (id) DO UPDATE SET"
    " version = {1}, word = '{2}', at = now()",
}

Make = Callable[[str], Database]


@pytest.fixture
def make(mariadb: MariaDB, postgres: Postgres) -> Make:
    def of(engine: str) -> Database:
        database = mysql_database(mariadb) if engine == "mysql" else postgres_database(postgres)
        database.execute(f"CREATE TABLE t ({COLUMNS[engine]})")
        if engine == "postgresql":
            database.execute("CREATE INDEX by_time ON t (at, id)")
        return database

    return of


class Writer(threading.Thread):
    """Writes keys of its own, so that the order of its versions is the order of its transactions."""

    def __init__(self, database: Database, number: int, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.committed: set[tuple[int, int, str]] = set()
        self._database = database
        self._number = number
        self._chance = random.Random(seed + number)
        self._stop_asked = stop

    def run(self) -> None:
        with closing(self._database.connect()) as connection:
            version = 0
            while not self._stop_asked.is_set():
                version = self._transaction(connection, version)

    def _transaction(self, connection: Any, version: int) -> int:
        chance, cursor = self._chance, connection.cursor()
        wrote: dict[int, tuple[int, int, str]] = {}
        cursor.execute("BEGIN")
        if chance.random() < 0.3:
            # Open, and nothing written yet: PostgreSQL's now() stands still from here on.
            cursor.execute("SELECT 1")
            time.sleep(chance.uniform(0, 0.8))
        for _ in range(chance.randint(1, 6)):
            version += 1
            key = chance.randrange(KEYS) * WRITERS + self._number
            row = (key, version, f"word {version} of {key}")
            cursor.execute(UPSERT[self._database.engine].format(*row))
            wrote[key] = row
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, 0.4))
        if chance.random() < 0.1:
            cursor.execute("ROLLBACK")
            return version
        # Before the commit is known: a reader may see it sooner than we do.
        self.committed |= set(wrote.values())
        cursor.execute("COMMIT")
        time.sleep(chance.uniform(0, 0.05))
        return version


def _at_work(project: Project) -> bool:
    return any(one["state"] == "RUNNING" for one in project.here("status", "--json").json["flows"])


def start_loop(project: Project) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LOOP, str(project.file)],
        cwd=ROOT,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def compare(project: Project, writers: list[Writer]) -> None:
    committed = set[tuple[int, int, str]]().union(*(writer.committed for writer in writers))
    source = {row[0]: row for row in project.database.rows("SELECT id, version, word FROM t")}
    found = [(row["id"], row["version"], row["word"]) for row in rows(project.lake, project.name("t"))]
    assert set(found) <= committed, "a row is in the lake that was never committed"
    assert len(found) == len(set(found)), "a version of a row is there twice"
    assert {row[0]: row for row in found} == source


@pytest.mark.long
@pytest.mark.parametrize("engine", ["postgresql"])  # test_settlement.py has MariaDB, and no JDBC
def test_a5_b1_twenty_kills_under_a_live_writer_lose_and_double_nothing(
    make: Make, engine: str, tmp_path: Path, connect: str
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    database = make(engine)
    sync = "tables: [t], cursor: at, settle: 1s, batch_rows: 60, parallel: 2, read: jdbc"
    project = local(tmp_path, database).write(sync, top=f"spark: {{master: '{connect}'}}")
    stop = threading.Event()
    writers = [Writer(database, number, seed, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    kills, began = 0, time.monotonic()
    try:
        while kills < KILLS:
            victim = start_loop(project)
            # Past the start of Python, most of the time, and anywhere inside the runs that follow.
            time.sleep(chance.uniform(0.5, 3) if kills % 4 else chance.uniform(3, 5))
            if kills % 4 == 0:
                until(lambda: _at_work(project))
            assert victim.poll() is None, victim.communicate()
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            kills += 1
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    time.sleep(1.5)
    last = end(project.start("run", "--json", "--wait", "600s"))
    assert last.code == 0, last.said
    batches = len(manifests(project.lake, project.name("t")))
    print(f"{kills} kills in {time.monotonic() - began:.0f} s, {batches} batches")
    compare(project, writers)
    history = project.here("history", "--json", "--limit", "1000").json["events"]
    assert [event for event in history if event["event"] == "taken_over"], "no kill hit a run at work"


@pytest.mark.parametrize("engine", [pytest.param("mysql", marks=pytest.mark.long), "postgresql"])
def test_a5_rows_that_move_while_they_are_paged_arrive_at_their_last_version(
    make: Make, engine: str, tmp_path: Path, connect: str
) -> None:
    """Batches of a few rows, and every row bumped again and again, out of the window it was planned in."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    database = make(engine)
    sync = "tables: [t], cursor: at, settle: 1s, batch_rows: 10"
    project = local(tmp_path, database).write(sync, top=f"spark: {{master: '{connect}'}}")
    stop = threading.Event()
    writers = [Writer(database, number, seed, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(3):
            time.sleep(1.5)
            ran = project.shell("run", "--json")
            assert ran.code == 0, ran.said
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    time.sleep(1.5)
    assert project.shell("run", "--json").code == 0
    compare(project, writers)
