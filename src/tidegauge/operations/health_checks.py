"""The five checks of a flow's health, over what the ledger knows of it. Pure."""

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
"""Earlier runs, before one is compared with their median."""
_UNKNOWN = "not known: no batch was written since the ledger was rebuilt"
_QUICK = 10.0
"""Seconds: a run that is done by then is never called slow."""


@dataclass(frozen=True)
class FlowFacts:
    """What the ledger shows of a flow that has run."""

    now: datetime
    rows_at: datetime | None
    """When rows last reached the target; None: never."""
    rows: int | None
    """Written since the flow was last reset; None: the ledger was rebuilt since, and does not know."""
    lag_seconds: float | None
    runs: Sequence[RunRecord] = ()
    """Newest first."""
    planned_at: datetime | None = None
    """Of the plan that is not done yet."""
    rows_waiting: int = 0
    """Rows dated past the source's clock, as of the last look at it."""
    not_as_expected: Sequence[tuple[datetime, str]] = ()
    """When rows failed an expectation, and what was said of it; newest first."""


def check_tracker(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    """Of a pipeline that somebody's own job runs, which need not say how many rows it moved."""
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
    """The rows of the last run that had something to do, against those before it."""
    if facts.rows is None:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, _UNKNOWN)
    if not facts.rows:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.WARNING, "no row was ever written to the target")
    counts = [run.rows_written for run in facts.runs if run.state is State.SUCCESS]
    usual = _usual(counts)
    if usual is None:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, f"{facts.rows:,} rows written in all")
    says = f"{counts[0]:,} rows in the last run, usually {usual:,.0f}"
    odd = not limits.fewer * usual <= counts[0] <= limits.more * usual
    if odd:
        return HealthFinding(HealthCheck.COUNTS, HealthLevel.WARNING, says, AlertKind.REGRESSED)
    return HealthFinding(HealthCheck.COUNTS, HealthLevel.HEALTHY, says)


def check_expectations(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    """Rows that failed one of late; what is set aside in all, `--data` says."""
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
    usual = _usual(took)
    says = f"{took[0]:.1f} s in the last run" + ("" if usual is None else f", usually {usual:.1f} s")
    slow = usual is not None and took[0] > _QUICK and took[0] > limits.slower * usual
    return HealthFinding(HealthCheck.PERFORMANCE, HealthLevel.WARNING if slow else HealthLevel.HEALTHY, says)


def check_stuck(facts: FlowFacts, limits: HealthLimits) -> Iterator[HealthFinding]:
    if facts.planned_at is not None and facts.now - facts.planned_at > limits.stuck:
        age = _hours((facts.now - facts.planned_at).total_seconds())
        says = f"stuck: a plan that was made {age} ago is not done"
        yield HealthFinding(HealthCheck.STATUS, HealthLevel.CRITICAL, says, AlertKind.STUCK)


def check_watermark_moved(
    marks: Sequence[Watermark], events: Sequence[HistoryEvent]
) -> Iterator[HealthFinding]:
    """A watermark that is not where the flow's last batch left it, though no override moved it.

    The events come newest first. Whatever else moves a watermark leaves an event of its own.
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


def _usual(values: Sequence[float]) -> float | None:
    """The median of all but the newest; None: there are too few."""
    return median(values[1:]) if len(values) > _ENOUGH else None


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
