"""How long a command takes as a whole process, on a project with a long history."""

from __future__ import annotations

import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from tests.support.drafts import ME, draft, receipt

from bench.result import Result
from tidegauge.ledger.open import open_ledger
from tidegauge.model.state import State

FLOWS = 1000
EVENTS = 1_000_000
_TIMES = 10
_HEAVY = re.compile(r"\| +(pyspark|py4j|pyarrow|pandas)\b")
PROJECT = """
pipeline: shop
ledger: sqlite:///ledger.db
connections:
  app: {type: sqlite, path: app.db}
  lake: {type: parquet, path: lake}
sync:
  - {from: app, to: lake, tables: ["*"], cursor: updated_at}
"""
_COMMANDS = ((("--help",), 0.3), (("status",), 1.0), (("status", "--json"), 1.0))
"""Each command and its budget in seconds."""


def measure() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as name:
        folder = Path(name)
        (folder / "tidegauge.yml").write_text(PROJECT)
        make_past(folder / "ledger.db")
        program = str(Path(sys.executable).with_name("tidegauge"))
        runs: dict[tuple[str, ...], list[float]] = {words: [] for words, _ in _COMMANDS}
        python: list[float] = []
        for turn in range(_TIMES + 1):
            bare = _seconds([sys.executable, "-c", "pass"], folder)
            for words, taken in runs.items():
                seconds = _seconds([program, *words], folder)
                if turn:  # the first run compiles the modules it imports
                    taken.append(seconds)
            if turn:
                python.append(bare)
        return [
            Result(
                name=f"tidegauge {' '.join(words)}",
                ours=statistics.median(runs[words]),
                reference=budget,
                goal=1.0,
                unit="s",
                against=f"the budget of {budget} s",
                more={
                    "fastest": round(min(runs[words]), 3),
                    "python_alone": round(statistics.median(python), 3),
                    "flows": FLOWS,
                    "events": EVENTS,
                    "times": _TIMES,
                    "heavy_imports": _find_heavy_imports([program, *words], folder),
                },
            )
            for words, budget in _COMMANDS
        ]


def make_past(path: Path, *, flows: int = FLOWS, events: int = EVENTS) -> None:
    """Make a ledger in which every flow has run many times: one run by the ledger's calls, copied in SQL."""
    names = [f"shop.table_{number:04d}" for number in range(flows)]

    def hurry(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", hurry)
    try:
        with open_ledger(f"sqlite:///{path}", create=True) as ledger:
            plans = ledger.plan([draft(name, batches=1) for name in names], owner=ME, run_id="run")
            for plan in plans.values():
                claim = ledger.claim(plan, owner=ME, run_id="run", lease=timedelta(seconds=60))
                ledger.begin(claim, 0)
                ledger.advance(claim, 0, receipt(plan, 0))
                ledger.finish(claim, State.SUCCESS)
    finally:
        event.remove(Engine, "connect", hurry)
    with closing(sqlite3.connect(path)) as store:
        ((once,),) = store.execute("SELECT COUNT(*) FROM history")
        copies = max(events // once - 1, 0)
        store.execute("CREATE TEMP TABLE copy (n INTEGER)")
        store.executemany("INSERT INTO copy VALUES (?)", [(n,) for n in range(1, copies + 1)])
        again = {"run_id": "run_id || '-' || n"}
        _copy(store, "history", {"id": None, **again})
        _copy(store, "runs", {"id": None, "attempt": "attempt + n", **again})
        _copy(store, "plans", {"plan_id": "plan_id || '-' || n"})
        store.commit()
        ((found,),) = store.execute("SELECT COUNT(*) FROM history")
        assert found == once * (copies + 1)


def _copy(store: sqlite3.Connection, table: str, changed: dict[str, str | None]) -> None:
    names = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
    kept = [name for name in names if changed.get(name, name) is not None]
    values = [changed.get(name, f'"{name}"') for name in kept]
    columns = ", ".join(f'"{name}"' for name in kept)
    store.execute(f"INSERT INTO {table} ({columns}) SELECT {', '.join(map(str, values))} FROM {table}, copy")


def _seconds(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _find_heavy_imports(command: list[str], folder: Path) -> list[str]:
    """Find the heavy libraries that the command imports, from Python's import-time list; fails on pyspark."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = sorted(set(_HEAVY.findall(done.stderr)))
    assert "pyspark" not in found, f"{' '.join(command[1:])} imports pyspark"
    return found
