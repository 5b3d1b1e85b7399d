"""The second half of the demonstration: the same shop as three layers of Delta tables."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.config.load import load_project
from tidegauge.demo.shop import SETTLED, as_text, delete_orders, open_shop
from tidegauge.model.spec import Project
from tidegauge.observe.events import Listener
from tidegauge.operations.verify import TableVerification, verify
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport
from tidegauge.run.run import run

_PROJECT = """\
# The demo's second project: the shop as three layers of Delta tables.
pipeline: layers
ledger: sqlite:///.tidegauge/ledger.db
connections:
  app:    {type: sqlite, path: shop.db}
  bronze: {type: delta, path: bronze}
sync:
  - from: app
    to: bronze
    tables: [customers, orders]
    cursor: updated_at
    deletes: hard
    settle: 1s
    types: {updated_at: timestamp}
flows:
  silver_orders:                     # what every order was, and from when to when
    inputs: {orders: {path: bronze/orders}}
    output: {path: silver/orders, mode: scd2, key: id, sequence_by: updated_at}
  gold_revenue:                      # what the orders of each city are worth now
    inputs: {orders: {path: silver/orders}, customers: {path: bronze/customers}}
    transform: gold_revenue.sql
    output: {path: gold/revenue, key: city}
"""
_GOLD = """\
SELECT coalesce(c.city, 'unknown') AS city, count(*) AS orders, sum(o.total_cents) AS revenue_cents
FROM orders o JOIN customers c ON o.customer_id = c.id
WHERE o.is_current AND o.status <> 'new'
GROUP BY coalesce(c.city, 'unknown')
"""
_IN_ORDER = ("orders", "silver_orders", "gold_revenue")


def play_layers(folder: Path, *, say: Callable[[str], None], tell: Listener) -> tuple[TableVerification, ...]:
    """Build the layers from a copy of the shop in `folder`, change it, and verify each layer."""
    home = folder / "layers"
    home.mkdir()
    shutil.copy(folder / "shop.db", home)
    (home / "tidegauge.yml").write_text(_PROJECT)
    (home / "gold_revenue.sql").write_text(_GOLD)
    project = load_project(home / "tidegauge.yml")

    say("\n7. The same shop as three layers of Delta tables: bronze → silver, with history → gold.")
    _run(project, say, tell)
    say("\n8. 500 orders are shipped, 25 deleted, ten customers move to Vardø: only that moves.")
    _change_shop(home / "shop.db")
    _run(project, say, tell)
    say("\n9. The proof: each layer compared with what its SQL makes of whole tables.")
    return tuple(verify(project, ()))


def _run(project: Project, say: Callable[[str], None], tell: Listener) -> None:
    began = time.monotonic()
    report = run(project, RunOptions(), tell=tell, stop=threading.Event())
    for error in report.errors:
        raise error
    flows = {flow.flow: flow for flow in report.flows}
    for name in _IN_ORDER:
        say(f"   {name}: {_describe_counts(flows[name])}")
    say(f"   {time.monotonic() - began:.1f} s")


def _describe_counts(flow: FlowReport) -> str:
    return ", ".join(f"{flow.count(which) or 0:,} {which}" for which in ("inserted", "updated", "deleted"))


def _change_shop(file: Path) -> None:
    now = as_text(datetime.now(UTC))
    with open_shop(file) as shop:
        shop.execute(
            "UPDATE orders SET status = 'shipped', updated_at = ? WHERE id BETWEEN 401 AND 900", (now,)
        )
        delete_orders(shop, first=2001, count=25)
        shop.execute("UPDATE customers SET city = 'Vardø', updated_at = ? WHERE id <= 10", (now,))
    time.sleep(SETTLED)
