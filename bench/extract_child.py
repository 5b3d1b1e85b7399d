"""One extraction in a process of its own: `python -m bench.extract_child ours|plain PROJECT TARGET [WHERE]`.

With `-warm` behind the first word, the same is done once before, elsewhere, and not measured.

Prints one JSON document: the seconds until Spark was there, those of the work, those that processors spent on
the work in Python and in Java, and what the run reported.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import processor_seconds
from bench.orders import TABLE
from tidegauge.config.find import find_project
from tidegauge.config.load import load_project
from tidegauge.engine.jars import Needs
from tidegauge.engine.run import Order, run
from tidegauge.engine.session import open_session
from tidegauge.model.spec import Database, Project
from tidegauge.observe.events import StepBegun, StepDone
from tidegauge.read.address import jdbc_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Steps:
    """How long each step of the protocol took, all batches together; `survey` is what comes before them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._made = time.perf_counter()
        self._began: dict[str, float] = {}

    def __call__(self, told: object) -> None:
        match told:
            case StepBegun():
                self._began[told.step] = time.perf_counter()
                if not self.seconds:
                    self.seconds["survey"] = time.perf_counter() - self._made
            case StepDone():
                self.seconds[told.step] += time.perf_counter() - self._began[told.step]


def ours(project: Project) -> dict[str, Any]:
    steps = Steps()
    report = run(project, Order(), tell=steps, stop=threading.Event())
    for flow in report.flows:
        if flow.error is not None:
            raise flow.error
    return {
        "rows": sum(flow.rows for flow in report.flows),
        "batches": sum(flow.batches for flow in report.flows),
        "steps": {name: round(seconds, 3) for name, seconds in steps.seconds.items()},
    }


def plain(spark: SparkSession, database: Database, target: str, where: str | None) -> dict[str, Any]:
    """What one would type: one query, the same driver, options and fetch size, one partition."""
    query = f"(SELECT * FROM {TABLE} WHERE {where}) AS w" if where else TABLE
    reader = spark.read.format("jdbc").options(**jdbc_options(database)).option("dbtable", query)
    reader.load().write.parquet(f"file:{target}")
    return {}


def _cpu(spark: SparkSession) -> float:
    # The launcher's script becomes Java, so the process that was started is Java's.
    java: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    return time.process_time() + processor_seconds(java)


def main(who: str, place: str, target: str, where: str | None = None) -> None:
    project = load_project(find_project(None, Path(place)))
    began = time.perf_counter()
    # The session is opened the same way for both, and before the work: it is not what is compared.
    spark = open_session(project.spark, {Needs.JDBC})
    started = time.perf_counter() - began
    database = project.connections["app"]
    assert isinstance(database, Database)
    who, _, warm = who.partition("-")

    def work(project: Project, target: str) -> dict[str, Any]:
        return ours(project) if who == "ours" else plain(spark, database, target, where)

    if warm:
        elsewhere = Path(f"{project.root}-warm-up")
        shutil.copytree(project.root, elsewhere)
        work(load_project(elsewhere / project.file.name), f"{target}-warm-up")
    began, spent = time.perf_counter(), _cpu(spark)
    facts = work(project, target)
    took = {"start": started, "work": time.perf_counter() - began, "cpu": _cpu(spark) - spent}
    sys.stdout.write(json.dumps({**took, **facts}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
