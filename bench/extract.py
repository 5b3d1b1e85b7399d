"""MariaDB tables into Parquet: a whole `tidegauge run`, against plain Spark, dlt and the server itself."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.servers import PASSWORD, MariaDB, start_mariadb

from bench import orders
from bench.machine import processor_seconds
from bench.memory import Peak
from bench.result import Result

ROWS = 2_000_000
TIMES = 3
COLD, DLT, BULK, GROWTH = 0.45, 1.15, 1.3, 1.3
"""Goals as shares of a time: plain Spark's, dlt's, that of the server's own export, and that of the same
change on a table a tenth the size."""
_INCREMENT_SECONDS, _TABLES_SECONDS = 0.3, 4.0
_MEMORY = 1.5e9
_INCREMENT = 100
"""An increment adds one row for each this many rows of the table."""
_TABLES = 20
_TABLE_ROWS = 1000
_LARGE = 5
"""Memory is measured with this many times the rows."""
_SERVER = ("--innodb-buffer-pool-size=1G", "--default-time-zone=+00:00", "--secure-file-priv=")
_PROJECT = """
pipeline: bench
connections:
  app: {{type: mysql, host: 127.0.0.1, port: {port}, database: {database}, user: {user},
        password: "${{env:BENCH_PASSWORD}}"}}
  lake: {{type: parquet, path: lake}}
sync:
  - {{from: app, to: lake, tables: [{tables}], cursor: updated_at, settle: 0s}}
