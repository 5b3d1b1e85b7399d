"""Extractions in a separate process: `python -m bench.extract_child HOW PROJECT [TARGET]`.

HOW is `once` (one run, as the command does it), `steady` (one run that is not measured, then one
for each line on standard input) or `plain` (only Spark's JDBC reader and Parquet writer).

Prints one JSON document for each measured run: its seconds (`work`), its processor seconds (`cpu`), and what
it reported.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import processor_seconds
from bench.memory import tree
from bench.orders import TABLE
from tidegauge.config.find import find_project
from tidegauge.config.load import load_project
from tidegauge.model.spec import Database, Project
from tidegauge.observe.events import StepBegun, StepDone
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.sources.engines import find_engine
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session


class Steps:
    """The seconds of each step, summed over all batches; `survey` is the time before the first step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._made = time.perf_counter()
        self._began: dict[tuple[str, int], float] = {}

    def __call__(self, told: object) -> None:
        match told:
            case StepBegun():
                self._began[told.step, threading.get_ident()] = time.perf_counter()
                if not self.seconds:
                    self.seconds["survey"] = time.perf_counter() - self._made
            case StepDone():
                began = self._began[told.step, threading.get_ident()]
                self.seconds[told.step] += time.perf_counter() - began


def ours(project: Project) -> dict[str, Any]:
    steps = Steps()
    report = run(project, RunOptions(), tell=steps, stop=threading.Event())
    for flow in report.flows:
        if flow.error is not None:
            raise flow.error
    return {
        "rows": sum(flow.rows for flow in report.flows),
        "batches": sum(flow.batches for flow in report.flows),
        "steps": {name: round(seconds, 3) for name, seconds in steps.seconds.items()},
    }


def plain(project: Project, target: str) -> dict[str, Any]:
    """Move the table with plain Spark: one query, same driver, options and fetch size, one partition."""
    database = project.connections["app"]
    assert isinstance(database, Database)
    spark = open_session(project.spark, {JarSet.JDBC})
    options = find_engine(database).jdbc_options
    assert options is not None
    reader = spark.read.format("jdbc").options(**options(database)).option("dbtable", TABLE)
    reader.load().write.parquet(f"file:{target}")
    return {}


def measured(work: Callable[[], dict[str, Any]], *, from_nothing: bool = False) -> None:
    """Measure `work` and print it; `from_nothing` adds the processor time of Python's start and imports."""
    began, spent = time.perf_counter(), 0.0 if from_nothing else _cpu()
    facts = work()
    took = {"work": time.perf_counter() - began, "cpu": _cpu() - spent}
    sys.stdout.write(json.dumps({**took, **facts}) + "\n")
    sys.stdout.flush()


def _cpu() -> float:
    """Processor seconds of this process and its children, running or ended: Java and Python workers."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(processor_seconds(pid) for pid in tree(_OURSELVES)) + ended.ru_utime + ended.ru_stime


def main(how: str, place: str, target: str = "") -> None:
    project = load_project(find_project(None, Path(place)))
    match how:
        case "once":
            measured(lambda: ours(project), from_nothing=True)
        case "plain":
            measured(lambda: plain(project, target), from_nothing=True)
        case "steady":
            ours(project)
            sys.stdout.write("{}\n")
            sys.stdout.flush()
            for line in sys.stdin:
                other = load_project(find_project(None, Path(line.strip() or place)))
                measured(lambda other=other: ours(other))  # type: ignore[misc]


if __name__ == "__main__":
    import os

    _OURSELVES = os.getpid()
    main(*sys.argv[1:])
