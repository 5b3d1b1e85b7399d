"""A thousand small tables, from SQLite through Parquet into DuckDB and PostgreSQL: the fixed cost of a table.

Goals are elapsed seconds on two idle cores. Processor time is kept beside them, because it says more on a
busy machine.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import Postgres, start_postgres

from bench.memory import Peak
from bench.result import Result

TABLES = 1_000
ROWS = 50
_MEBIBYTES = 500.0
_GOALS = {"first run": 45.0, "nothing new": 5.0, "a tenth changed": 9.0, "verify": 45.0}
"""Seconds for a thousand tables; they grow with the number of tables."""


@dataclass(frozen=True)
class _Took:
    seconds: float
    processor: float
    mebibytes: float


def measure(tables: int = TABLES, rows: int = ROWS) -> list[Result]:
    found = _measure_into("duckdb", "{type: duckdb, path: warehouse.duckdb}", tables, rows)
    with start_postgres() as server:
        return found + _measure_into("postgresql", _connection(server), tables, rows)


def _measure_into(warehouse: str, connection: str, tables: int, rows: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, connection, tables, rows)
        took = {"first run": _take("run", folder), "nothing new": _take("run", folder)}
        _change(folder, tables)
        took["a tenth changed"] = _take("run", folder)
        took["verify"] = _take("verify", folder)
    memory = Result(
        name=f"{tables:,} tables into {warehouse}: memory of the first run",
        ours=took["first run"].mebibytes,
        reference=_MEBIBYTES,
        goal=1.0,
        unit="MiB",
        against=f"{_MEBIBYTES:.0f} MiB",
    )
    return [
        *(_result(warehouse, what, one, tables, rows) for what, one in took.items()),
        memory,
    ]


def _result(warehouse: str, what: str, took: _Took, tables: int, rows: int) -> Result:
    limit = _GOALS[what] * tables / TABLES
    return Result(
        name=f"{tables:,} tables into {warehouse}: {what}",
        ours=took.seconds,
        reference=limit,
        goal=1.0,
        unit="s",
        against=f"{limit:g} s",
        more={"rows": rows, "processor": round(took.processor, 2), "mebibytes": round(took.mebibytes)},
    )


def _take(command: str, folder: Path) -> _Took:
    before, began = os.times(), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegauge.cli.main", command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with Peak(process.pid) as peak:
        _, said = process.communicate()
    seconds, after = time.monotonic() - began, os.times()
    assert process.returncode == 0, said[-2000:]
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return _Took(seconds, used, peak.bytes / 2**20)


@contextmanager
def _source(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "source.db")) as source, source:
        yield source


def _write(folder: Path, connection: str, tables: int, rows: int) -> None:
    with _source(folder) as source:
        for number in range(tables):
            source.execute(
                f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, updated_at TIMESTAMP NOT NULL, name TEXT,"
                " amount DECIMAL(12,2))"
            )
            source.execute(f"CREATE INDEX i{number} ON t{number} (updated_at)")
            made = [(n, f"2026-01-01 00:{n // 60 % 60:02}:{n % 60:02}", f"name {n}", n) for n in range(rows)]
            source.executemany(f"INSERT INTO t{number} VALUES (?, ?, ?, ?)", made)
    (folder / "tidegauge.yml").write_text(
        "pipeline: bench\nconnections:\n  app: {type: sqlite, path: source.db}\n"
        f"  lake: {{type: parquet, path: lake}}\n  warehouse: {connection}\n"
        "sync:\n  - {from: app, via: lake, to: warehouse, tables: ['t*'], cursor: updated_at, settle: 0s}\n"
    )


def _change(folder: Path, tables: int) -> None:
    with _source(folder) as source:
        for number in range(0, tables, 10):
            source.execute(
                f"UPDATE t{number} SET updated_at = '2026-02-01 00:00:00', name = 'x' WHERE id = 7"
            )


def _connection(server: Postgres) -> str:
    os.environ["BENCH_POSTGRES"] = server.password
    return (
        f"{{type: postgresql, host: {server.host}, port: {server.port}, database: {server.create_database()},"
        f' user: {server.user}, password: "${{env:BENCH_POSTGRES}}"}}'
    )
