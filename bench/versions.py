"""How long a new process takes to plan version ranges over 120 Delta tables, listing their logs included."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.result import Result

TABLES = 120
BUDGET = 2.0
_TIMES = 5
_CHILD = """
import json, sys, time
began = time.perf_counter()
from pathlib import Path
from tidegauge import WatermarkTracker
folder = Path(sys.argv[1])
with WatermarkTracker(f"sqlite:///{sys.argv[2]}") as tracker:
    tables = {f"bronze.{path.name}": str(path) for path in folder.iterdir()}
    plan = tracker.prepare_processing_plan_for_schemas("silver", tables=tables)
print(json.dumps({"seconds": time.perf_counter() - began, "ranges": len(plan.ranges)}))
"""


def measure() -> list[Result]:
    import pyarrow as pa
    from deltalake import write_deltalake

    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        folder = Path(name) / "bronze"
        for number in range(TABLES):
            for version in range(3):
                rows = pa.table({"id": [version], "word": [f"row {version}"]})
                write_deltalake(folder / f"t{number:03d}", rows, mode="append")
        seconds = []
        for turn in range(_TIMES):
            command = [sys.executable, "-c", _CHILD, str(folder), str(Path(name) / f"{turn}.db")]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            assert found["ranges"] == TABLES
            seconds.append(found["seconds"])
    return [
        Result(
            name=f"prepare over {TABLES} Delta tables, cold",
            ours=statistics.median(seconds),
            reference=BUDGET,
            goal=1.0,
            unit="s",
            against=f"the budget of {BUDGET} s",
            more={"tables": TABLES, "versions": 3, "times": _TIMES, "slowest": round(max(seconds), 3)},
        )
    ]
