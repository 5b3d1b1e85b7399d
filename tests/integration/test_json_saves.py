"""How often a run writes a table's file in a JSON ledger: two times for each batch, and two for itself."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.project import here

PROJECT = """\
pipeline: shop
ledger: json:ledger
connections:
  app: {type: sqlite, path: shop.db}
  lake: {type: parquet, path: lake}
sync:
  - {from: app, to: lake, tables: [orders], cursor: at, settle: 0s, batch_rows: 10}
"""


@pytest.mark.usefixtures("spark")
def test_a_batch_is_saved_twice(tmp_path: Path) -> None:
    (tmp_path / "tidegauge.yml").write_text(PROJECT)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT)")
        rows = [(number, f"2025-08-14 10:00:{number:02}") for number in range(60)]
        database.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        database.commit()
    ran = here("run", "--project", tmp_path, "--json")
    assert ran.code == 0, ran
    [flow] = ran.json["flows"]
    assert flow["batches"] == 6
    [file] = (tmp_path / "ledger" / "watermarks").glob("*.json")
    # The file counts its saves. For itself a run plans, and lets go of what is in the logs: the first batch
    # begins with the claim, and the run ends with the last one.
    assert json.loads(file.read_text())["tidegauge"]["version"] == 2 * 6 + 2
    logs = [*(tmp_path / "ledger").glob("history/**/*.json*")]
    assert len([path for path in logs if path.is_file()]) == 1, "all its events are one segment"
