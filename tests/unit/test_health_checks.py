"""The five checks of health, the page, and the block that says where they begin."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.workflows import FLOWS, load
from tests.unit.test_stats import run
from tidegauge.errors import ConfigError
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.model.alert import AlertKind
from tidegauge.model.delta_flow import DeltaFlow, DeltaInput, DeltaTable, TableRef
from tidegauge.model.health import (
    HealthCheck,
    HealthFinding,
    HealthLevel,
    HealthLimits,
    HealthReport,
    worst,
)
from tidegauge.model.mode import Mode
from tidegauge.model.position import VersionPosition
from tidegauge.model.run import HistoryEvent
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.observe.health_page import health_page
from tidegauge.operations.health import limits_of
from tidegauge.operations.health_checks import FlowFacts, check_flow, check_watermark_moved
from tidegauge.operations.health_data import judge, judge_aside, measures_of

NOW = datetime(2026, 3, 2, 12)
HOUR = timedelta(hours=1)
WELL = FlowFacts(NOW, NOW - HOUR, 100, 60.0, [run(seconds=10, rows=100) for _ in range(7)])
LIMITS = HealthLimits()


def unwell(facts: FlowFacts, limits: HealthLimits = LIMITS) -> list[tuple[str, str, str]]:
    found = [one for one in check_flow(facts, limits) if one.level is not HealthLevel.HEALTHY]
    return [(one.check.value, one.level.value, one.says) for one in found]


@pytest.mark.parametrize(
    ("age", "level", "word"),
    [
        (24 * HOUR - timedelta(seconds=1), "HEALTHY", "FRESH"),
        (24 * HOUR, "WARNING", "STALE"),
        (48 * HOUR - timedelta(seconds=1), "WARNING", "STALE"),
        (48 * HOUR, "CRITICAL", "VERY_STALE"),
    ],
)
def test_rows_are_fresh_stale_or_very_stale(age: timedelta, level: str, word: str) -> None:
    found = next(check_flow(replace(WELL, rows_at=NOW - age), LIMITS))
    assert (found.level.value, found.says.partition(":")[0]) == (level, word)


def test_a_flow_that_is_well_has_nothing_but_good_findings() -> None:
    assert unwell(WELL) == []
    assert {one.check for one in check_flow(WELL, LIMITS)} == {
        HealthCheck.FRESHNESS,
        HealthCheck.COUNTS,
        HealthCheck.PERFORMANCE,
    }


@pytest.mark.parametrize(
    ("facts", "finding"),
    [
        (
            replace(WELL, lag_seconds=73 * 3600.0),
            ("freshness", "WARNING", "its watermark is 73 h behind the clock"),
        ),
        (
            replace(WELL, rows_at=None),
            ("freshness", "WARNING", "no rows have reached the target yet"),
        ),
        (replace(WELL, rows=0), ("counts", "WARNING", "no row was ever written to the target")),
        (
            replace(WELL, runs=[run(seconds=10, rows=9), *WELL.runs]),
            ("counts", "WARNING", "9 rows in the last run, usually 100"),
        ),
        (
            replace(WELL, runs=[run(seconds=10, rows=1001), *WELL.runs]),
            ("counts", "WARNING", "1,001 rows in the last run, usually 100"),
        ),
        (
            replace(WELL, runs=[run(seconds=31, rows=100), *WELL.runs]),
            ("performance", "WARNING", "31.0 s in the last run, usually 10.0 s"),
        ),
        (
            replace(WELL, planned_at=NOW - 7 * HOUR),
            ("status", "CRITICAL", "stuck: a plan that was made 7 h ago is not done"),
        ),
    ],
)
def test_what_is_not_well_is_found(facts: FlowFacts, finding: tuple[str, str, str]) -> None:
    assert unwell(facts) == [finding]


def test_few_runs_and_quick_ones_are_not_compared() -> None:
    assert unwell(replace(WELL, runs=[run(seconds=90, rows=1), *WELL.runs[:4]])) == []
    quick = [run(seconds=0.1, rows=100) for _ in range(7)]
    assert unwell(replace(WELL, runs=[run(seconds=9, rows=100), *quick])) == []
    skipped = [run(state=State.SKIPPED, seconds=0, rows=0), run(state=State.FAILED, seconds=99, rows=0)]
    assert unwell(replace(WELL, runs=[*skipped, *WELL.runs])) == []


def test_a_ledger_that_was_rebuilt_says_nothing_of_rows_it_does_not_know() -> None:
    assert unwell(replace(WELL, rows_at=None, rows=None, runs=[])) == []


def test_the_worst_level_is_that_of_the_whole() -> None:
    assert worst([]) is HealthLevel.HEALTHY
    assert worst([HealthLevel.CRITICAL, HealthLevel.WARNING]) is HealthLevel.CRITICAL


def delta_flow(mode: Mode, *key: str) -> DeltaFlow:
    part = DeltaInput("rows", TableRef(path="/in"))
    return DeltaFlow("p", "f", (part,), DeltaTable(TableRef(path="/out"), mode, key))


def test_what_is_counted_follows_the_mode() -> None:
    assert list(measures_of(delta_flow(Mode.APPEND))) == ["rows"]
    assert measures_of(delta_flow(Mode.MERGE, "a", "b`c")) == {
        "rows": "count(*)",
        "rows with a NULL in the key": "count_if(`a` IS NULL OR `b``c` IS NULL)",
        "rows whose key is there twice": "count(*) - count(DISTINCT struct(`a`, `b``c`))",
    }
    assert list(measures_of(delta_flow(Mode.SCD2, "a"))) == [
        "rows",
        "rows with a NULL in the key",
        "rows whose key is there twice",
        "keys with two current rows",
        "rows that end before they begin",
    ]


def test_counts_are_judged() -> None:
    empty, fine = judge({"rows": 0, "rows with a NULL in the key": 0})
    assert (empty.level, empty.says, fine.level) == (
        HealthLevel.WARNING,
        "the table is empty",
        HealthLevel.HEALTHY,
    )
    _, wrong = judge({"rows": 5, "rows with a NULL in the key": 2})
    assert (wrong.check, wrong.level) == (HealthCheck.QUALITY, HealthLevel.CRITICAL)
    assert wrong.says == "2 rows with a NULL in the key"


def test_rows_set_aside_are_a_warning() -> None:
    assert list(judge_aside(QuarantineSummary("f", "/q", 0, {}))) == []
    [found] = judge_aside(QuarantineSummary("f", "/q", 3, {"owner_known": 2, "workers": 1}))
    assert (found.check, found.level) == (HealthCheck.QUALITY, HealthLevel.WARNING)
    assert found.says.startswith("3 rows are set aside (owner_known 2, workers 1)")


def test_limits_come_from_the_file_and_from_overrides(tmp_path: Path) -> None:
    block = "health: {fresh: 2h, slower: 5, override: {'tag:gold': {stale: 30d}, 'silver_*': {fresh: 1h}}}\n"
    project = load(tmp_path, FLOWS + block)
    limits = {flow.name: limits_of(project, flow) for flow in project.delta_flows}
    plain = replace(LIMITS, fresh=2 * HOUR, slower=5.0)
    assert limits["bronze_usage"] == plain
    assert limits["gold_usage"] == replace(plain, stale=timedelta(days=30))
    assert limits["silver_usage"] == replace(plain, fresh=HOUR)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{fresh: soon}", "is not a duration"),
        ("{slower: fast}", "`fast` is not a multiple"),
        ("{fewer: 0}", "`0` is not a multiple"),
        ("{fresh: 3d}", "`stale` ends before `fresh` does"),
        ("{override: {x: {stale: 1h}}}", "`stale` ends before `fresh` does"),
        ("{override: {x: {fresher: 1h}}}", "unknown key `fresher`"),
        ("{override: {x: 3}}", "must be a mapping"),
    ],
)
def test_limits_that_cannot_be_are_refused(tmp_path: Path, block: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{FLOWS}health: {block}\n")
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.line == 6


def test_the_page_needs_nothing_else_and_shows_every_flow() -> None:
    bad = HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, "<script>alert(1)</script>")
    flows = [
        HealthReport("silver", "silver", "SUCCESS", HealthLevel.HEALTHY, (), (1.0, 2.0), (0, 0)),
        HealthReport("a<b", "", "FAILED", HealthLevel.CRITICAL, (bad,)),
    ]
    page = health_page("shop & co", NOW, flows)
    assert "<title>shop &amp; co: CRITICAL</title>" in page
    assert "a&lt;b" in page
    assert "<script" not in page
    assert not re.search(r"https?://|src=|@import|url\(", page)
    assert page.count("<rect") == 4
    assert health_page("empty", NOW, []).startswith("<!doctype html>")


def test_a_lag_beyond_its_target_is_critical_and_without_one_a_warning() -> None:
    late = replace(WELL, lag_seconds=4 * 86400.0)
    assert [level for _, level, _ in unwell(late)] == ["WARNING"]
    [(check, level, says)] = unwell(late, replace(LIMITS, lag=2 * HOUR))
    assert (check, level) == ("freshness", "CRITICAL")
    assert says == "its watermark is 96 h behind the clock, and 2 h is the target"
    assert unwell(replace(WELL, lag_seconds=7200.0), replace(LIMITS, lag=2 * HOUR)) == []


def test_rows_not_as_expected_are_named_for_a_day() -> None:
    said = [(NOW - HOUR, "batch 7: a bad one"), (NOW - 5 * HOUR, "batch 6"), (NOW - 30 * HOUR, "batch 1")]
    [(check, level, says)] = unwell(replace(WELL, not_as_expected=said))
    assert (check, level) == ("quality", "WARNING")
    assert says == "rows not as expected in 2 batches of the last 24 h, the last time: batch 7: a bad one"
    assert unwell(replace(WELL, not_as_expected=said[2:])) == []


def moved(event: str, after: int | None, name: str = "rows") -> HistoryEvent:
    position = None if after is None else VersionPosition(after)
    return HistoryEvent(NOW, "shop", "f", None, event, "me", None, None, position, None, input=name)


@pytest.mark.parametrize(
    ("events", "odd"),
    [
        ([moved("advanced", 5)], False),
        ([moved("advanced", 7)], True),
        ([moved("advanced", 3)], True),
        ([moved("planned", 9), moved("advanced", 5)], False),
        ([moved("forgotten", None), moved("advanced", 7)], False),
        ([moved("advanced", 7, "other")], False),
        ([], False),
    ],
    ids=["there", "back", "ahead", "planned since", "by hand", "another input", "no events"],
)
def test_a_watermark_that_no_batch_and_no_override_put_there_is_regressed(
    events: list[HistoryEvent], odd: bool
) -> None:
    mark = Watermark("shop", "f", "rows", "version", VersionPosition(5), None, 0, 1, None, None, NOW)
    found = list(check_watermark_moved([mark], events))
    assert [one.alert for one in found] == ([AlertKind.REGRESSED] if odd else [])
