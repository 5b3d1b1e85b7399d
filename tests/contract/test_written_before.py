"""What an earlier version wrote opens unchanged: every kind of ledger, the lake and the warehouses beside it.

The copies come from tests/fixtures. What they have to hold afterwards is worked out from their source alone.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.shop import SHOPS, Shop
from tests.fixtures.source import TABLES, day
from tests.fixtures.trackers import HOUR, NOON, tell
from tests.support.written_before import (
    SETS,
    Old,
    assert_says_the_same,
    history_of,
    ledger_address,
    open_old,
)
from tidegauge import WatermarkTracker

CASES = [(version, name) for version in SETS for name in SHOPS]


def row_at(moment: str, key: int) -> dict[str, Any]:
    return {"cursor": moment, "key": [str(key)]}


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_project_of_an_earlier_version_goes_on_where_it_stood(
    version: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shop, old = SHOPS[name], open_old(version, name, tmp_path, request)
    assert_says_the_same(old.said("status"), old.do("status").json, passing=["lag_seconds"])
    assert_says_the_same(old.said("watermarks"), old.do("watermark", "list").json)
    assert_says_the_same(old.said("history"), old.do("history", "--limit", "1000").json)
    verified = old.do("verify", "--select", "orders", "--select", "customers").json["tables"]
    assert [(one["table"], one["equal"], one["newer"]) for one in verified] == [
        ("customers", True, 3),
        ("orders", True, 3),
    ]
    tally = old.do("watermark", "get", "-t", "orders").json
    if shop.two_stages:
        assert (tally["mysql_rows_extracted"], tally["redshift_rows_loaded"]) == (10, 10)
    [undo, *_] = old.do("watermark", "undo", "-t", "prices", "--dry-run").json["flows"]
    assert undo["to"] == row_at(day(5), 5)

    check_run(shop, old.do("run").json["flows"])
    for table in TABLES:
        check_contents(shop, old, table)
    assert {flow["state"] for flow in old.do("run").json["flows"]} == {"SKIPPED"}
    if old.connect_ledger is not None:
        # The view that stood beside its tables shows old runs and new ones.
        ends = old.in_ledger(
            "SELECT current_run_ts FROM watermarks_v WHERE status = 'SUCCESS'"
            f" AND pipeline_name = 'shop/{shop.flow('orders')}' ORDER BY 1"
        )
        assert [str(end) for (end,) in ends] == [day(3), day(4), day(5)]


def check_run(shop: Shop, flows: list[dict[str, Any]]) -> None:
    """What was left half-way is ended first, with its own windows, then what was not read yet."""

    def reports(table: str, stage: str = "extract") -> list[tuple[Any, ...]]:
        found = [flow for flow in flows if flow["flow"] == shop.flow(table, stage)]
        return [
            (one["resumed"], one["windows"][0]["after"], one["windows"][0]["upto"], one["rows_read"])
            for one in found
        ]

    assert {flow["state"] for flow in flows} == {"SUCCESS"}
    assert reports("orders") == [(False, row_at(day(4), 9), row_at(day(5), 11), 3)]
    assert reports("customers") == [(False, row_at(day(3), 4), row_at(day(6), 5), 3)]
    assert reports("prices") == reports("stock") == [(False, row_at(day(5), 5), row_at(day(21), 1), 3)]
    assert reports("tags") == [(False, None, row_at(day(5), 1), 4)]
    assert reports("visits") == [
        (True, row_at(day(5), 5), row_at(day(15), 15), 6),
        (False, row_at(day(15), 15), row_at(day(21), 1), 3),
    ]
    assert reports("events") == [
        (True, row_at("3", 3), row_at("13", 13), 6),
        (False, row_at("13", 13), row_at("15", 15), 2),
    ]
    if shop.two_stages:
        assert reports("parcels", "load") == [(True, 2, 5, 6), (False, 5, 6, 3)]


def check_contents(shop: Shop, old: Old, table: str) -> None:
    """Every version of every row once, in the lake; in the warehouse as its mode says."""
    log = old.expected(f"{table}_log")
    if shop.two_stages:
        # The reset that was begun is ended, and what was before it is followed no more.
        assert old.in_lake(table) == (old.expected(table) if table == "tags" else log)
    match table:
        case "customers":
            history = history_of(list(log.elements()), when=2)
            assert old.in_warehouse(table, "valid_from", "valid_to", "is_current") == history
        case "events" | "parcels":
            assert old.in_warehouse(table) == log
        case _:
            assert old.in_warehouse(table) == old.expected(table)


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_tracker_of_an_earlier_version_goes_on_where_it_stood(
    version: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old = open_old(version, name, tmp_path, request, warehouse=False)
    address = ledger_address(name)
    kept = old.said("tracker")
    assert tell(address) == kept
    with WatermarkTracker(address) as tracker:
        for pipeline in ("nightly", "hourly"):
            *_, [number, _, run_id, *_] = kept["records"][pipeline]
            record = tracker.start_pipeline_run(pipeline, "job 3", end=NOON + timedelta(days=1))
            assert (record.watermark_id, record.run_id) == (number, run_id)
            assert tuple(tracker.get_delta_window(pipeline)) == (NOON, NOON + HOUR)
            tracker.finalize_pipeline_run(record, "SUCCESS")
            assert tracker.records(pipeline)[-1].last_processed_ts == NOON + HOUR

        newest = {"bronze.orders": 90, "bronze.people": 90}
        plan = tracker.prepare_processing_plan_for_schemas("silver", latest_versions=newest)
        assert (plan.run_id, dict(plan.ranges)) == (kept["plan"]["run_id"], {"bronze.orders": (8, 12)})
        tracker.mark_run_completed(plan.run_id)
        assert tracker.load_checkpoints(pipeline="silver") == {"bronze.orders": 12, "bronze.people": 8}

        assert tracker.get_last_processed_timestamp("workspaces") == NOON + HOUR
        tracker.commit_processing_state("workspaces", NOON + 2 * HOUR)
        assert tracker.get_last_processed_timestamp("workspaces") == NOON + 2 * HOUR
