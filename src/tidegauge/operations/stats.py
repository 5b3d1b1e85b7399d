"""Statistics of the ledger's runs, by flow or by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from statistics import fmean, median
from typing import Any

from tidegauge.ledger.open import open_ledger
from tidegauge.model.run import RunRecord
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.operations.status import selects, summarize_flows

_ENDS = (State.SUCCESS, State.SKIPPED, State.FAILED)


@dataclass(frozen=True)
class FlowStats:
    flow: str
    runs: int
    """Number of ended runs: successful, with nothing new, or failed."""
    failures: int
    error_rate: float
    rows: int
    """Number of rows written by all runs."""
    median_seconds: float | None
    """Median duration of the successful runs that had something to do; None: there were none."""
    last_seconds: float | None
    last_run: datetime
    lag_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "last_run": f"{self.last_run.isoformat(timespec='microseconds')}Z"}


@dataclass(frozen=True)
class DayStats:
    """A day's runs, with the column names of the usual query on a hand-made control table."""

    sync_date: date
    total_runs: int
    success_count: int
    failed_count: int
    total_inserted: int | None
    total_updated: int | None
    """Number of updated rows; like `total_inserted` None if no run of the day knows its count."""
    avg_duration_sec: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "sync_date": self.sync_date.isoformat()}


def collect_flow_stats(project: Project, selection: Sequence[str], span: timedelta) -> list[FlowStats]:
    """Return statistics of the flows that ran in this time span, in name order."""
    now, flows = summarize_flows(project, selection)
    lags = {one.flow: one.lag_seconds for one in flows}
    return add_up_flows(_runs(project, selection, now - span), lags)


def collect_daily_stats(project: Project, selection: Sequence[str], span: timedelta) -> list[DayStats]:
    """Return statistics by whole days in UTC, including today, newest first."""
    with open_ledger(project.ledger, create=False) as ledger:
        now = ledger.now()
    first = (now - span + timedelta(days=1)).date()
    return add_up_days(_runs(project, selection, datetime(first.year, first.month, first.day)))


def add_up_flows(runs: Iterable[RunRecord], lags: dict[str, float | None]) -> list[FlowStats]:
    """Add up runs by flow; the runs of each flow must come newest first."""
    by_flow: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.state in _ENDS:
            by_flow.setdefault(run.flow, []).append(run)
    return [_one(flow, found, lags.get(flow)) for flow, found in sorted(by_flow.items())]


def add_up_days(runs: Iterable[RunRecord]) -> list[DayStats]:
    by_day: dict[date, list[RunRecord]] = {}
    for run in runs:
        if run.state in _ENDS:
            by_day.setdefault(run.started_at.date(), []).append(run)
    return [_add_up_day(day, by_day[day]) for day in sorted(by_day, reverse=True)]


def seconds_of(run: RunRecord) -> float | None:
    return None if run.ended_at is None else max((run.ended_at - run.started_at).total_seconds(), 0.0)


def _one(flow: str, runs: Sequence[RunRecord], lag: float | None) -> FlowStats:
    failures = sum(run.state is State.FAILED for run in runs)
    seconds = [took for run in runs if run.state is State.SUCCESS and (took := seconds_of(run)) is not None]
    return FlowStats(
        flow=flow,
        runs=len(runs),
        failures=failures,
        error_rate=round(failures / len(runs), 4),
        rows=sum(run.rows_written for run in runs),
        median_seconds=round(median(seconds), 3) if seconds else None,
        last_seconds=round(seconds[0], 3) if seconds else None,
        last_run=runs[0].started_at,
        lag_seconds=lag,
    )


def _add_up_day(day: date, runs: Sequence[RunRecord]) -> DayStats:
    seconds = [took for run in runs if (took := seconds_of(run)) is not None]
    failed = sum(run.state is State.FAILED for run in runs)
    return DayStats(
        sync_date=day,
        total_runs=len(runs),
        success_count=len(runs) - failed,
        failed_count=failed,
        total_inserted=_sum_known(run.rows_inserted for run in runs),
        total_updated=_sum_known(run.rows_updated for run in runs),
        avg_duration_sec=round(fmean(seconds), 3) if seconds else None,
    )


def _sum_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _runs(project: Project, selection: Sequence[str], since: datetime) -> list[RunRecord]:
    with open_ledger(project.ledger, create=False) as ledger:
        found = ledger.runs(project.pipeline, since=since)
    return [run for run in found if selects(project, run.flow, selection)]
