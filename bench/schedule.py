"""What a scheduler costs: a tick with nothing new, the wait between ticks, and memory after 2,000 ticks."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

from bench.result import Result
from tidegauge.config.load import load_project
from tidegauge.flows.selection.scheduled import ScheduledPart, find_scheduled
from tidegauge.flows.spark_jars import find_project_jars
from tidegauge.ledger.open import open_ledger
from tidegauge.operations.tick import TickResult, run_tick
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.spark.warm import WarmSpark

PAIRS = 100
TICKS = 2_000
_FEW = 2
"""Pairs in the memory measurement: memory that ticks leave behind does not depend on their number."""
_TIMES = 10
_IDLE = 60.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def measure(ticks: int = TICKS) -> list[Result]:
    return [_measure_tick("sqlite"), _measure_tick("duckdb"), _measure_idle(), _measure_memory(ticks)]


def _measure_tick(replica: str) -> Result:
    """Measure processor time, which equals the elapsed time on an idle machine, because source and replica
    are both inside this process."""
    with tempfile.TemporaryDirectory() as name:
        part = _part(Path(name), PAIRS, replica)
        first = _run(part)
        assert first.report is not None
        assert len({one.flow for one in first.report.flows}) == PAIRS
        found, elapsed = [], []
        for _ in range(_TIMES):
            before = time.process_time()
            elapsed.append(_run(part).seconds)
            found.append(time.process_time() - before)
    return Result(
        name=f"a tick with nothing new, {PAIRS} pairs, sqlite to {replica}",
        ours=statistics.median(found),
        reference=1.0,
        goal=1.0,
        unit="s",
        against="one second of processor time",
        more={"times": _TIMES, "elapsed": round(statistics.median(elapsed), 3)},
    )


def _measure_idle() -> Result:
    """Measure a scheduler that waits for its next tick, with its health endpoint open."""
    with tempfile.TemporaryDirectory() as name:
        _write(Path(name), PAIRS, "every 366 days", "sqlite")
        process = subprocess.Popen(
            [sys.executable, "-m", "tidegauge.cli.main", "schedule", "start", "--health-port", "0"],
            cwd=name,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "every 366 days" in line:
                    break
            time.sleep(5)
            before, began = _processor_seconds(process.pid), time.monotonic()
            time.sleep(_IDLE)
            used = _processor_seconds(process.pid) - before
            share = 100 * used / (time.monotonic() - began)
            size = _read_resident_bytes(process.pid)
        finally:
            process.terminate()
            process.wait()
    return Result(
        name="a scheduler that waits",
        ours=share,
        reference=1.0,
        goal=1.0,
        unit="% of a core",
        against="one percent",
        more={"seconds": _IDLE, "mebibytes": round(size / 2**20, 1)},
    )


def _measure_memory(ticks: int) -> Result:
    """Measure whether ticks leak: the memory of this process after a tenth of the ticks, and after all."""
    with tempfile.TemporaryDirectory() as name:
        part = _part(Path(name), _FEW, "sqlite")
        for _ in range(ticks // 10):
            _run(part)
        early = _read_resident_bytes(os.getpid())
        for _ in range(ticks - ticks // 10):
            _run(part)
        late = _read_resident_bytes(os.getpid())
    return Result(
        name=f"memory after {ticks:,} ticks",
        ours=late / 2**20,
        reference=early / 2**20,
        goal=1.05,
        unit="MiB",
        against=f"after {ticks // 10:,} ticks",
        more={"ticks": ticks, "pairs": _FEW},
    )


def _part(folder: Path, pairs: int, replica: str) -> ScheduledPart:
    _write(folder, pairs, "every 1 second", replica)
    project = load_project(folder / "tidegauge.yml")
    open_ledger(project.ledger, create=True).close()
    [part] = find_scheduled(project)
    return part


def _run(part: ScheduledPart) -> TickResult:
    result = run_tick(
        part,
        datetime(2026, 1, 1),
        options=RunOptions(remarks=False),
        environment=Environment(spark=WarmSpark(find_project_jars(part.project)).open),
        tell=lambda _: None,
        stop=threading.Event(),
        ended=lambda _: None,
    )
    assert not result.errors, result.errors
    return result


def _write(folder: Path, pairs: int, schedule: str, replica: str) -> None:
    with closing(sqlite3.connect(folder / "app.db")) as source:
        for number in range(pairs):
            source.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
            source.execute(f"CREATE INDEX i{number} ON t{number} (at)")
            source.execute(f"INSERT INTO t{number} VALUES (1, '2026-01-01 00:00:00')")
        source.commit()
    (folder / "tidegauge.yml").write_text(
        f"pipeline: bench\nschedule: {schedule}\n"
        "connections:\n  app: {type: sqlite, path: app.db}\n"
        f"  replica: {{type: {replica}, path: replica.db}}\n"
        "sync:\n  - {from: app, to: replica, tables: ['t*'], cursor: at, settle: 0s}\n"
    )


def _read_resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
