"""What runs add up to."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from tidegauge.model.run import RunRecord
from tidegauge.model.state import State
from tidegauge.operations.stats import DayStats, add_up_days, add_up_flows

NOON = datetime(2026, 3, 1, 12)


def run(
    flow: str = "orders",
    state: State = State.SUCCESS,
    *,
    at: datetime = NOON,
    seconds: float | None = 10,
    rows: int = 5,
    inserted: int | None = 3,
    updated: int | None = 2,
) -> RunRecord:
    ended = None if seconds is None else at + timedelta(seconds=seconds)
    return RunRecord("r", "p", flow, "plan", 1, state, at, ended, 1, rows, rows, None, inserted, updated, 0)


def test_a_flow_is_judged_by_the_runs_that_ended() -> None:
    runs = [
        run(state=State.RUNNING, seconds=None),
        run(state=State.SKIPPED, seconds=0.1, rows=0),
        run(seconds=4),
        run(state=State.FAILED, seconds=100, rows=0),
        run(seconds=20),
        run("items", State.FAILED, seconds=1, rows=0, inserted=None, updated=None),
    ]
    items, orders = add_up_flows(runs, {"orders": 7.5})
    assert (orders.runs, orders.failures, orders.error_rate, orders.rows) == (4, 1, 0.25, 10)
    assert (orders.median_seconds, orders.last_seconds, orders.lag_seconds) == (12, 4, 7.5)
    assert (items.runs, items.error_rate, items.median_seconds, items.lag_seconds) == (1, 1.0, None, None)
    assert items.to_json()["last_run"] == "2026-03-01T12:00:00.000000Z"


def test_days_have_the_columns_of_the_control_tables_query() -> None:
    yesterday = NOON - timedelta(days=1)
    runs = [
        run(seconds=10),
        run("items", State.SKIPPED, seconds=20, inserted=0, updated=0),
        run(state=State.RUNNING, seconds=None),
        run(state=State.FAILED, at=yesterday, seconds=3, inserted=None, updated=None),
    ]
    assert add_up_days(runs) == [
        DayStats(date(2026, 3, 1), 2, 2, 0, 3, 2, 15),
        DayStats(date(2026, 2, 28), 1, 0, 1, None, None, 3),
    ]
    assert list(add_up_days(runs)[0].to_json()) == [
        "sync_date",
        "total_runs",
        "success_count",
        "failed_count",
        "total_inserted",
        "total_updated",
        "avg_duration_sec",
    ]


def test_nothing_adds_up_to_nothing() -> None:
    assert add_up_days([]) == []
    assert add_up_flows([], {}) == []
