"""Makes the pictures of `docs/images/`: the dashboard of a project that this script generates."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.support.browser import look_like, open_browser

from tidegauge.config.load import load_project
from tidegauge.dashboard.app import make_app
from tidegauge.dashboard.server import open_socket, serve

IMAGES = Path(__file__).parents[1] / "docs" / "images"
_PROJECT = """\
pipeline: shop
ledger: sqlite:///ledger.db
connections:
  app:       {type: sqlite, path: shop.db}
  lake:      {type: parquet, path: lake}
  warehouse: {type: duckdb, path: warehouse.duckdb}
sync:
  - {from: app, via: lake, to: warehouse, tables: [orders, order_items, payments], cursor: updated_at,
     settle: 0s, batch_rows: 4000, tags: [sales]}
  - {from: app, to: warehouse, tables: [customers, products, stores, returns], cursor: updated_at,
     settle: 0s, tags: [master]}
"""
_TABLES = {"orders": 12_000, "order_items": 30_000, "payments": 9_000, "customers": 2_400, "products": 460,
           "stores": 38, "returns": 700}  # fmt: skip
_PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "fleet": ("/", {}),
    "fleet-dark": ("/", {"dark": True}),
    "flow": ("/flow?name=order_items/extract", {"height": 1000}),
    "gap-map": ("/gaps?name=orders/extract#piece-1", {"height": 620}),
    "proofs": ("/proofs", {"height": 640}),
    "phone": ("/flow?name=order_items/extract", {"phone": True}),
}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegauge-pictures-") as name:
        folder = Path(name)
        _make_past(folder)
        listening = open_socket("127.0.0.1", 0)
        end = serve(make_app(load_project(folder / "tidegauge.yml"), acts=True), listening)
        try:
            with open_browser() as browser:
                address = f"http://127.0.0.1:{listening.getsockname()[1]}"
                for picture, (path, looks) in _PICTURES.items():
                    look_like(browser, **looks)
                    browser.get(address + path)
                    time.sleep(0.5)  # until the page shows that it is live
                    browser.execute_script("scrollTo(0, 0)")
                    browser.save_screenshot(str(IMAGES / f"{picture}.png"))
                _preview_reset(browser, address)
                browser.save_screenshot(str(IMAGES / "act.png"))
        finally:
            end()
    for file in sorted(IMAGES.glob("*.png")):
        sys.stdout.write(f"{file.name}: {file.stat().st_size / 1000:.0f} kB\n")


def _preview_reset(browser: Chrome, address: str) -> None:
    """Preview a reset, up to the form that asks for a reason and agreement."""
    look_like(browser, height=520)
    browser.get(f"{address}/act?name=orders/extract&do=reset")
    browser.find_element(By.CSS_SELECTOR, "form.act button").click()
    WebDriverWait(browser, 120).until(lambda _: browser.find_elements(By.ID, "reason"))
    browser.find_element(By.ID, "reason").send_keys("July was read in the wrong zone")


def _make_past(folder: Path) -> None:
    """Make a project with successful runs, a `verify`, a reset, a failing table and a killed run."""
    (folder / "tidegauge.yml").write_text(_PROJECT)
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        for table in _TABLES:
            shop.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, note TEXT, updated_at TEXT)")
        shop.commit()
    began = datetime.now(UTC) - timedelta(days=6)
    for day in range(6):
        _add(folder, began + timedelta(days=day), part=6)
        _run(folder, "run")
    _run(folder, "verify", "--select", "customers", "--select", "orders", "--select", "products")
    _run(
        folder,
        "watermark",
        "reset",
        "--select",
        "orders/extract",
        "--reason",
        "read in the wrong zone",
        "--yes",
    )
    _run(folder, "run")
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute("ALTER TABLE returns RENAME COLUMN updated_at TO changed_at")
        shop.commit()
    began = datetime.now(UTC)
    time.sleep(20)  # the new rows have timestamps over as many seconds
    _add(folder, began, part=1, over=timedelta(seconds=19), without="returns")
    _run(folder, "run", "--select", "customers", "--select", "returns", "--select", "stores")
    _kill_in(folder, "order_items/extract")


def _add(
    folder: Path, began: datetime, *, part: int, over: timedelta = timedelta(hours=2), without: str = ""
) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        for table, rows in _TABLES.items():
            if table == without:
                continue
            many = max(rows // part, 1)
            moments = (began + over * number / many for number in range(many))
            shop.executemany(
                f"INSERT INTO {table} (note, updated_at) VALUES ('', ?)",
                ((f"{moment:%Y-%m-%d %H:%M:%S}",) for moment in moments),
            )
        shop.commit()


def _run(folder: Path, *words: str) -> None:
    """Run a command of Tidegauge; it may fail, because failures belong in the pictures."""
    subprocess.run([*_COMMAND, *words, "--project", str(folder)], check=False)  # noqa: S603


def _kill_in(folder: Path, flow: str) -> None:
    words = ["run", "--select", flow, "--project", str(folder)]
    victim = subprocess.Popen([*_COMMAND, *words], stderr=subprocess.PIPE, text=True)  # noqa: S603
    assert victim.stderr
    for line in victim.stderr:
        if line.startswith(f"{flow}: batch 3/"):
            break
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stderr.close()


_COMMAND = [sys.executable, "-m", "tidegauge.cli.main"]

if __name__ == "__main__":
    main()
