"""Rows read again below the watermark: windows, columns that came later, and a backfill in two passes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.integration.conftest import Make
from tests.integration.test_sync import OPTIONS, ROUTE, WAREHOUSE, WHY, counts, done, landed, positions, query
from tests.support.project import Project, refused, unchanged


@pytest.fixture
def project(make: Make) -> Project:
    """Nine orders on nine days."""
    made = make()
    made.database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER, at TEXT NOT NULL)")
    made.database.insert("orders", [(n, n * 10, f"2025-01-0{n} 12:00:00") for n in range(1, 10)])
    return made.write(f"tables: [orders], {OPTIONS}", route=ROUTE, connections=WAREHOUSE)


@pytest.fixture
def synced(project: Project) -> Project:
    done(project, "sync")
    return project


def marks(project: Project) -> tuple[Any, ...]:
    """Where the live flow stands, and how far it has looked."""
    with closing(sqlite3.connect(f"file:{project.ledger_file}?mode=ro", uri=True)) as ledger:
        query = "SELECT position, checked, pending FROM watermarks WHERE flow = 'orders/extract'"
        [found] = ledger.execute(query).fetchall()
    return tuple(found)


def test_b12_a_window_is_read_again_through_both_stages_and_the_live_watermark_stays(synced: Project) -> None:
    # Late corrections, all behind the watermark: no run would ever see them.
    synced.database.execute("UPDATE orders SET total = -total", "DELETE FROM orders WHERE id = 4")
    synced.database.insert("orders", [(45, 45, "2025-01-04 18:00:00")])
    assert done(synced, "sync").json["state"] == "SKIPPED"
    before = marks(synced)
    words = ("backfill", "-t", "orders", "--from", "2025-01-03 12:00:00", "--to", "2025-01-05 12:00:00")
    with unchanged(synced):
        refused(synced.here(*words), "backfill", "reason", code=2)
        refused(synced.here(*words, "--reason", "late"), "not confirmed", code=2)
        look = done(synced, *words, "--dry-run").json
    assert (look["schema"], look["done"], look["flows"]) == ("tidegauge/backfill/1", False, [])
    [one] = look["backfills"]
    assert (one["flow"], one["rows_read_again"], one["downstream"]) == ("orders/extract", 3, ["orders/load"])
    assert one["upto"] == {"cursor": "2025-01-05 12:00:00", "key": []}

    ran = done(synced, *words, "--reason", "late corrections", "--yes")
    assert (ran.json["schema"], ran.json["done"], ran.json["state"]) == (
        "tidegauge/backfill/1", True, "SUCCESS",
    )  # fmt: skip
    assert counts(ran, "orders/extract")[0] == 3
    assert counts(ran, "orders/load") == (3, 1, 2, 0)
    assert marks(synced) == before
    assert landed(synced) == {1: 10, 2: 20, 3: -30, 4: 40, 5: -50, 6: 60, 7: 70, 8: 80, 9: 90, 45: 45}
    events = done(synced, "history", "-t", "orders", "--limit", "99").json["events"]
    [event] = [one for one in events if one["event"] == "backfill"]
    assert event["reason"].startswith("late corrections (after 2025-01-03")
    assert done(synced, "sync").json["state"] == "SKIPPED"


def test_a_column_that_came_later_is_filled_for_the_rows_already_there(synced: Project) -> None:
    synced.database.execute(
        "ALTER TABLE orders ADD COLUMN discount INTEGER", "UPDATE orders SET discount = id + 100"
    )
    synced.database.insert("orders", [(10, 100, "2025-01-08 23:00:00", 110)])
    before = marks(synced)
    with unchanged(synced):
        words = ("backfill", "-t", "orders", "--column")
        refused(synced.here(*words, "discuont", *WHY), "discuont", "did you mean discount")
        shown = synced.here(*words, "discount", "--dry-run")
        assert shown.code == 0, shown.said
        assert "column discount" in shown.out
    ran = done(synced, "backfill", "-t", "orders", "--column", "discount", *WHY)
    assert counts(ran, "orders/load") == (10, 1, 9, 0)
    assert query(synced, "SELECT count(*) FROM orders WHERE discount = id + 100") == [(10,)]
    assert marks(synced) == before


def test_a_frozen_target_says_that_the_column_does_not_reach_it(synced: Project) -> None:
    synced.write(f"tables: [orders], {OPTIONS}, drift: freeze")
    synced.database.execute("ALTER TABLE orders ADD COLUMN discount INTEGER")
    with unchanged(synced):
        words = ("backfill", "-t", "orders", "--column", "discount", *WHY)
        refused(synced.here(*words), "discount", "drift: freeze", "drift: evolve", code=2)


def test_document_002s_two_passes_recent_rows_first_and_history_then(project: Project) -> None:
    day = "2025-01-06 12:00:00"
    done(project, "watermark", "set", "-t", "orders", "--timestamp", day, "--force", *WHY)
    done(project, "sync", "-t", "orders")
    assert sorted(landed(project)) == [7, 8, 9]
    live = marks(project)
    ran = done(project, "backfill", "-t", "orders", "--to", day, *WHY)
    assert counts(ran, "orders/load") == (6, 6, 0, 0)
    assert marks(project) == live
    assert landed(project) == {n: n * 10 for n in range(1, 10)}


def test_document_002s_two_passes_as_it_types_them(project: Project) -> None:
    words = ("watermark", "set", "-t", "orders", "--force", *WHY, "--timestamp")
    done(project, *words, "2025-01-06 12:00:00")
    done(project, "sync", "-t", "orders")
    done(project, *words, "2025-01-01 00:00:00")
    done(project, "sync", "-t", "orders", "--backup-only")
    assert sorted(landed(project)) == [7, 8, 9], "the history waits in the lake"
    done(project, "sync", "-t", "orders", "--redshift-only")
    assert landed(project) == {n: n * 10 for n in range(1, 10)}


def test_an_unfinished_plan_is_ended_first(synced: Project) -> None:
    synced.database.execute("UPDATE orders SET total = 'many' WHERE id = 9")
    done(synced, "watermark", "set", "-t", "orders", "--timestamp", "2025-01-05 12:00:00", "--force", *WHY)
    assert synced.here("sync", "-t", "orders").code == 1
    synced.database.execute(
        "UPDATE orders SET total = 7 WHERE id = 9", "UPDATE orders SET total = 8 WHERE id = 1"
    )
    words = ("backfill", "-t", "orders", "--to", "2025-01-02 12:00:00")
    [one] = done(synced, *words, "--dry-run").json["backfills"]
    assert one["unfinished"]
    ran = done(synced, *words, *WHY)
    extracts = [flow for flow in ran.json["flows"] if flow["flow"] == "orders/extract"]
    assert [(flow["resumed"], flow["state"]) for flow in extracts] == [(True, "SUCCESS"), (False, "SUCCESS")]
    assert extracts[1]["rows_written"] == 2
    found = landed(synced)
    assert (found[9], found[1]) == (7, 8)


def test_a_backfill_that_fails_half_way_is_ended_by_the_next_run_with_its_own_window(synced: Project) -> None:
    live = positions(synced)["orders/extract"]
    synced.database.execute("UPDATE orders SET total = 1", "UPDATE orders SET total = 'many' WHERE id = 8")
    failed = done(synced, "backfill", "-t", "orders", "--to", "2025-01-09 12:00:00", *WHY, code=1)
    assert failed.flow("orders/extract")["state"] == "FAILED"
    assert positions(synced)["orders/extract"] == live
    synced.database.execute("UPDATE orders SET total = 1 WHERE id = 8")
    assert done(synced, "run").code == 0
    assert set(landed(synced).values()) == {1}


def test_a_limited_backfill_reads_the_first_rows_of_its_window(synced: Project) -> None:
    synced.database.execute("UPDATE orders SET total = 0")
    before = marks(synced)
    ran = done(synced, "backfill", "-t", "orders", "--from", "2025-01-02", "--limit", "4", *WHY)
    assert counts(ran, "orders/load") == (4, 0, 4, 0)
    assert sorted(number for number, total in landed(synced).items() if not total) == [2, 3, 4, 5]
    assert marks(synced) == before


def test_one_stage_follows_itself(project: Project) -> None:
    project.write(f"tables: [orders], {OPTIONS}", route="to: warehouse")
    done(project, "sync")
    project.database.execute("UPDATE orders SET total = 0 WHERE id < 3")
    before = positions(project)
    ran = done(project, "backfill", "-t", "orders", "--to", "2025-01-02 12:00:00", *WHY)
    assert counts(ran, "orders") == (2, 0, 2, 0)
    assert positions(project) == before


def test_rows_are_appended_twice_only_by_force(project: Project) -> None:
    project.write(f"tables: [orders], {OPTIONS}, mode: append")
    done(project, "sync")
    words = ("backfill", "-t", "orders", "--to", "2025-01-02 12:00:00", *WHY)
    with unchanged(project):
        refused(project.here(*words), "a second time", "--force", code=2)
    done(project, *words, "--force")
    assert query(project, "SELECT count(*) FROM orders") == [(11,)]


def test_wrong_use_of_backfill_is_refused(synced: Project) -> None:
    with unchanged(synced):
        table = ("backfill", "-t", "orders")
        refused(synced.here("backfill", "--to", "2025-01-02", *WHY), "which tables", code=2)
        refused(synced.here(*table, *WHY), "a window or a column", code=2)
        refused(synced.here(*table, "--from", "yesterday", *WHY), "yesterday", code=2)
        refused(synced.here(*table, "--from", "2025-01-05", "--to", "2025-01-02", *WHY), "lies after", code=2)
        refused(synced.here(*table, "--from", "2099-01-01", *WHY), "past the watermark", code=2)
        refused(synced.here("backfill", "-t", "orders/load", "--to", "2025-01-02", *WHY), "the lake", code=2)
    nothing = done(synced, *table, "--to", "2020-01-01", *WHY)
    assert (nothing.json["state"], nothing.json["done"]) == ("SKIPPED", False)


def test_nothing_has_been_read_yet_so_there_is_nothing_to_backfill(project: Project) -> None:
    look = project.here("backfill", "-t", "orders", "--to", "2025-01-02", *WHY)
    assert look.code == 0, look.said
    assert "nothing to read again" in look.out
    assert positions(project) == {}
