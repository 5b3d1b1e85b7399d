"""A MariaDB table into Parquet: all of `tidegauge run`, against plain Spark copying the rows once."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import PASSWORD, MariaDB, start_mariadb

from bench import orders
from bench.machine import processor_seconds
from bench.result import Result

ROWS = 2_000_000
GOAL = 1.0
TIMES = 3
_INCREMENT = 100
"""The table grows by one row in this many."""
_SERVER = ("--innodb-buffer-pool-size=1G", "--default-time-zone=+00:00")
_PROJECT = """
pipeline: bench
connections:
  app: {{type: mysql, host: 127.0.0.1, port: {port}, database: {database}, user: {user},
        password: "${{env:BENCH_PASSWORD}}"}}
  lake: {{type: parquet, path: lake}}
sync:
  - {{from: app, to: lake, tables: [{table}], cursor: updated_at, settle: 0s}}
"""


@dataclass(frozen=True)
class Took:
    wall: float
    """The whole process."""
    work: float
    """Without the start of Python and Spark."""
    cpu: float
    """What processors spent on the work, in Python, Java and the server: steadier than a clock on a busy
    machine."""
    facts: dict[str, Any]


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as folder,
        start_mariadb(options=_SERVER) as db,
    ):
        database = db.create_database()
        orders.fill(db, database, rows)
        bench = _Bench(db, database, Path(folder))
        return [
            *bench.whole(rows, times),
            *bench.warm(rows, times),
            *bench.increment(max(rows // _INCREMENT, 1), times),
        ]


class _Bench:
    def __init__(self, server: MariaDB, database: str, folder: Path) -> None:
        self._server = server
        self._database = database
        self._folder = folder
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            ((version,),) = cursor.fetchall()
        self._store = f"mariadb {version}"

    def whole(self, rows: int, times: int) -> list[Result]:
        """From nothing, with a project of its own for each turn."""

        def ours(turn: int) -> Took:
            return self._ours(self._project(f"whole-{turn}"), rows)

        name = f"{rows:,} rows × {orders.COLUMNS} columns, MariaDB to Parquet"
        taken = _in_turns(times, ours, lambda _: self._plain(rows, None))
        return self._results(
            name, GOAL, "plain Spark JDBC, one partition, same fetch size and driver options", *taken
        )

    def warm(self, rows: int, times: int) -> list[Result]:
        """The same in a session that has done it once: as one table of many meets it."""

        def ours(turn: int) -> Took:
            return self._ours(self._project(f"warm-{turn}"), rows, warm="-warm")

        def plain(_: int) -> Took:
            for leftover in ("plain-warm-up", "plain-project-warm-up"):
                shutil.rmtree(self._folder / leftover, ignore_errors=True)
            return self._plain(rows, None, warm="-warm")

        name = f"{rows:,} rows × {orders.COLUMNS} columns, MariaDB to Parquet, in a warm session"
        against = "plain Spark JDBC, one partition, same fetch size and driver options, as warm"
        # The other views would count the warming up too.
        return self._results(name, GOAL, against, *_in_turns(times, ours, plain))[:1]

    def increment(self, rows: int, times: int) -> list[Result]:
        """What comes after the last whole run, turn by turn, into the same lake."""
        project = self._project(f"whole-{times - 1}")
        since = ""

        def ours(_: int) -> Took:
            nonlocal since
            since = orders.add(self._server, self._database, rows)
            # Past the rows' own moments, the last of which is a few milliseconds after the first.
            time.sleep(1 + rows / 1_000_000)
            return self._ours(project, rows)

        def plain(_: int) -> Took:
            return self._plain(rows, f"updated_at > '{since}'")

        name = f"{rows:,} new rows, MariaDB to Parquet"
        against = "plain Spark JDBC with a WHERE that somebody else has to remember"
        return self._results(name, None, against, *_in_turns(times, ours, plain))

    def _results(
        self, name: str, goal: float | None, against: str, a: list[Took], b: list[Took]
    ) -> list[Result]:
        middle = sorted(a, key=lambda took: took.work)[len(a) // 2].facts
        facts = {
            "batches": middle["batches"],
            "steps": middle["steps"],
            "times": len(a),
            "store": self._store,
        }
        views: tuple[tuple[str, Callable[[Took], float], float | None], ...] = (
            ("without Spark's start", lambda took: took.work, goal),
            ("whole process", lambda took: took.wall, goal),
            ("processor time", lambda took: took.cpu, None),
        )
        return [
            Result(
                name=f"{name}, {which}",
                ours=statistics.median(map(seconds, a)),
                reference=statistics.median(map(seconds, b)),
                goal=wanted,
                unit="s",
                against=against,
                more={
                    **facts,
                    "each_ours": [round(seconds(took), 3) for took in a],
                    "each_reference": [round(seconds(took), 3) for took in b],
                },
            )
            for which, seconds, wanted in views
        ]

    def _ours(self, project: Path, rows: int, warm: str = "") -> Took:
        took = self._child(f"ours{warm}", project, project)
        if took.facts["rows"] != rows:
            raise AssertionError(f"ours moved {took.facts['rows']} rows of {rows}")
        return took

    def _plain(self, rows: int, where: str | None, warm: str = "") -> Took:
        target = self._folder / "plain"
        shutil.rmtree(target, ignore_errors=True)
        project = self._project("plain-project")
        took = self._child(f"plain{warm}", project, target, *([where] if where else []))
        found = _parquet_rows(target)
        if found != rows:
            raise AssertionError(f"plain Spark moved {found} rows of {rows}")
        return took

    def _project(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "tidegauge.yml").write_text(
            _PROJECT.format(
                port=self._server.port,
                database=self._database,
                user=self._server.user,
                table=orders.TABLE,
            )
        )
        return folder

    def _child(self, who: str, project: Path, target: Path, *more: str) -> Took:
        command = [sys.executable, "-m", "bench.extract_child", who, str(project), str(target), *more]
        began, served = time.perf_counter(), processor_seconds(self._server.pid)
        done = subprocess.run(
            command,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "BENCH_PASSWORD": PASSWORD},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        wall = time.perf_counter() - began
        facts = json.loads(done.stdout.splitlines()[-1])
        cpu = facts["cpu"] + processor_seconds(self._server.pid) - served
        work = facts["work"]
        sys.stderr.write(f"  {who}: {work:.1f} s of work, {cpu:.1f} s of processors, {wall:.1f} s in all\n")
        return Took(wall, work, cpu, facts)


def _in_turns(
    times: int, ours: Callable[[int], Took], plain: Callable[[int], Took]
) -> tuple[list[Took], list[Took]]:
    a: list[Took] = []
    b: list[Took] = []
    for turn in range(times):
        a.append(ours(turn))
        b.append(plain(turn))
    return a, b


def _parquet_rows(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in folder.glob("part-*.parquet"))
