"""Rows that are there and that no run may read yet: what `run`, `plan`, `status` and `health` say of them."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.project import here
from tests.support.source_parts import Place

SHOP = """\
pipeline: shop
connections:
  app: {type: sqlite, path: shop.db}
  lake: {type: parquet, path: lake}
  dw: {type: duckdb, path: dw.duckdb}
sync: [{from: app, via: lake, to: dw, tables: ["*"], cursor: at, settle: 1h}]
"""
WAITS = "2 rows wait for their time: dated past the source's clock, or too young"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "tidegauge.yml").write_text(SHOP)
    now = f"{datetime.now(UTC) - timedelta(minutes=1):%Y-%m-%d %H:%M:%S}"
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TEXT)")
        dates = ["2026-01-01 00:00:00", now, "2099-01-01 00:00:00", "2099-01-02 00:00:00"]
        shop.executemany("INSERT INTO orders (at) VALUES (?)", [(one,) for one in dates])
    return tmp_path


def test_a_run_says_which_rows_wait_and_until_when(shop: Path) -> None:
    project = ("--project", shop)
    for rows in (1, 0):
        ran = here("run", "--json", *project)
        assert ran.code == 0, ran.said
        extract = ran.flow("orders/extract")
        assert (extract["rows_written"], extract["rows_waiting"]) == (rows, 2)
        future, young = extract["notes"]
        assert future == "2 rows are dated past the source's clock, and read when that time has come"
        found = re.fullmatch(
            r"1 row is younger than `settle` \(3600 s\): a run from ([\d :-]+) UTC on reads it", young
        )
        assert found, young
        when = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) - datetime.now(UTC)
        assert timedelta(minutes=55) < when < timedelta(minutes=65)
        assert f"orders/extract: note: {young}" in ran.err
    planned = here("plan", *project).out
    assert "orders/extract: 1 row is younger than `settle`" in planned
    assert planned.count("past the source's clock") == 1
    status = here("status", "--json", *project)
    assert status.flow("orders/extract")["rows_waiting"] == 2
    assert WAITS in here("status", *project).out
    health = here("health", *project)
    assert (health.code, WAITS in health.out) == (0, True), health.out


def test_what_waited_is_forgotten_when_it_has_gone(shop: Path) -> None:
    here("run", "--project", shop)
    with sqlite3.connect(shop / "shop.db") as database:
        database.execute("DELETE FROM orders WHERE at > '2098'")
    assert here("run", "--project", shop).code == 0
    assert here("status", "--json", "--project", shop).flow("orders/extract")["rows_waiting"] == 0
    assert "too young" not in here("health", "--project", shop).out


def test_every_database_tells_young_rows_from_rows_in_the_future(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL)")
    for number, minutes in enumerate((-120, -2, -1, 60 * 48)):
        at = datetime.now(UTC) + timedelta(minutes=minutes)
        place.run(f"INSERT INTO t VALUES ({number}, '{at:%Y-%m-%d %H:%M:%S}')")
    _, survey = place.survey("t", settle=timedelta(hours=1))
    assert (sum(cut.rows for cut in survey.cuts), survey.rows_waiting) == (1, 1)
    assert [note for note in survey.notes if note.startswith("2 rows are younger than `settle`")]
