"""A flow with expectations against the same flow without them; both in one Spark, in turns."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from bench.result import Result
from bench.timing import Pairs
from tidegauge.config.load import load_project
from tidegauge.model.spec import SparkSettings
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session

ROWS = 500_000
TIMES = 3
GOAL = 1.10
_COLUMNS = (
    "id",
    "id * 7919 % 100003 AS customer_id",
    "CAST(id % 1000000 / 100 AS DECIMAL(12,2)) AS price",
    "concat('SKU-', id % 50000) AS sku",
    "element_at(array('NEW', 'PAID', 'SENT'), CAST(id % 3 AS INT) + 1) AS status",
    "md5(CAST(id AS STRING)) AS title",
)
_EXPECT = """{id: not_null, sku: {matches: "SKU-[0-9]+"}, price: {range: {min: 0}, action: warn},
   status: {accepted: [NEW, PAID, SENT], action: warn}, "%s": quarantine}"""
_PASSED, _SET_ASIDE = _EXPECT % "customer_id >= 0", _EXPECT % "id % 100000 <> 7"
_MODES = {"append": "mode: append", "merge": "mode: merge, key: id"}


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    """Each turn adds `rows` new rows and runs the flows one after the other, in rotating order."""
    spark = open_session(SparkSettings(None, {}), [JarSet.DELTA])
    found: list[Result] = []
    for mode, output in _MODES.items():
        with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
            folder = Path(name)
            flows = deque(_write(folder, output))
            seconds: dict[str, list[float]] = {flow: [] for flow in flows}
            for turn in range(1 + times):
                made = spark.range(turn * rows, (turn + 1) * rows).selectExpr(*_COLUMNS)
                writer = made.write.format("delta").option("delta.enableChangeDataFeed", "true")
                writer.mode("append").save(str(folder / "source"))
                for flow in flows:
                    took = _run(folder, flow)
                    seconds[flow] += [took] if turn else []
                flows.rotate()
        plain = tuple(seconds["plain"])
        passed, aside = (Pairs(tuple(seconds[flow]), plain) for flow in ("passed", "aside"))
        found.append(_result(f"{mode} {rows:,} rows, which meet five expectations", passed, GOAL))
        found.append(_result(f"{mode} {rows:,} rows, of which 1 in 100,000 is set aside", aside, None))
    return found


def _write(folder: Path, output: str) -> tuple[str, ...]:
    """Write the project file and return the names of its flows."""
    flows = {"plain": "", "passed": f", expect: {_PASSED}", "aside": f", expect: {_SET_ASIDE}"}
    (folder / "tidegauge.yml").write_text(
        "pipeline: bench\nflows:\n"
        + "".join(
            f"  {name}: {{inputs: {{t: {{path: source}}}}{expect}, output: {{path: {name}, {output}}}}}\n"
            for name, expect in flows.items()
        )
    )
    return tuple(flows)


def _run(folder: Path, flow: str) -> float:
    began = time.perf_counter()
    report = run(
        load_project(folder / "tidegauge.yml"),
        RunOptions((flow,)),
        tell=lambda _: None,
        stop=threading.Event(),
    )
    seconds = time.perf_counter() - began
    assert not report.errors, report.errors
    return seconds


def _result(name: str, pairs: Pairs, goal: float | None) -> Result:
    against = "the same flow without expectations"
    return Result(
        name, pairs.median_ours, pairs.median_reference, goal, "s", against, {"times": len(pairs.ours)}
    )
