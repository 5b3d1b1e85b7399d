"""Schedules of five fields, and the same for Quartz."""

from __future__ import annotations

import pytest

from tidegauge.errors import ConfigError
from tidegauge.model.cron import parse_cron


@pytest.mark.parametrize(
    ("cron", "quartz"),
    [
        ("30 5 * * *", "0 30 5 * * ?"),
        ("*/15 * * * *", "0 0/15 * * * ?"),
        ("0 */7 * * *", "0 0 0/7 * * ?"),
        ("0 0 1 * *", "0 0 0 1 * ?"),
        ("0 0 1,15 */3 *", "0 0 0 1,15 1/3 ?"),
        ("0 8-18/2 * * 1-5", "0 0 8,10,12,14,16,18 ? * MON,TUE,WED,THU,FRI"),
        ("0 8-18 * jan-mar,DEC *", "0 0 8-18 * 1-3,12 ?"),
        ("0 0 * * 0", "0 0 0 ? * SUN"),
        ("0 0 * * 7", "0 0 0 ? * SUN"),
        ("0 0 * * sun", "0 0 0 ? * SUN"),
        ("0 0 * * 5-7", "0 0 0 ? * SUN,FRI,SAT"),
        ("0 0 * * */2", "0 0 0 ? * SUN,TUE,THU,SAT"),
        ("0 0 1 * 0-7", "0 0 0 1 * ?"),
        ("0 0 29 2 *", "0 0 0 29 2 ?"),
        ("  5   4 * * * ", "0 5 4 * * ?"),
    ],
)
def test_a_schedule_means_the_same_in_quartz(cron: str, quartz: str) -> None:
    assert parse_cron(cron).to_quartz() == quartz


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("30 5 * *", "4 fields"),
        ("0 30 5 * * ?", "6 fields"),
        ("@daily", "1 fields"),
        ("60 5 * * *", "`60` is no minute"),
        ("0 24 * * *", "`24` is no hour"),
        ("0 0 0 * *", "`0` is no day of the month"),
        ("0 0 * 13 *", "`13` is no month"),
        ("0 0 * * 8", "`8` is no day of the week"),
        ("0 0 ? * 1", r"`\?` is no day of the month"),
        ("0 0 L * *", "`L` is no day of the month"),
        ("0 0 * * mon#1", "`mon#1` is no day of the week"),
        ("*/0 * * * *", "the step"),
        ("5/15 * * * *", "the step"),
        ("0 18-8 * * *", "backwards"),
        ("0,,5 * * * *", "`` is no minute"),
        ("-5 * * * *", "`-5` is no minute"),
        ("0 0 30 2 *", "never be due"),
        ("0 0 31 4,6,9,11 *", "never be due"),
    ],
)
def test_what_is_no_schedule_is_refused(cron: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse_cron(cron)
    assert "30 5 * * *" in str(caught.value.hint)


def test_a_day_that_no_month_has_may_stand_beside_days_of_the_week() -> None:
    assert parse_cron("0 0 30 2 1").weekdays == {1}


def test_days_of_both_kinds_cannot_be_said_in_quartz() -> None:
    with pytest.raises(ConfigError, match="Quartz cannot express"):
        parse_cron("0 0 1 * 1").to_quartz()
