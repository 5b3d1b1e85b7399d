"""One changed row through flows between small Delta tables: how long a developer waits for a run."""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.machine import processor_seconds
from bench.result import Result
from tidegauge.spark.warm_client import find_kept

TIMES = 3
ROWS, CUSTOMERS = 1_000, 50
FLOWS = {
    "clean": (
        "orders: {path: orders}",
        "SELECT id, customer_id, CAST(price AS DECIMAL(12,2)) AS price FROM orders WHERE price >= 0",
        "id",
    ),
    "placed": (
        "clean: {path: clean}, customers: {path: customers}",
        "SELECT o.id, o.price, c.country FROM clean o JOIN customers c USING (customer_id)",
        "id",
    ),
    "by_country": (
        "placed: {path: placed}",
        "SELECT country, count(*) AS orders, sum(price) AS revenue FROM placed GROUP BY country",
        "country",
    ),
    "by_customer": (
        "clean: {path: clean}",
        "SELECT customer_id, count(*) AS orders, sum(price) AS revenue FROM clean GROUP BY customer_id",
        "customer_id",
    ),
}
"""Inputs, SQL and key of each flow."""
_GOALS = {("clean",): 10.0, tuple(FLOWS): 18.0}
_WARM = 4.0
_REAPER = 36  # PR_SET_CHILD_SUBREAPER


@dataclass
class _Taken:
    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)

    def result(self, name: str, reference: float, goal: float | None, against: str) -> Result:
        more = {
            "times": len(self.seconds),
            "fastest": round(min(self.seconds), 2),
            "processor": round(statistics.median(self.processors), 2),
        }
        return Result(name, statistics.median(self.seconds), reference, goal, "s", against, more)


def measure(*, times: int = TIMES) -> list[Result]:
    # This process adopts a Java that outlives its command, so that its processor time is counted.
    ctypes.CDLL(None).prctl(_REAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        return _Small(Path(name)).measure(times)


class _Small:
    def __init__(self, folder: Path) -> None:
        self._folder, self._turn = folder, 0
        self._env = {**os.environ, "TIDEGAUGE_KEEP_WARM": "off"}
        self._program = [str(Path(sys.executable).with_name("tidegauge")), "run"]

    def measure(self, times: int) -> list[Result]:
        self._make()
        self._run_cold(self._program)
        self._plain("--make")
        found: list[Result] = []
        for flows, goal in _GOALS.items():
            count = "one flow" if len(flows) == 1 else "four flows"
            ours, plain = _Taken(), _Taken()
            for _ in range(times):
                self._change()
                self._run_cold(
                    [*self._program, *(word for flow in flows for word in ("--select", flow))], ours
                )
                self._plain(*flows, taken=plain)
            found.append(
                ours.result(f"{count}, cold", goal, 1.0, f"the goal of {goal:g} s, from nothing to the end")
            )
            found.append(
                ours.result(
                    f"{count}, cold, beside PySpark",
                    statistics.median(plain.seconds),
                    None,
                    "plain PySpark from nothing: read the feed, MERGE, one after the other",
                )
            )
        # Run the flows that the turns with one flow left behind.
        self._run_cold(self._program)
        self._plain("--check")
        return [*found, self._measure_warm(times)]

    def _measure_warm(self, times: int) -> Result:
        file = self._folder / "tidegauge.yml"
        file.write_text(f"{file.read_text()}spark: {{keep_warm: 2m}}\n")
        del self._env["TIDEGAUGE_KEEP_WARM"]
        self._env["TIDEGAUGE_CACHE"] = str(_make_cache(self._folder))
        os.environ["TIDEGAUGE_CACHE"] = self._env["TIDEGAUGE_CACHE"]
        taken = _Taken()
        try:
            for turn in range(times + 2):
                self._change()
                java = find_kept()
                before = processor_seconds(java[0]["java"]) if java else 0.0
                children = _read_processor_seconds()
                began = time.perf_counter()
                self._run(self._program)
                if turn < 2:  # the first turn starts the Java, and the second is the first run inside it
                    continue
                taken.seconds.append(time.perf_counter() - began)
                java_now = processor_seconds(java[0]["java"])
                taken.processors.append(_read_processor_seconds() - children + java_now - before)
        finally:
            self._run([self._program[0], "spark", "stop", "--force"])
        return taken.result(
            "four flows, warm", _WARM, 1.0, f"the goal of {_WARM:g} s, from nothing to the end"
        )

    def _make(self) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        ids = range(ROWS)
        orders = {
            "id": pa.array(ids, pa.int64()),
            "customer_id": pa.array([one % CUSTOMERS for one in ids], pa.int64()),
            "price": pa.array([one * 1.5 for one in ids]),
        }
        customers = {
            "customer_id": pa.array(range(CUSTOMERS), pa.int64()),
            "country": pa.array([f"country {one % 5}" for one in range(CUSTOMERS)]),
        }
        for name, columns in {"orders": orders, "customers": customers}.items():
            feed = {"delta.enableChangeDataFeed": "true"}
            write_deltalake(self._folder / name, pa.table(columns), configuration=feed)
        lines = ["pipeline: small", "flows:"]
        for name, (inputs, sql, key) in FLOWS.items():
            (self._folder / f"{name}.sql").write_text(sql + "\n")
            output = f"output: {{path: {name}, key: {key}}}"
            lines.append(f"  {name}: {{inputs: {{{inputs}}}, transform: {name}.sql, {output}}}")
        (self._folder / "tidegauge.yml").write_text("\n".join(lines) + "\n")

    def _change(self) -> None:
        from deltalake import DeltaTable

        self._turn += 1
        DeltaTable(self._folder / "orders").update(
            updates={"price": "price + 1"}, predicate=f"id = {self._turn}"
        )

    def _plain(self, *words: str, taken: _Taken | None = None) -> None:
        self._run_cold([sys.executable, "-m", "bench.layers_small_plain", str(self._folder), *words], taken)

    def _run_cold(self, command: list[str], taken: _Taken | None = None) -> None:
        began, spent = time.perf_counter(), _read_processor_seconds()
        self._run(command)
        seconds = time.perf_counter() - began
        try:
            while True:
                os.wait()
        except ChildProcessError:
            pass
        if taken is not None:
            taken.seconds.append(seconds)
            taken.processors.append(_read_processor_seconds() - spent)

    def _run(self, command: list[str]) -> None:
        here = Path(__file__).parents[1]
        path = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            command, cwd=self._folder, env={**self._env, "PYTHONPATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _make_cache(folder: Path) -> Path:
    """Make a cache folder without a warm Spark in it; jars, classes and Java are links to the usual cache."""
    from tidegauge.spark.cache import cache_folder

    cache = folder / "cache"
    cache.mkdir()
    for name in ("jars", "classes", "java"):
        (cache / name).symlink_to(cache_folder() / name)
    return cache


def _read_processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
