"""The metrics of a project's flows, from its ledger alone. Asks no source and starts no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from tidegauge.errors import TidegaugeError
from tidegauge.ledger.open import open_ledger
from tidegauge.model.expectation import NOT_AS_EXPECTED
from tidegauge.model.position import to_moment
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.observe.metrics import Sample, push_metrics
from tidegauge.operations.alerts import list_incidents
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import is_hidden, lag_of

_KINDS = ("read", "written", "inserted", "updated", "deleted")


def collect_metrics(project: Project) -> list[Sample]:
    """Collect all metrics. Raises what the ledger raises."""
    pipeline = project.pipeline
    with open_ledger(project.ledger, create=False) as ledger:
        found = [Sample("tidegauge_up", {"pipeline": pipeline}, 1.0), *_read(ledger, pipeline)]
    for incident in list_incidents(project):
        labels = {"pipeline": pipeline, "flow": incident.flow, "kind": incident.kind.value}
        found.append(Sample("tidegauge_open_incidents", labels, 1.0))
    return found


def collect_or_down(project: Project) -> list[Sample]:
    """Collect all metrics for a server: if the ledger cannot be read, only `tidegauge_up`, which is 0."""
    try:
        return collect_metrics(project)
    except TidegaugeError:
        return [Sample("tidegauge_up", {"pipeline": project.pipeline}, 0.0)]


def push(project: Project) -> str | None:
    """Push the metrics, if the project asks for it. Return why that failed, or None. Never raises."""
    settings = project.telemetry.metrics
    if settings is None or settings.push is None:
        return None
    try:
        push_metrics(settings.push, project.pipeline, collect_metrics(project))
    except TidegaugeError as error:
        return error.message
    except Exception as error:  # a bug here must not fail the run
        return f"unexpected {type(error).__name__}: {error}"
    return None


def _read(ledger: LedgerReader, pipeline: str) -> Iterator[Sample]:
    now = ledger.now()
    marks: dict[str, list[Watermark]] = {}
    for mark in ledger.watermarks(pipeline):
        marks.setdefault(mark.flow, []).append(mark)
    statuses = [one for one in ledger.status(pipeline) if not is_hidden(one, marks.get(one.flow, ()))]
    for status in statuses:
        yield from _sample_status(status, marks.get(status.flow, []), now)
    for flow, tally in ledger.tallies(pipeline, [one.flow for one in statuses]).items():
        yield Sample("tidegauge_run_seconds", {"pipeline": pipeline, "flow": flow}, tally.seconds)
    yield from _sample_totals(ledger, pipeline, {one.flow for one in statuses})
    yield from _sample_events(ledger, pipeline, {one.flow for one in statuses})


def _sample_status(status: FlowStatus, marks: list[Watermark], now: datetime) -> Iterator[Sample]:
    labels = {"pipeline": status.pipeline, "flow": status.flow}
    yield Sample("tidegauge_state", {**labels, "state": status.shown_state.value}, 1.0)
    if status.last_run is not None:
        yield from _sample_last_run(status.last_run, labels)
    lags = [lag for mark in marks if (lag := lag_of(mark, now)) is not None]
    if lags:
        yield Sample("tidegauge_lag_seconds", labels, max(lags))
    for mark in marks:
        moment = to_moment(mark.position, mark.cursor, mark.stamp)
        if moment is not None:
            age = max((now - moment).total_seconds(), 0.0)
            yield Sample("tidegauge_watermark_age_seconds", {**labels, "input": mark.input}, age)
    if status.planned_at is not None:
        age = max((now - status.planned_at).total_seconds(), 0.0)
        yield Sample("tidegauge_plan_age_seconds", labels, age)


def _sample_last_run(run: RunRecord, labels: dict[str, str]) -> Iterator[Sample]:
    seconds = seconds_of(run)
    if seconds is None or run.ended_at is None:
        return  # still running
    yield Sample("tidegauge_last_run_seconds", labels, seconds)
    yield Sample("tidegauge_last_run_failed", labels, float(run.state is State.FAILED))
    ended = run.ended_at.replace(tzinfo=UTC).timestamp()
    yield Sample("tidegauge_last_run_timestamp_seconds", labels, ended)
    for kind in _KINDS:
        count = getattr(run, f"rows_{kind}")
        if count is not None:
            yield Sample("tidegauge_last_run_rows", {**labels, "kind": kind}, count)


def _sample_totals(ledger: LedgerReader, pipeline: str, flows: set[str]) -> Iterator[Sample]:
    failures, batches = Counter(dict.fromkeys(flows, 0)), Counter(dict.fromkeys(flows, 0))
    rows: Counter[tuple[str, str]] = Counter({(flow, kind): 0 for flow in flows for kind in _KINDS})
    for one in ledger.run_totals(pipeline):
        if one.flow not in flows:
            continue
        labels = {"pipeline": pipeline, "flow": one.flow}
        yield Sample("tidegauge_runs", {**labels, "state": one.state.value}, one.runs)
        failures[one.flow] += one.runs if one.state is State.FAILED else 0
        batches[one.flow] += one.batches
        for kind in _KINDS:
            rows[one.flow, kind] += getattr(one, f"rows_{kind}")
    for flow in sorted(flows):
        labels = {"pipeline": pipeline, "flow": flow}
        yield Sample("tidegauge_failures", labels, failures[flow])
        yield Sample("tidegauge_batches", labels, batches[flow])
        for kind in _KINDS:
            yield Sample("tidegauge_rows", {**labels, "kind": kind}, rows[flow, kind])


def _sample_events(ledger: LedgerReader, pipeline: str, flows: set[str]) -> Iterator[Sample]:
    events: Counter[str] = Counter()
    aside = Counter(dict.fromkeys(flows, 0))
    for one in ledger.event_totals(pipeline):
        events[one.event] += one.events
        if one.event == NOT_AS_EXPECTED and one.flow in flows:
            aside[one.flow] += one.rows
    for flow in sorted(flows):
        labels = {"pipeline": pipeline, "flow": flow}
        yield Sample("tidegauge_quarantined_rows", labels, aside[flow])
    for event, count in sorted(events.items()):
        yield Sample("tidegauge_ledger_events", {"pipeline": pipeline, "event": event}, count)
