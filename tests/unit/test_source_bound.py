"""The arithmetic of the upper bound, with clocks made up for the purpose."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tidegauge.model.position import ValueKind
from tidegauge.model.spec import TableOptions
from tidegauge.model.table import OrderedColumn
from tidegauge.sources.bound import latest_now, timestamp_bound
from tidegauge.sources.dialect import ClockReading, OpenWork

NOON = datetime(2025, 6, 1, 12)
SECOND = timedelta(seconds=1)


def column(kind: ValueKind = ValueKind.TIMESTAMPTZ, scale: int = 6) -> OrderedColumn:
    return OrderedColumn("at", "at", "{}", kind, nullable=False, scale=scale)


def bound(moment: ClockReading, cursor: OrderedColumn, settle: float = 0, **options: timedelta) -> str:
    asked = TableOptions(cursor="at", settle=timedelta(seconds=settle), **options)  # type: ignore[arg-type]
    return timestamp_bound(moment, asked, cursor).value.text


@pytest.mark.parametrize(
    ("kind", "scale", "expected"),
    [
        (ValueKind.TIMESTAMPTZ, 6, "2025-06-01 11:59:59.999999"),
        (ValueKind.TIMESTAMP, 3, "2025-06-01 11:59:59.999"),
        (ValueKind.TIMESTAMP, 0, "2025-06-01 11:59:59"),
        (ValueKind.DATE, 0, "2025-05-31"),
    ],
)
def test_a14_the_bound_is_one_unit_below_the_clock_at_the_columns_precision(
    kind: ValueKind, scale: int, expected: str
) -> None:
    assert bound(ClockReading(NOON), column(kind, scale)) == expected


def test_a2_the_oldest_open_work_counts_and_settle_below_it() -> None:
    open_work = (OpenWork(NOON - 60 * SECOND, "old"), OpenWork(NOON - SECOND, "young"))
    assert bound(ClockReading(NOON, open_work), column(), settle=30) == "2025-06-01 11:58:29.999999"


def test_a24_ignored_work_is_named_as_a_risk() -> None:
    moment = ClockReading(NOON, (OpenWork(NOON - 7200 * SECOND, "connection 7"),))
    options = TableOptions(cursor="at", settle=SECOND, ignore_transactions_after=timedelta(hours=1))
    found = timestamp_bound(moment, options, column())
    assert found.value.text == "2025-06-01 11:59:58.999999"
    assert found.notes == (
        "risk: connection 7, open for 2 h 0 min, is ignored as `open_transactions` says;"
        " what it commits may be missed",
    )


def test_a16_a_naive_clock_is_taken_at_its_lowest() -> None:
    moment = ClockReading(
        NOON, lowest_offset=timedelta(hours=-5), highest_offset=timedelta(0), zone="America/New_York"
    )
    assert bound(moment, column(ValueKind.TIMESTAMP)) == "2025-06-01 06:59:59.999999"
    assert bound(moment, column(ValueKind.TIMESTAMPTZ)) == "2025-06-01 11:59:59.999999"


def test_a9_the_future_begins_past_the_highest_offset() -> None:
    moment = ClockReading(NOON, highest_offset=timedelta(hours=2))
    assert latest_now(moment, column(ValueKind.TIMESTAMP)).text == "2025-06-01 14:00:00.000000"
    assert latest_now(moment, column(ValueKind.TIMESTAMPTZ)).text == "2025-06-01 12:00:00.000000"
