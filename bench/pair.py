"""One table into its replica in the same PostgreSQL: a run with 1,000 changed rows in a warm process, from
the survey to the ledger's last change; once with `execute: auto`, once inside the database."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from tests.support.servers import Postgres, start_postgres

from bench.result import Result
from tidegauge.config.load import load_project
from tidegauge.model.spec import Project
from tidegauge.run import run as engine
from tidegauge.run.options import RunOptions

ROWS = 100_000
CHANGED = 1_000
TIMES = 40
_GOALS = {"auto": 0.5, "database": 0.1}
"""Processor seconds of a run, by the value of `execute`."""
_WARM_UP = 3


def measure(times: int = TIMES) -> list[Result]:
    """Measure processor time of this process and of the server. One waits for the other, so the sum is the
    elapsed time on an idle machine; `elapsed` is the time on this machine."""
    with ExitStack() as stack:
        server = stack.enter_context(start_postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        name = server.create_database()
        connection = stack.enter_context(server.connect(name))
        _fill(connection)
        projects = {way: _write(folder / way, server, name, way) for way in _GOALS}
        found: dict[str, _Spent] = {way: _Spent() for way in _GOALS}
        for project in projects.values():
            _run(project, ROWS)
        for turn in range(_WARM_UP + times):
            _change(connection, turn)
            for way, project in projects.items():
                before = time.process_time(), _read_server_seconds(server.pid)
                elapsed = _run(project, CHANGED)
                if turn >= _WARM_UP:
                    found[way].add(
                        elapsed, time.process_time() - before[0], _read_server_seconds(server.pid) - before[1]
                    )
    return [
        Result(
            name=f"a run with {CHANGED:,} changed rows of {ROWS:,}, execute: {way}",
            ours=(spent.here + spent.server) / times,
            reference=_GOALS[way],
            goal=1.0,
            unit="s",
            against=f"{_GOALS[way]:g} s of processor time",
            more={
                "times": times,
                "server": round(spent.server / times, 4),
                "elapsed": round(statistics.median(spent.elapsed), 4),
                "fastest": round(min(spent.elapsed), 4),
            },
        )
        for way, spent in found.items()
    ]


@dataclass
class _Spent:
    """Seconds of all turns: each elapsed time, and sums of processor time here and in the server."""

    elapsed: list[float] = field(default_factory=list)
    here: float = 0.0
    server: float = 0.0

    def add(self, elapsed: float, here: float, server: float) -> None:
        self.elapsed.append(elapsed)
        self.here += here
        self.server += server


def _read_server_seconds(server: int) -> float:
    """Processor seconds of PostgreSQL; those of a connection's process go to the main one when it ends."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if str(server) in (stat.parent.name, fields[1]):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _run(project: Project, rows: int) -> float:
    began = time.perf_counter()
    report = engine.run(project, RunOptions(remarks=False), tell=lambda _: None, stop=threading.Event())
    took = time.perf_counter() - began
    [flow] = report.flows
    assert flow.ok, flow.error
    assert flow.rows == rows, flow
    return took


def _fill(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    connection.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL, total numeric(12,2), state text,"
        " changed_at timestamp(6) NOT NULL)"
    )
    connection.execute(
        "INSERT INTO orders SELECT n, 'customer ' || n % 977, n / 7.0, 'new', now() AT TIME ZONE 'UTC'"
        f" - interval '1 hour' FROM generate_series(1, {ROWS}) AS n"
    )
    connection.execute("CREATE INDEX ON orders (changed_at, id)")
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE orders")


def _change(connection: psycopg.Connection[tuple[object, ...]], turn: int) -> None:
    first = turn * CHANGED % ROWS
    connection.execute(
        f"UPDATE orders SET state = 'turn {turn}', changed_at = clock_timestamp() AT TIME ZONE 'UTC'"
        f" WHERE id > {first} AND id <= {first + CHANGED}"
    )


def _write(folder: Path, server: Postgres, database: str, way: str) -> Project:
    folder.mkdir()
    os.environ["BENCH_PASSWORD"] = server.password
    file = folder / "tidegauge.yml"
    file.write_text(
        f"pipeline: bench_{way}\n"
        f"connections:\n  shop: {{type: postgresql, host: {server.host}, port: {server.port},"
        f" database: {database}, user: {server.user}, password: '${{env:BENCH_PASSWORD}}'}}\n"
        f"sync:\n  - {{from: shop, to: shop, tables: [orders], rename: orders_by_{way}, cursor: changed_at,"
        f" settle: 0s, execute: {way}}}\n"
    )
    return load_project(file)
