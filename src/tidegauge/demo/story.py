"""The first half of the demonstration: five runs, two of them killed half-way, and the proof."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.demo.shop import SETTLED, add_orders, as_text, delete_orders, make_shop, open_shop
from tidegauge.errors import TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.spec import Project
from tidegauge.observe.events import Listener
from tidegauge.operations.verify import TableVerification, verify
from tidegauge.run.options import RunOptions
from tidegauge.run.report import RunReport
from tidegauge.run.run import run
from tidegauge.spark.jars import JarSet
from tidegauge.spark.session import open_session

ORDERS = 55_000
_BIG = "order_items"
"""The table that the runs are in the middle of when they are killed."""
_PROJECT = """\
# The demo's project: every table of a small shop, through Parquet files into DuckDB.
pipeline: shop
ledger: sqlite:///.tidegauge/ledger.db
connections:
  app:       {type: sqlite, path: shop.db}
  lake:      {type: parquet, path: lake}
  warehouse: {type: duckdb, path: warehouse.duckdb}
sync:
  - from: app
    via: lake
    to: warehouse
    tables: ["*"]
    cursor: updated_at
    mode: merge
    deletes: hard                    # what the source deleted goes from the warehouse too
    settle: 1s
    batch_rows: 10000
    override:
      customers: {lookback: 30m}     # they come from the branches, dated a little late
"""


@dataclass(frozen=True)
class Act:
    """What one run did to the warehouse."""

    title: str
    rows: int
    batches: int
    inserted: int
    updated: int
    deleted: int
    seconds: float


@dataclass(frozen=True)
class Ending:
    acts: tuple[Act, ...]
    verified: tuple[TableVerification, ...]
    taken_over: bool
    """Whether the plans of the killed runs were finished, and not replaced by new ones."""

    @property
    def proven(self) -> bool:
        return self.taken_over and bool(self.verified) and all(one.equal for one in self.verified)


def play(folder: Path, *, say: Callable[[str], None], tell: Listener) -> Ending:
    file = folder / "tidegauge.yml"
    shop_file = folder / "shop.db"
    file.write_text(_PROJECT)
    chance = random.Random(11)  # noqa: S311 - the same numbers each time
    say(f"A shop with {ORDERS:,} orders in SQLite; every timestamp is shared by about a hundred rows.")
    make_shop(shop_file, orders=ORDERS)
    project = load_project(file)
    # A process has only one Spark session, and the second half needs one with Delta.
    open_session(project.spark, {JarSet.DELTA}, light=True)
    acts: list[Act] = []

    def act(title: str) -> None:
        began = time.monotonic()
        report = run(project, RunOptions(), tell=tell, stop=threading.Event())
        acts.append(_make_act(title, report, time.monotonic() - began))
        done = acts[-1]
        say(f"   {done.rows:,} rows in {done.batches} batches, {done.seconds:.1f} s")
        say(f"   warehouse: {done.inserted:,} inserted, {done.updated:,} updated, {done.deleted:,} deleted")

    say("\n1. The first run takes everything: SQLite → Parquet → DuckDB.")
    act("first run: everything")

    say("\n2. 1,200 new orders, 300 paid, 25 deleted with their lines; 40 customers dated ten minutes ago.")
    _change_shop(shop_file, chance)
    act("second run: what changed")

    say("\n3. 30,000 orders more, all in one second. The run is killed with SIGKILL while it extracts.")
    with open_shop(shop_file) as shop:
        now = datetime.now(UTC)
        add_orders(shop, first=ORDERS + 2001, count=30_000, began=now, to_a_second=30_000, chance=chance)
    time.sleep(SETTLED)
    say(f"   killed after {_run_and_kill(folder, f'{_BIG}/extract')}")
    say("\n4. The next run takes over the frozen plan, and is killed in its turn, while it loads.")
    say(f"   killed after {_run_and_kill(folder, f'{_BIG}/load')}")
    say("\n5. The one after it ends what they began: the same windows, no row twice.")
    act("after the kills: the rest")

    say("\n6. The proof: source and warehouse compared key by key, by a hash of every row.")
    return Ending(tuple(acts), tuple(verify(project, ())), _was_taken_over(project))


def _make_act(title: str, report: RunReport, seconds: float) -> Act:
    for flow in report.flows:
        if flow.error:
            raise flow.error
    loads = [flow for flow in report.flows if flow.flow.endswith("/load")]
    inserted, updated, deleted = (
        sum(flow.count(which) or 0 for flow in loads) for which in ("inserted", "updated", "deleted")
    )
    rows, batches = sum(flow.rows for flow in loads), sum(flow.batches for flow in loads)
    return Act(title, rows, batches, inserted, updated, deleted, seconds)


def _change_shop(file: Path, chance: random.Random) -> None:
    now = datetime.now(UTC)
    with open_shop(file) as shop:
        add_orders(shop, first=ORDERS + 1, count=1200, began=now, to_a_second=1200, chance=chance)
        shop.execute("UPDATE orders SET status = 'paid', updated_at = ? WHERE id <= 300", (as_text(now),))
        delete_orders(shop, first=1001, count=25)
        shop.executemany(
            "INSERT INTO customers (name, city, updated_at) VALUES (?, ?, ?)",
            [(f"Late customer {n}", "Tromsø", as_text(now - timedelta(minutes=10))) for n in range(40)],
        )
    time.sleep(SETTLED)


def _run_and_kill(folder: Path, flow: str) -> str:
    """Start a run in another process, read its log lines, and kill it in the middle of a flow."""
    command = [sys.executable, "-m", "tidegauge.cli.main", "run", "--project", str(folder), "--parallel", "1"]
    victim = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert victim.stderr
    said = []
    try:
        for line in victim.stderr:
            said.append(line.strip())
            found = re.match(rf"{flow}: batch (\d+)/(\d+)", line)
            if found and 1 < int(found[1]) < int(found[2]):
                return f"batch {found[1]} of {found[2]} of {flow}"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        victim.stderr.close()
    raise TidegaugeError(
        f"the run that was to be killed in {flow} ended by itself: {' | '.join(said[-3:])}",
        hint="run the demo again",
    )


def _was_taken_over(project: Project) -> bool:
    with open_ledger(project.ledger, create=False) as ledger:
        return all(
            any(one.event == "taken_over" for one in ledger.history(project.pipeline, flow=flow, limit=1000))
            for flow in (f"{_BIG}/extract", f"{_BIG}/load")
        )
