"""How long a Delta table keeps what was not read yet, and what a vacuum would take from a reader."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegauge.errors import SourceError
from tidegauge.flows.maintenance.vacuum_needs import VacuumCommit, VacuumConsumer, find_needed_files
from tidegauge.model.retention import (
    FILE_RETENTION,
    LOG_RETENTION,
    parse_interval,
    retention,
    shown,
    time_left,
    unread,
)
from tidegauge.model.versions import DeltaHistory, Version

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("interval 7 days", 7 * DAY),
        ("interval 168 hours", 7 * DAY),
        ("INTERVAL '1' WEEK", 7 * DAY),
        ("1 week 2 days 3 hours", 9 * DAY + 3 * HOUR),
        ("interval 2 days, 1 hour", 2 * DAY + HOUR),
        ("calendar interval 30 days", 30 * DAY),
        ("interval 90 minutes", 1.5 * HOUR),
        ("interval 1.5 seconds", timedelta(milliseconds=1500)),
        ("interval 0 hours", timedelta(0)),
        ("interval 2 days -1 hours", 2 * DAY - HOUR),
        ("interval 1 month", 30 * DAY),
    ],
)
def test_an_interval_is_read_as_spark_writes_it(text: str, meant: timedelta) -> None:
    assert parse_interval(text) == meant


@pytest.mark.parametrize(
    "text", ["", "interval", "7", "seven days", "interval 7 fortnights", "interval 1.5 days"]
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="not an interval"):
        parse_interval(text)


def test_a_table_that_says_nothing_has_deltas_own_values() -> None:
    assert retention({}, LOG_RETENTION) == 30 * DAY
    assert retention({}, FILE_RETENTION) == 7 * DAY
    assert retention({FILE_RETENTION: "interval 30 days"}, FILE_RETENTION) == 30 * DAY


@pytest.mark.parametrize(
    ("age", "near", "over"), [(3 * DAY, False, False), (4 * DAY, True, False), (7 * DAY, True, True)]
)
def test_c1_a_version_not_read_is_near_its_end_from_half_the_time_on(
    age: timedelta, near: bool, over: bool
) -> None:
    left = time_left(8, NOW - age, {}, NOW)
    assert (left.is_near, left.is_over, left.setting) == (near, over, FILE_RETENTION)
    assert (left.note is None) is not near
    if over:
        assert "may vanish any time" in str(left.note)


def test_the_retention_that_ends_first_counts() -> None:
    properties = {FILE_RETENTION: "interval 60 days", LOG_RETENTION: "interval 10 days"}
    left = time_left(8, (NOW - 9 * DAY).replace(tzinfo=None), properties, NOW.replace(tzinfo=None))
    assert (left.setting, left.left, left.kept) == (LOG_RETENTION, DAY, 10 * DAY)
    assert left.note == (
        "version 8, not read yet, is 9 days old; it may vanish in 1 day"
        " (delta.logRetentionDuration is 10 days)"
    )


def test_a_version_that_changed_nothing_is_not_waited_for() -> None:
    def version(number: int, *, changes: bool) -> Version:
        return Version(number, NOW - (10 - number) * DAY, changes, True, 0, True, "d", "t")

    history = DeltaHistory(
        "/t", "t", 9, NOW, "d", "", 0, NOW, 3, tuple(version(n, changes=n in (5, 8)) for n in range(4, 10))
    )
    assert unread(history, 3, NOW) == time_left(5, NOW - 5 * DAY, {}, NOW)
    assert unread(history, 5, NOW) == time_left(8, NOW - 2 * DAY, {}, NOW)
    assert unread(history, 8, NOW) is None


def test_a_span_is_shown_in_its_two_largest_units() -> None:
    assert shown(3 * DAY + 4 * HOUR + timedelta(minutes=5)) == "3 days 4 hours"
    assert shown(timedelta(seconds=61)) == "1 minute 1 second"
    assert shown(timedelta(seconds=-1)) == "0 seconds"


def reader(after: int) -> VacuumConsumer:
    return VacuumConsumer("silver", "orders", after, f"its watermark is version {after}")


OLD = [
    VacuumCommit(4, removed=NOW - 20 * DAY),
    VacuumCommit(5),
    VacuumCommit(6, feed=NOW - 9 * DAY),
    VacuumCommit(7, removed=NOW - 2 * DAY, feed=NOW - 2 * DAY),
]


@pytest.mark.parametrize(("after", "lost"), [(3, 4), (4, 6), (5, 6), (6, None), (7, None), (9, None)])
def test_c1_a_vacuum_takes_nothing_that_a_reader_behind_still_needs(after: int, lost: int | None) -> None:
    found = find_needed_files([reader(after)], OLD, retain=7 * DAY, own=7 * DAY, now=NOW)
    assert [need.version for need in found] == ([] if lost is None else [lost])
    for need in found:
        assert f"its watermark is version {after}" in need.text
        assert f"from {after + 1} on" in need.text


def test_c1_keeping_more_helps_the_feed_but_not_what_delta_has_forgotten() -> None:
    def lost(after: int, retain: timedelta, own: timedelta) -> list[int]:
        return [
            need.version for need in find_needed_files([reader(after)], OLD, retain=retain, own=own, now=NOW)
        ]

    assert lost(4, 10 * DAY, 7 * DAY) == []
    assert lost(3, 30 * DAY, 7 * DAY) == [4]
    assert lost(3, 30 * DAY, 30 * DAY) == []
    assert lost(6, timedelta(0), 7 * DAY) == [7]


def test_every_reader_is_asked_and_none_is_enough_to_go_on() -> None:
    found = find_needed_files([reader(9), reader(5), reader(3)], OLD, retain=7 * DAY, own=7 * DAY, now=NOW)
    assert [(need.reader.after, need.version) for need in found] == [(5, 6), (3, 4)]
    assert find_needed_files([], OLD, retain=timedelta(0), own=7 * DAY, now=NOW) == []
