"""The five checks of a flow's health, from what the ledger knows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from tidegauge.model.alert import AlertKind
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel, HealthLimits
from tidegauge.model.pending import describe_waiting
from tidegauge.model.position import Position, to_text
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.operations.stats import seconds_of

_ENOUGH = 5
"""A run is compared with the median of earlier runs only if there are at least this many."""
_UNKNOWN = "not known: no batch was written since the ledger was rebuilt"
_QUICK = 10.0
"""Seconds: a run that takes no longer never counts as slow."""


@dataclass(frozen=True)
class FlowFacts:
    """What the ledger knows about a flow that has run, or has a plan."""

    now: datetime
    rows_at: datetime | None
    """When rows last reached the target; None: never."""
    rows: int | None
    """Number of rows written since the last reset; None: not known, because the ledger was rebuilt since."""
    lag_seconds: float | None
    runs: Sequence[RunRecord] = ()
    """The flow's runs, newest first."""
    planned_at: datetime | None = None
    """When the unfinished plan was made; None: there is none."""
    rows_waiting: int = 0
    """Number of rows dated past the source's clock, when it was last looked at."""
    not_as_expected: Sequence[tuple[datetime, str]] = ()
    """Time and description of each time that rows failed an expectation, newest first."""


def check_tracker(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    """Check a tracker's pipeline, whose job need not report how many rows it moved."""
    yield check_freshness(facts, limits)
    yield from _check_watermark(facts, limits)
    yield check_performance(facts, limits)
    yield from check_stuck(facts, limits)


def check_flow(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    yield check_freshness(facts, limits)
    yield from _check_watermark(facts, limits)
    yield check_counts(facts, limits)
    yield from check_expectations(facts, limits)
    if facts.rows_waiting:
        yield HealthFinding(HealthCheck.QUALITY, HealthLevel.WARNING, describe_waiting(facts.rows_waiting))
    yield check_performance(facts, limits)
    yield from check_stuck(facts, limits)


def check_freshness(facts: FlowFacts, limits: HealthLimits) -> HealthFinding:
    if facts.rows_at is None and facts.rows is None:
        return HealthFinding(HealthCheck.FRESHNESS, HealthLevel.HEALTHY, _UNKNOWN)
    if facts.rows_at is None:
        return HealthFinding(
            HealthCheck.FRESHNESS, HealthLevel.WARNING, "no rows have reached the target yet"
        )
    age = facts.now - facts.rows_at
    says = f"rows last came {_hours(age.total_seconds())} ago"
    if age < limits.fresh:
        return HealthFinding(HealthCheck.FRESHNESS, HealthLevel.HEALTHY, f"FRESH: {says}")
    if age < limits.stale:
        return HealthFinding(HealthCheck.FRESHNESS, HealthLevel.WARNING, f"STALE: {says}")
    return HealthFinding(HealthCheck.FRESHNESS, HealthLevel.CRITICAL, f"VERY_STALE: {says}", AlertKind.LATE)


def _check_watermark(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    if facts.lag_seconds is not None and limits.lag and facts.lag_seconds > limits.lag.total_seconds():
        target = _hours(limits.lag.total_seconds())
        says = f"its watermark is {_hours(facts.lag_seconds)} behind the clock, and {target} is the target"
        yield HealthFinding(HealthCheck.FRESHNESS, HealthLevel.CRITICAL, says, AlertKind.LATE)
    elif facts.lag_seconds is not None and facts.lag_seconds > limits.watermark.total_seconds():
        says = f"its watermark is {_hours(facts.lag_seconds)} behind the clock"
        yield HealthFinding(HealthCheck.FRESHNESS, HealthLevel.WARNING, says, AlertKind.LATE)


def check_counts(facts: FlowFacts, limits: HealthLimits) -> HealthFinding:
    """Compare the row count of the last successful run with those before it."""
    if facts.rows is None:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, _UNKNOWN)
    if not facts.rows:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.WARNING, "no row was ever written to the target")
    counts = [run.rows_written for run in facts.runs if run.state is State.SUCCESS]
    usual = _find_usual(counts)
    if usual is None:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, f"{facts.rows:,} rows written in all")
    says = f"{counts[0]:,} rows in the last run, usually {usual:,.0f}"
    odd = not limits.fewer * usual <= counts[0] <= limits.more * usual
    if odd:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.WARNING, says, AlertKind.REGRESSED)
    return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, says)


def check_expectations(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    """Report rows that failed an expectation recently; only `--data` counts all that are quarantined."""
    since = [said for at, said in facts.not_as_expected if facts.now - at < limits.fresh]
    if since:
        batches = f"{len(since)} batches" if len(since) > 1 else "a batch"
        says = f"in {batches} of the last {_hours(limits.fresh.total_seconds())}, the last time: {since[0]}"
        yield HealthFinding(HealthCheck.QUALITY, HealthLevel.WARNING, f"rows not as expected {says}")


def check_performance(facts: FlowFacts, limits: HealthLimits) -> HealthFinding:
    took = [
        seconds
        for run in facts.runs
        if run.state is State.SUCCESS and (seconds := seconds_of(run)) is not None
    ]
    if not took:
        return HealthFinding(HealthCheck.PERFORMANCE, HealthLevel.HEALTHY, "no run to measure")
    usual = _find_usual(took)
    says = f"{took[0]:.1f} s in the last run" + ("" if usual is None else f", usually {usual:.1f} s")
    slow = usual is not None and took[0] > _QUICK and took[0] > limits.slower * usual
    return HealthFinding(HealthCheck.PERFORMANCE, HealthLevel.WARNING if slow else HealthLevel.HEALTHY, says)


def check_stuck(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    if facts.planned_at is not None and limits.is_stuck(facts.planned_at, facts.now):
        age = _hours((facts.now - facts.planned_at).total_seconds())
        says = f"stuck: a plan that was made {age} ago is not done"
        yield HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, says, AlertKind.STUCK)


def check_watermark_moved(
    marks: Sequence[Watermark], events: Sequence[HistoryEvent]
) -> Iterator[HealthFinding]:
    """Find watermarks that are not where the flow's last batch left them, though no override moved them.

    `events` are newest first. Everything else that moves a watermark leaves an event of its own.
    """
    for mark in marks:
        moved = (one for one in events if one.input == mark.input and one.event != "planned")
        last = next(moved, None)
        if last is not None and last.event == "advanced" and last.after != mark.position:
            says = (
                f"the watermark of {mark.input} is at {_place(mark.position)}, and its last batch left it at"
                f" {_place(last.after)}: the ledger was changed or is an older copy"
            )
            yield HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, says, AlertKind.REGRESSED)


def _place(position: Position | None) -> str:
    return "the beginning" if position is None else to_text(position)


def _find_usual(values: Sequence[float]) -> float | None:
    """Return the median of all values but the first, the newest; None: there are too few."""
    return median(values[1:]) if len(values) > _ENOUGH else None


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
