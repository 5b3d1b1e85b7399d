"""The product at work in about a minute: a first run, a second, one killed half-way, and the proof."""

from __future__ import annotations

import random
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
from tidegauge.demo.shop import add_orders, make_shop, open_shop
from tidegauge.engine.report import RunReport
from tidegauge.engine.run import Order, run
from tidegauge.engine.verify import Verified, verify
from tidegauge.errors import TidegaugeError
from tidegauge.observe.events import Listener, RunEvent

ORDERS = 55_000
_SETTLED = 5
"""Seconds after which the newest rows lie below the source's clock by more than `settle`."""
_PROJECT = """\
# The demo's project: every table of a small shop, into Parquet.
pipeline: shop
ledger: sqlite:///.tidegauge/ledger.db
connections:
  app:  {type: sqlite, path: shop.db}
  lake: {type: parquet, path: lake}
sync:
  - from: app
    to: lake
    tables: ["*"]
    cursor: updated_at
    settle: 1s
    batch_rows: 20000
    override:
      customers: {lookback: 30m}     # they come from the branches, dated a little late
"""


@dataclass(frozen=True)
class Act:
    title: str
    rows: int
    batches: int
    seconds: float


@dataclass(frozen=True)
class Ending:
    acts: tuple[Act, ...]
    verified: tuple[Verified, ...]
    taken_up: bool
    """The killed run's own plan was the one that was finished."""

    @property
    def proven(self) -> bool:
        return self.taken_up and bool(self.verified) and all(one.equal for one in self.verified)


def tell_story(folder: Path, *, say: Callable[[str], None], tell: Listener) -> Ending:
    file = folder / "tidegauge.yml"
    shop_file = folder / "shop.db"
    file.write_text(_PROJECT)
    chance = random.Random(11)  # noqa: S311 - the same story each time
    say(f"A shop with {ORDERS:,} orders in SQLite; every timestamp is shared by about a hundred rows.")
    make_shop(shop_file, orders=ORDERS)
    project = load_project(file)
    acts: list[Act] = []

    def act(title: str) -> RunReport:
        began = time.monotonic()
        report = run(project, Order(), tell=tell, stop=threading.Event())
        for flow in report.flows:
            if flow.error:
                raise flow.error
        rows = sum(flow.rows for flow in report.flows)
        batches = sum(flow.batches for flow in report.flows)
        acts.append(Act(title, rows, batches, time.monotonic() - began))
        say(f"   {rows:,} rows in {batches} batches, {acts[-1].seconds:.1f} s")
        return report

    say("\n1. The first run reads everything.")
    act("first run: everything")

    say("\n2. 1,200 new orders, 300 paid in the same second, and 40 customers dated ten minutes ago.")
    _a_day_in_the_shop(shop_file, chance)
    act("second run: what changed")

    say("\n3. 30,000 orders more. The run that reads them is killed with SIGKILL after its first batches.")
    with open_shop(shop_file) as shop:
        now = datetime.now(UTC)
        add_orders(shop, first=ORDERS + 2001, count=30_000, began=now, to_a_second=15_000, chance=chance)
    time.sleep(_SETTLED)
    committed = _run_and_kill(folder)
    say(f"   killed: {committed} of 4 batches of order_items were committed")

    say("\n4. The next run takes over the frozen plan and ends it: the same windows, no row twice.")
    report = act("after the kill: the rest")
    taken_up = any(flow.resumed for flow in report.flows)

    say("\n5. The proof: source and target compared key by key, by a hash of every row.")
    return Ending(tuple(acts), tuple(verify(project, ())), taken_up)


def _a_day_in_the_shop(file: Path, chance: random.Random) -> None:
    now = datetime.now(UTC)
    with open_shop(file) as shop:
        add_orders(shop, first=ORDERS + 1, count=1200, began=now, to_a_second=1000, chance=chance)
        shop.execute("UPDATE orders SET status = 'paid', updated_at = ? WHERE id <= 300", (_text(now),))
        shop.executemany(
            "INSERT INTO customers (name, city, updated_at) VALUES (?, ?, ?)",
            [(f"Late customer {n}", "Tromsø", _text(now - timedelta(minutes=10))) for n in range(40)],
        )
    time.sleep(_SETTLED)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _run_and_kill(folder: Path) -> int:
    """Start a run of its own, watch its manifests, and kill it as soon as it has something to lose."""

    def committed() -> int:
        return sum(1 for _ in (folder / "lake" / "order_items").glob("_tidegauge/*/*.json"))

    before = committed()
    command = [sys.executable, "-m", "tidegauge.cli.main", "run", "--project", str(folder), "--parallel", "1"]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        until = time.monotonic() + 120
        while committed() < before + 2:
            if victim.poll() is not None or time.monotonic() > until:
                raise TidegaugeError(
                    "the run that was to be killed ended by itself", hint="run the demo again"
                )
            time.sleep(0.01)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    return committed() - before


def quiet(_: RunEvent) -> None:
    """A listener for whoever needs none."""
