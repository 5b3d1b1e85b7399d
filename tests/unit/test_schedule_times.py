"""When a schedule is due: on days when the clock is set, after a sleep, and after a clock that jumped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.model.cron import parse_cron
from tidegauge.model.schedule import CatchUp, Due, Every, FlowSchedule, find_due

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NOON = datetime(2026, 7, 1, 12)


def cron(text: str, zone: str = "UTC", catch_up: CatchUp = CatchUp.ONE) -> FlowSchedule:
    return FlowSchedule(parse_cron(text), text, zone, catch_up)


def every(length: timedelta, catch_up: CatchUp = CatchUp.ONE) -> FlowSchedule:
    return FlowSchedule(Every(length), "every so often", catch_up=catch_up)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("text", "zone", "after", "times"),
    [
        # Berlin's clock goes from 02:00 to 03:00 on 29 March 2026: 02:30 comes at 03:00, and only there.
        (
            "30 2 * * *",
            BERLIN,
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        # So do all times that the gap swallows: one run, and none beside the 03:00 that the rule has itself.
        (
            "0,30 2,3 * * *",
            BERLIN,
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00", "2026-03-30T02:00+02:00"],
        ),
        # A quarter of an hour stays one.
        (
            "*/15 * * * *",
            BERLIN,
            "2026-03-29T01:40+01:00",
            ["2026-03-29T01:45+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:15+02:00"],
        ),
        # It goes back from 03:00 to 02:00 on 25 October: 02:30 comes once, the first time.
        (
            "30 2 * * *",
            BERLIN,
            "2026-10-24T12:00+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ),
        # What is due each half hour is due in both of them.
        (
            "*/30 * * * *",
            BERLIN,
            "2026-10-25T02:15+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00"],
        ),
        # New York: gap at 02:00 on 8 March, fold at 02:00 on 1 November.
        (
            "30 2 * * *",
            NEW_YORK,
            "2026-03-07T12:00-05:00",
            ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"],
        ),
        (
            "30 1 * * *",
            NEW_YORK,
            "2026-10-31T12:00-04:00",
            ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"],
        ),
        # A gap of half an hour.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30", ["2026-10-04T02:30+11:00"]),
        # A whole day that never was: 30 December 2011 on Samoa.
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-28T00:00-10:00", ["2011-12-31T00:00+14:00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00+00:00", ["2104-02-29T00:00+00:00"]),
        ("0 0 13 * 5", "UTC", "2026-02-10T00:00+00:00", ["2026-02-13T00:00+00:00", "2026-02-20T00:00+00:00"]),
        ("0 0 * * 7", "UTC", "2026-07-01T00:00+00:00", ["2026-07-05T00:00+00:00"]),
    ],
)
def test_times_of_days_on_which_the_clock_is_set(text: str, zone: str, after: str, times: list[str]) -> None:
    wanted = [utc(at) for at in times]
    assert list(islice(cron(text, zone).times(utc(after)), len(wanted))) == wanted


CRONS = ["30 2 * * *", "*/15 * * * *", "0 0 1 * *", "15 1,2,3 * * 0", "7 * * 3,10,11 *", "59 23 31 * 1"]
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1))


@given(st.sampled_from(CRONS), st.sampled_from([BERLIN, NEW_YORK, "UTC"]), MOMENTS)
def test_next_and_last_are_neighbours(text: str, zone: str, moment: datetime) -> None:
    schedule = cron(text, zone)
    before, after = schedule.last(moment), schedule.next(moment)
    assert before <= moment < after
    assert schedule.next(before) == after
    assert schedule.last(after) == after
    assert schedule.last(after - timedelta(microseconds=1)) == before
    assert schedule.count(before, after) == 1


@given(st.sampled_from([BERLIN, NEW_YORK]), st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_comes_once_on_every_day_of_a_year(zone: str, hour: int, minute: int) -> None:
    start, end = (utc_of(datetime(year, 1, 1), zone) for year in (2026, 2027))
    times = []
    for at in cron(f"{minute} {hour} * * *", zone).times(start - MINUTE):
        if at >= end:
            break
        times.append(at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)))
    assert len(times) == 365
    assert len({at.date() for at in times}) == 365
    odd = [at for at in times if (at.hour, at.minute) != (hour, minute)]
    assert len(odd) <= 1
    assert all((at.hour, at.minute) == (3, 0) for at in odd)


def utc_of(wall: datetime, zone: str) -> datetime:
    return wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)


@given(st.integers(1, 100_000), MOMENTS)
def test_all_schedulers_mean_the_same_times(seconds: int, moment: datetime) -> None:
    schedule = every(timedelta(seconds=seconds))
    at = schedule.next(moment)
    assert schedule.last(moment) <= moment < at
    assert (at - datetime(1970, 1, 1)) % timedelta(seconds=seconds) == timedelta(0)


@pytest.mark.parametrize(
    ("catch_up", "due"),
    [
        (CatchUp.ONE, Due(NOON, NOON, missed=11)),
        (CatchUp.ALL, Due(NOON - 55 * MINUTE, NOON - 55 * MINUTE)),
        (CatchUp.NONE, Due(None, NOON, missed=12)),
    ],
)
def test_an_hour_that_nobody_was_there_for(catch_up: CatchUp, due: Due) -> None:
    now = NOON + 2 * MINUTE
    assert find_due(every(5 * MINUTE, catch_up), NOON - HOUR, now) == due
    assert find_due(cron("*/5 * * * *", "UTC", catch_up), NOON - HOUR, now) == due


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_time_that_is_reached_within_the_minute_was_not_missed(catch_up: CatchUp) -> None:
    now = NOON + timedelta(seconds=50)
    assert find_due(every(5 * MINUTE, catch_up), NOON - 5 * MINUTE, now) == Due(NOON, NOON)
    assert find_due(every(5 * MINUTE, catch_up), NOON, now) == Due(None, NOON)


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_a_clock_that_is_set_back_an_hour_holds_nothing_up(catch_up: CatchUp) -> None:
    """What was dealt with lies in the future then, and would hold every time back until it comes again."""
    now = NOON - HOUR + timedelta(seconds=20)
    due = find_due(every(MINUTE, catch_up), NOON, now)
    assert due == Due(None, now)
    later = now + MINUTE
    assert find_due(every(MINUTE, catch_up), due.upto, later).tick == later - timedelta(seconds=20)


def test_clocks_that_differ_by_a_second_do_not_fire_twice() -> None:
    assert find_due(every(MINUTE), NOON, NOON - timedelta(seconds=1)) == Due(None, NOON)


def test_a_clock_that_is_set_forward_an_hour_is_an_hour_that_nobody_was_there_for() -> None:
    assert find_due(every(MINUTE), NOON, NOON + HOUR).missed == 59


def test_a_year_of_sleep_is_not_counted_minute_by_minute() -> None:
    assert find_due(cron("* * * * *"), NOON, NOON + timedelta(days=365)).missed == 9_999
    assert find_due(every(MINUTE), NOON, NOON + timedelta(days=365)).missed == 9_999
