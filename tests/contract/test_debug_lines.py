"""`run --debug`: windows, statements, files and times of each step, with no secret in any of them."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.support.project import here

SHOP = """\
pipeline: shop
connections:
  app: {type: sqlite, path: shop.db}
  lake: {type: parquet, path: lake}
  dw: {type: duckdb, path: dw.duckdb}
sync:
  - {from: app, via: lake, to: dw, tables: [orders], cursor: at, settle: 0s,
     mask: {who: {sha256: "${env:TG_SALT}"}}}
"""


def test_debug_shows_what_a_run_does_and_hides_the_salt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    salt = "two  spaces of canary salt"
    monkeypatch.setenv("TG_SALT", salt)
    (tmp_path / "tidegauge.yml").write_text(SHOP)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT, who TEXT)")
        shop.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00', 'ada')")
    ran = here("run", "--debug", "--project", tmp_path)
    assert ran.code == 0, ran.said
    lines = [line.split(" ", 2)[2] for line in ran.err.splitlines() if line.startswith("debug: ")]
    assert "orders/extract: batch 1: orders: (the beginning, 2026-01-01 00:00:00]" in lines
    assert [line for line in lines if line.startswith("app: SELECT") and '"orders"' in line]
    assert [line for line in lines if line.startswith("warehouse: INSERT INTO") and '"orders"' in line]
    assert [line for line in lines if re.match(r"orders/extract: writes: data/.*\.parquet", line)]
    assert [line for line in lines if re.match(r"orders/load: reads: .*\.parquet", line)]
    for flow in ("orders/extract", "orders/load"):
        took = [found[1] for line in lines if (found := re.match(rf"{flow}: (\w+) took [\d.]+ s$", line))]
        assert took == ["claim", "begin", "write", "publish", "confirm", "advance", "finish"]
    assert "canary" not in ran.err
    assert salt.encode().hex() not in ran.err.lower()
    assert "debug: " not in here("run", "--project", tmp_path).err
