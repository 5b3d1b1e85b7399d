"""What `health` says of a pipeline as a whole."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.support.drafts import ME
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel
from tidegauge.model.schedule import Every, FlowSchedule
from tidegauge.model.ticks import ScheduleTicks
from tidegauge.observe.health_page import health_page
from tidegauge.operations.health_pipeline import check_ledger_size, check_missed

NOON = datetime(2026, 1, 1, 12)
HOURLY = FlowSchedule(Every(timedelta(hours=1)), "every 1 hour")


def missed(ticks: ScheduleTicks | None, now: datetime) -> HealthFinding:
    [found] = check_missed(HOURLY, ticks, now, 3)
    assert found.check is HealthCheck.SCHEDULE
    return found


@pytest.mark.parametrize(
    ("minutes", "level", "says"),
    [
        (0, HealthLevel.HEALTHY, "every time was dealt with"),
        (62, HealthLevel.HEALTHY, "every time was dealt with"),
        (64, HealthLevel.WARNING, "1 time since 2026-01-01 12:00 UTC"),
        (130, HealthLevel.WARNING, "2 times"),
        (184, HealthLevel.CRITICAL, "3 times"),
        (10**6, HealthLevel.CRITICAL, "more than 1,000 times"),
    ],
)
def test_times_that_nobody_ran_for_are_counted_since_the_last_that_was_dealt_with(
    minutes: int, level: HealthLevel, says: str
) -> None:
    found = missed(ScheduleTicks(NOON, ran=1), NOON + timedelta(minutes=minutes))
    assert (found.level, says in found.says) == (level, True), found


def test_a_long_run_misses_nothing_and_a_schedule_that_nobody_runs_is_said() -> None:
    long = ScheduleTicks(NOON, runner=ME, ran=1)
    assert missed(long, NOON + timedelta(days=1)).level is HealthLevel.HEALTHY
    assert missed(None, NOON).level is HealthLevel.WARNING
    assert "4 were missed before" in missed(ScheduleTicks(NOON, missed=4), NOON).says


def test_a_ledger_that_nobody_prunes_is_a_warning_with_the_command() -> None:
    assert check_ledger_size(10, 10).level is HealthLevel.HEALTHY
    found = check_ledger_size(11, 10)
    assert (found.level, "ledger prune" in found.says) == (HealthLevel.WARNING, True)


def test_the_page_shows_the_pipeline_before_its_flows() -> None:
    page = health_page("shop", NOON, [], [check_ledger_size(11, 10)])
    assert "ledger size" in page
    assert "<title>shop: WARNING</title>" in page
