"""The observability example, day by day, against hand-written PySpark; both in one warm Spark."""

from __future__ import annotations

import os
import runpy
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import processor_seconds
from bench.memory import tree
from bench.observability_plain import GOLD, PlainPipeline
from bench.result import Result
from bench.timing import Pairs
from tidegauge.config.load import load_project
from tidegauge.model.spec import SparkSettings
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[1] / "examples" / "003_observability"
FIRST, WARM, DAYS = 10, 1, 3
"""Days loaded by the first run, then days that only warm up, then days that are measured."""
IDLE = 5
_SIDE_BY_SIDE = 4
_DAY, _NOTHING = 12.0, 1.5
"""Budgets in seconds: for a day of new rows, and for a run with nothing new."""


@dataclass
class _Side:
    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], None]) -> float:
        began, spent = time.perf_counter(), _read_processor_seconds()
        work()
        self.seconds.append(time.perf_counter() - began)
        self.processors.append(_read_processor_seconds() - spent)
        return self.seconds[-1]


def measure(*, times: int = DAYS) -> list[Result]:
    spark = open_session(SparkSettings(None, {}), [JarSet.DELTA])
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        return _Month(spark, Path(name)).measure(times)


class _Month:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder / "observability"
        besides = shutil.ignore_patterns("lake", "system", ".*")
        shutil.copytree(EXAMPLE, self._folder, ignore=besides)
        self._made: dict[str, Any] = runpy.run_path(str(self._folder / "generate.py"))
        self._month = self._made["Month"](7, 1.0)
        self._plain = PlainPipeline(spark, self._folder, folder / "plain")
        self._day = 0

    def measure(self, days: int) -> list[Result]:
        for _ in range(FIRST):
            self._write_day()
        ours, plain, idle = _Side(), _Side(), _Side()
        self._run({"SUCCESS"})
        self._plain.run()
        rows = 0
        for turn in range(WARM + days):
            new = self._write_day()
            rows += new if turn >= WARM else 0
            both = ours.time(self._run), plain.time(self._plain.run)
            sys.stderr.write(
                f"  day {self._day}, {new} rows: {both[0]:.1f} s and {both[1]:.1f} s,"
                f" of processors {ours.processors[-1]:.1f} s and {plain.processors[-1]:.1f} s,"
                f" load {os.getloadavg()[0]:.1f}\n"
            )
        self._check()
        for _ in range(IDLE):
            idle.time(lambda: self._run({"SKIPPED"}))
        counted = Pairs(tuple(ours.seconds[WARM:]), tuple(plain.seconds[WARM:]))
        spent = Pairs(tuple(ours.processors[WARM:]), tuple(plain.processors[WARM:]))
        more = {
            "times": days,
            "rows_of_a_day": rows // days,
            "side_by_side": _SIDE_BY_SIDE,
            "seconds_ours": _round_all(counted.ours),
            "seconds_reference": _round_all(counted.reference),
        }
        by_hand = "plain PySpark by hand, table after table: bench/observability_plain.py"
        return [
            Result(
                "a day of 32 flows", counted.median_ours, counted.median_reference, 0.5, "s", by_hand, more
            ),
            Result(
                "a day of 32 flows, processor time",
                spent.median_ours,
                spent.median_reference,
                None,
                "s",
                by_hand,
            ),
            Result("a day of 32 flows, warm", counted.median_ours, _DAY, 1.0, "s", "the budget of 12 s"),
            Result(
                "a day with nothing new",
                statistics.median(idle.seconds),
                _NOTHING,
                1.0,
                "s",
                "the budget of 1.5 s, warm",
                {"times": IDLE, "slowest": round(max(idle.seconds), 3)},
            ),
        ]

    def _write_day(self) -> int:
        self._day += 1
        rows: int = self._made["write_day"](self._month, self._day, self._folder / "system")
        return rows

    def _run(self, states: frozenset[str] | set[str] = frozenset({"SUCCESS", "SKIPPED"})) -> None:
        """Run the project in this process as `tidegauge run` does: project file, ledger and logs."""
        loaded = load_project(self._folder / "tidegauge.yml")
        report = run(loaded, RunOptions(parallel=_SIDE_BY_SIDE), tell=lambda _: None, stop=threading.Event())
        wrong = [
            (flow.flow, flow.state, str(flow.error)) for flow in report.flows if flow.state not in states
        ]
        assert not wrong, wrong[:3]

    def _check(self) -> None:
        """Check that both sides made the same rows; without that the times would mean nothing."""
        for name in GOLD:
            ours, plain = (
                self._spark.read.format("delta").load(str(lake / name))
                for lake in (self._folder / "lake" / "gold", self._folder.parent / "plain")
            )
            assert set(ours.columns) == set(plain.columns), name
            columns = sorted(ours.columns)
            one, other = ours.select(columns), plain.select(columns)
            assert one.exceptAll(other).isEmpty(), name
            assert other.exceptAll(one).isEmpty(), name


def _read_processor_seconds() -> float:
    """Processor seconds of this process and its descendants, which include Java."""
    return sum(processor_seconds(pid) for pid in tree(os.getpid()))


def _round_all(seconds: tuple[float, ...]) -> list[float]:
    return [round(one, 2) for one in seconds]
