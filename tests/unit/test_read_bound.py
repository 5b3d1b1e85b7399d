"""The arithmetic of the upper bound, with clocks made up for the purpose."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model.position import Kind, Value
from tidegauge.model.spec import TableOptions
from tidegauge.model.table import OrderedColumn
from tidegauge.read.bound import Candidate, candidate_from_text, latest_now, timestamp_bound, value_bound
from tidegauge.read.dialect import Moment, OpenWork

pytestmark = pytest.mark.unit

NOON = datetime(2025, 6, 1, 12)
SECOND = timedelta(seconds=1)


def column(kind: Kind = Kind.TIMESTAMPTZ, scale: int = 6) -> OrderedColumn:
    return OrderedColumn("at", "at", "{}", kind, nullable=False, scale=scale)


def bound(moment: Moment, cursor: OrderedColumn, settle: float = 0, **options: timedelta) -> str:
    asked = TableOptions(cursor="at", settle=timedelta(seconds=settle), **options)  # type: ignore[arg-type]
    return timestamp_bound(moment, asked, cursor).value.text


@pytest.mark.parametrize(
    ("kind", "scale", "expected"),
    [
        (Kind.TIMESTAMPTZ, 6, "2025-06-01 11:59:59.999999"),
        (Kind.TIMESTAMP, 3, "2025-06-01 11:59:59.999"),
        (Kind.TIMESTAMP, 0, "2025-06-01 11:59:59"),
        (Kind.DATE, 0, "2025-05-31"),
    ],
)
def test_a14_the_bound_is_one_unit_below_the_clock_at_the_columns_precision(
    kind: Kind, scale: int, expected: str
) -> None:
    assert bound(Moment(NOON), column(kind, scale)) == expected


def test_a2_the_oldest_open_work_counts_and_settle_below_it() -> None:
    open_work = (OpenWork(NOON - 60 * SECOND, "old"), OpenWork(NOON - SECOND, "young"))
    assert bound(Moment(NOON, open_work), column(), settle=30) == "2025-06-01 11:58:29.999999"


def test_a24_ignored_work_is_named_as_a_risk() -> None:
    moment = Moment(NOON, (OpenWork(NOON - 7200 * SECOND, "connection 7"),))
    options = TableOptions(cursor="at", settle=SECOND, ignore_transactions_after=timedelta(hours=1))
    found = timestamp_bound(moment, options, column())
    assert found.value.text == "2025-06-01 11:59:58.999999"
    assert found.notes == (
        "risk: connection 7, open for 2 h 0 min, is ignored as `open_transactions` says;"
        " what it commits may be missed",
    )


def test_a16_a_naive_clock_is_taken_at_its_lowest() -> None:
    moment = Moment(
        NOON, lowest_offset=timedelta(hours=-5), highest_offset=timedelta(0), zone="America/New_York"
    )
    assert bound(moment, column(Kind.TIMESTAMP)) == "2025-06-01 06:59:59.999999"
    assert bound(moment, column(Kind.TIMESTAMPTZ)) == "2025-06-01 11:59:59.999999"


def test_a9_the_future_begins_past_the_highest_offset() -> None:
    moment = Moment(NOON, highest_offset=timedelta(hours=2))
    assert latest_now(moment, column(Kind.TIMESTAMP)).text == "2025-06-01 14:00:00.000000"
    assert latest_now(moment, column(Kind.TIMESTAMPTZ)).text == "2025-06-01 12:00:00.000000"


def number(value: int, seen: datetime) -> Candidate:
    return Candidate(Value(Kind.INT, str(value)), seen)


OPTIONS = TableOptions(cursor="id", settle=10 * SECOND)


def test_a25_with_nothing_open_the_highest_value_is_safe_at_once() -> None:
    found = value_bound(Moment(NOON), OPTIONS, number(9, NOON), None)
    assert found.value == Value(Kind.INT, "9")
    assert found.pending is None


def test_a25_an_older_candidate_is_kept_until_it_is_safe() -> None:
    moment = Moment(NOON, (OpenWork(NOON - 5 * SECOND, "w"),))
    old = number(3, NOON - 4 * SECOND)
    found = value_bound(moment, OPTIONS, number(9, NOON), old)
    assert found.value is None
    assert found.pending == old


def test_a25_an_older_candidate_that_is_safe_gives_way_to_the_new_one() -> None:
    moment = Moment(NOON, (OpenWork(NOON - 5 * SECOND, "w"),))
    found = value_bound(moment, OPTIONS, number(9, NOON), number(3, NOON - 6 * SECOND))
    assert found.value == Value(Kind.INT, "3")
    assert found.pending == number(9, NOON)


def test_a25_work_that_began_at_the_very_moment_is_waited_for() -> None:
    moment = Moment(NOON, (OpenWork(NOON, "w"),))
    assert value_bound(moment, OPTIONS, number(9, NOON), None).value is None


def test_a23_without_sight_settle_has_to_pass() -> None:
    moment = Moment(NOON, blind="cannot see")
    assert value_bound(moment, OPTIONS, number(9, NOON), number(3, NOON - 9 * SECOND)).value is None
    found = value_bound(moment, OPTIONS, number(9, NOON), number(3, NOON - 10 * SECOND))
    assert found.value == Value(Kind.INT, "3")
    assert found.notes == ("cannot see",)


@given(st.integers(), st.datetimes(min_value=datetime(1970, 1, 1)))
def test_a_candidate_survives_the_ledger(value: int, seen: datetime) -> None:
    candidate = number(value, seen)
    assert candidate_from_text(candidate.to_text(), Kind.INT) == candidate


@pytest.mark.parametrize(
    "text", [None, "", "nonsense", "{}", '{"kind": "text", "value": "a", "seen": "2025-01-01"}']
)
def test_a_reminder_of_something_else_is_dropped(text: str | None) -> None:
    assert candidate_from_text(text, Kind.INT) is None
