"""A flow with expectations against the same flow without; both in one Spark, turn by turn."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

from bench.result import Result
from bench.timing import Pairs, in_turns
from tidegauge.config.load import load_project
from tidegauge.model.spec import SparkSettings
from tidegauge.run.options import RunOptions
from tidegauge.run.run import run
from tidegauge.spark.jars import Needs
from tidegauge.spark.session import open_session

ROWS = 500_000
TIMES = 3
GOAL = 1.10
_COLUMNS = (
    "id",
    "id * 7919 % 100003 AS customer_id",
    "CAST(id % 1000000 / 100 AS DECIMAL(12,2)) AS price",
    "concat('SKU-', id % 50000) AS sku",
    "md5(CAST(id AS STRING)) AS title",
)
_EXPECT = """{id: not_null, sku: {matches: "SKU-[0-9]+"}, price: {range: {min: 0}, action: warn},
   customer_id: {accepted: [0, 1, 2, 3, 4, 5], action: warn}, "id % 100000 <> 7": quarantine}"""
_MODES = {"append": "mode: append", "merge": "mode: merge, key: id"}


def measure(rows: int = ROWS, *, times: int = TIMES) -> list[Result]:
    """Each turn brings so many new rows, of which one in 100,000 is set aside."""
    spark = open_session(SparkSettings(None, {}), [Needs.DELTA])
    found: list[Result] = []
    for mode, output in _MODES.items():
        with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
            folder = Path(name)
            _write(folder, output)

            def put(turn: int, folder: Path = folder) -> None:
                made = spark.range(turn * rows, (turn + 1) * rows).selectExpr(*_COLUMNS)
                writer = made.write.format("delta").option("delta.enableChangeDataFeed", "true")
                writer.mode("append").save(str(folder / "source"))

            def checked(turn: int, folder: Path = folder) -> float:
                put(turn)
                return _run(folder, "checked")

            def plain(_: int, folder: Path = folder) -> float:
                return _run(folder, "plain")

            pairs = in_turns(times, checked, plain)
            found.append(_result(f"{mode} {rows:,} rows with five expectations", pairs))
    return found


def _write(folder: Path, output: str) -> None:
    (folder / "tidegauge.yml").write_text(
        "pipeline: bench\nflows:\n"
        f"  plain: {{inputs: {{t: {{path: source}}}}, output: {{path: plain, {output}}}}}\n"
        f"  checked:\n    inputs: {{t: {{path: source}}}}\n    expect: {_EXPECT}\n"
        f"    output: {{path: checked, {output}}}\n"
    )


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


def _result(name: str, pairs: Pairs) -> Result:
    against = "the same flow without expectations"
    return Result(
        name, pairs.median_ours, pairs.median_reference, GOAL, "s", against, {"times": len(pairs.ours)}
    )