"""


@dataclass(frozen=True)
class Took:
    wall: float
    """Seconds of the whole process."""
    work: float
    """Seconds without the start of Python; the start of Spark counts unless the process is warm."""
    cpu: float
    """Processor seconds of Python, Java and the server: steadier than elapsed time on a busy machine."""
    facts: dict[str, Any]


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as folder,
        start_mariadb(options=_SERVER) as db,
    ):
        Path(folder).chmod(0o755)
        bench = _Bench(db, Path(folder))
        orders.fill(db, bench.database, rows)
        results = [
            *bench.cold(rows, times),
            *bench.bulk(rows, times),
            *bench.increment(max(rows // _INCREMENT, 1), times),
            *bench.growth(rows, times),
            *bench.tables(times),
        ]
        orders.fill_more(db, bench.database, rows, _LARGE * rows)
        return [*results, *bench.memory()]


class _Bench:
    def __init__(self, server: MariaDB, folder: Path) -> None:
        self.database = server.create_database()
        self._server = server
        self._folder = folder
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            ((version,),) = cursor.fetchall()
        self._store = f"mariadb {version}"

    def cold(self, rows: int, times: int) -> list[Result]:
        """Measure a first run in a new process, with a new project each turn."""
        a: list[Took] = []
        b: list[Took] = []
        c: list[Took] = []
        other = os.environ.get("BENCH_DLT")
        if other is None:
            sys.stderr.write("  without dlt: BENCH_DLT names no Python that has it\n")
        for turn in range(times):
            a.append(self._run_once(self._project(f"cold-{turn}"), rows))
            b.append(self._plain(rows))
            if other is not None:
                c.append(self._run_dlt(other, rows))
        name = f"{rows:,} rows × {orders.COLUMNS} columns, MariaDB to Parquet"
        against = "plain Spark JDBC, one partition, same fetch size and driver options"
        return [
            self._result(f"{name}, whole process", COLD, against, a, b, lambda took: took.wall),
            self._result(f"{name}, processor time", None, against, a, b, lambda took: took.cpu),
            *(
                self._result(f"{name}, {what} against dlt", goal, "dlt with connectorx", a, c, seconds)
                for what, goal, seconds in (
                    ("whole process", DLT, lambda took: took.wall),
                    ("processor time", None, lambda took: took.cpu),
                )
                if c
            ),
        ]

    def bulk(self, rows: int, times: int) -> list[Result]:
        """Measure the first run of a new project in a warm process, as for one table of many."""
        with self._start_steady(self._project("bulk")) as again:
            a: list[Took] = []
            b: list[Took] = []
            for turn in range(times):
                a.append(again(self._project(f"bulk-{turn}"), rows))
                b.append(self._run_export(turn))
        name = f"{rows:,} rows × {orders.COLUMNS} columns, MariaDB to Parquet, in a warm session"
        against = "the server's own SELECT … INTO OUTFILE"
        return [self._result(name, BULK, against, a, b, lambda took: took.work)]

    def increment(self, rows: int, times: int) -> list[Result]:
        """Measure runs that move only new rows, in a warm process."""
        project = self._project("increment")
        with self._start_steady(project) as again:
            taken = []
            for _ in range(times + 1):
                orders.add(self._server, self.database, rows)
                self._wait(rows)
                taken.append(again(project, rows))
        name = f"{rows:,} new rows, MariaDB to Parquet, in a warm process"
        return [self._budget(name, _INCREMENT_SECONDS, taken[1:])]

    def growth(self, rows: int, times: int) -> list[Result]:
        """Measure the same change on this table and on one a tenth the size."""
        small = self._server.create_database()
        orders.fill(self._server, small, rows // 10)
        change = max(rows // _INCREMENT, 1)
        large_project = self._project("large")
        small_project = self._project("small", database=small)
        with self._start_steady(large_project) as large, self._start_steady(small_project) as tiny:
            a: list[Took] = []
            b: list[Took] = []
            for _ in range(3 * times + 1):  # runs this short vary much with the load of the machine
                for database in (self.database, small):
                    orders.add(self._server, database, change)
                self._wait(change)
                a.append(large(large_project, change))
                b.append(tiny(small_project, change))
        name = f"{change:,} new rows on {rows:,}"
        against = f"the same on {rows // 10:,}"
        return [self._result(name, GROWTH, against, a[1:], b[1:], lambda took: took.work)]

    def tables(self, times: int) -> list[Result]:
        database = self._server.create_database()
        names = [f"{orders.TABLE}_{number:02d}" for number in range(_TABLES)]
        for name in names:
            orders.fill(self._server, database, _TABLE_ROWS, table=name)
        project = self._project("tables", database=database, tables=", ".join(names))
        with self._start_steady(project) as again:
            taken = []
            for _ in range(times + 1):
                for name in names:
                    orders.add(self._server, database, _TABLE_ROWS, table=name)
                self._wait(_TABLE_ROWS)
                taken.append(again(project, _TABLES * _TABLE_ROWS))
        name = f"{_TABLES} tables with {_TABLE_ROWS:,} new rows each, in a warm process"
        return [self._budget(name, _TABLES_SECONDS, taken[1:])]

    def memory(self) -> list[Result]:
        took = self._run_once(self._project("memory"), None)
        return [
            Result(
                name=f"{took.facts['rows']:,} rows × {orders.COLUMNS} columns, memory of all processes",
                ours=took.facts["peak"] / 1e9,
                reference=_MEMORY / 1e9,
                goal=1.0,
                unit="GB",
                against=f"the budget of {_MEMORY / 1e9:g} GB",
                more={
                    "parts": {name: round(size / 1e9, 3) for name, size in took.facts["parts"].items()},
                    "seconds": round(took.wall, 1),
                    "store": self._store,
                },
            )
        ]

    def _result(
        self,
        name: str,
        goal: float | None,
        against: str,
        a: Sequence[Took],
        b: Sequence[Took],
        seconds: Callable[[Took], float],
    ) -> Result:
        middle = sorted(a, key=seconds)[len(a) // 2].facts
        return Result(
            name=name,
            ours=statistics.median(map(seconds, a)),
            reference=statistics.median(map(seconds, b)),
            goal=goal,
            unit="s",
            against=against,
            more={
                "batches": middle["batches"],
                "steps": middle["steps"],
                "times": len(a),
                "store": self._store,
                "each_ours": [round(seconds(took), 3) for took in a],
                "each_reference": [round(seconds(took), 3) for took in b],
                "processors_ours": [round(took.cpu, 3) for took in a],
                "processors_reference": [round(took.cpu, 3) for took in b],
            },
        )

    def _budget(self, name: str, budget: float, taken: Sequence[Took]) -> Result:
        allowed = [Took(budget, budget, budget, {}) for _ in taken]
        return self._result(name, 1.0, f"the budget of {budget:g} s", taken, allowed, lambda took: took.work)

    def _run_once(self, project: Path, rows: int | None) -> Took:
        took = self._child("once", project)
        if rows is not None and took.facts["rows"] != rows:
            raise AssertionError(f"ours moved {took.facts['rows']} rows of {rows}")
        return took

    def _plain(self, rows: int) -> Took:
        target = self._folder / "plain"
        shutil.rmtree(target, ignore_errors=True)
        # Without the class-data archive that Tidegauge makes, because plain Spark has none.
        took = self._child(
            "plain", self._project("plain-project"), str(target), TIDEGAUGE_CLASS_ARCHIVE="off"
        )
        found = _parquet_rows(target)
        if found != rows:
            raise AssertionError(f"plain Spark moved {found} rows of {rows}")
        return took

    def _run_dlt(self, python: str, rows: int) -> Took:
        server, target = self._server, self._folder / "dlt"
        shutil.rmtree(target, ignore_errors=True)
        login = f"{server.user}:{quote(PASSWORD, safe='')}@{server.host}:{server.port}"
        script = Path(__file__).with_name("extract_dlt.py")
        began, served = time.perf_counter(), processor_seconds(server.pid)
        ran = subprocess.run(
            [python, script, f"mysql+pymysql://{login}/{self.database}", orders.TABLE, target],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        wall, facts = time.perf_counter() - began, json.loads(ran.stdout.splitlines()[-1])
        if facts["rows"] != rows:
            raise AssertionError(f"dlt moved {facts['rows']} rows of {rows}")
        return self._make_took("dlt", {**facts, "work": wall}, wall, served)

    def _run_export(self, turn: int) -> Took:
        """Measure the server's own export into a file, on one core."""
        with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as folder:
            Path(folder).chmod(0o777)  # the server runs as another user
            with self._server.connect(self.database) as connection, connection.cursor() as cursor:
                began, spent = time.perf_counter(), processor_seconds(self._server.pid)
                cursor.execute(f"SELECT * FROM {orders.TABLE} INTO OUTFILE '{folder}/{turn}'")
                seconds = time.perf_counter() - began
        cpu = processor_seconds(self._server.pid) - spent
        sys.stderr.write(f"  the server's export: {seconds:.1f} s\n")
        return Took(seconds, seconds, cpu, {})

    def _project(self, name: str, *, database: str | None = None, tables: str = orders.TABLE) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "tidegauge.yml").write_text(
            _PROJECT.format(
                port=self._server.port,
                database=database or self.database,
                user=self._server.user,
                tables=tables,
            )
        )
        return folder

    def _start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bench.extract_child", *words],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "BENCH_PASSWORD": PASSWORD, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _child(self, how: str, project: Path, *more: str, **environment: str) -> Took:
        began, served = time.perf_counter(), processor_seconds(self._server.pid)
        child = self._start(how, str(project), *more, **environment)
        with Peak(child.pid) as peak:
            said, _ = child.communicate()
        wall = time.perf_counter() - began
        if child.returncode:
            raise AssertionError(f"{how} ended with {child.returncode}")
        facts = {**json.loads(said.splitlines()[-1]), "peak": peak.bytes, "parts": peak.parts}
        return self._make_took(how, facts, wall, served)

    @contextmanager
    def _start_steady(self, project: Path) -> Iterator[Callable[[Path, int], Took]]:
        """Start a process that runs the project once; yield a function that measures further runs in it."""
        child = self._start("steady", str(project))
        assert child.stdin is not None
        assert child.stdout is not None
        written, said = child.stdin, child.stdout
        if said.readline() != "{}\n":
            raise AssertionError("the first run failed")

        def again(other: Path, rows: int) -> Took:
            began, served = time.perf_counter(), processor_seconds(self._server.pid)
            written.write(f"{other}\n")
            written.flush()
            facts = json.loads(said.readline())
            if facts["rows"] != rows:
                raise AssertionError(f"ours moved {facts['rows']} rows of {rows}")
            return self._make_took("again", facts, time.perf_counter() - began, served)

        try:
            yield again
        finally:
            written.close()
            child.wait(60)

    def _make_took(self, how: str, facts: dict[str, Any], wall: float, served: float) -> Took:
        work, cpu = facts["work"], facts["cpu"] + processor_seconds(self._server.pid) - served
        sys.stderr.write(f"  {how}: {work:.2f} s of work, {cpu:.2f} s of processors, {wall:.1f} s in all\n")
        return Took(wall, work, cpu, facts)

    def _wait(self, rows: int) -> None:
        """Wait until the new rows' timestamps, which differ by some milliseconds, are in the past."""
        time.sleep(1 + rows / 1_000_000)


def _parquet_rows(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in folder.glob("part-*.parquet"))
