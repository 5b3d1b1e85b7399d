"""The record of one window of a pipeline, from READY to how it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tidegauge.model.claim import Claim
from tidegauge.model.plan import Plan
from tidegauge.model.position import Position, Window, encode
from tidegauge.model.run import FlowStatus, HistoryEvent
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.tracker.moment import from_position, to_utc, with_utc
from tidegauge.tracker.pipeline_state import SOURCE, PipelineState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDS = {
    "finished": State.SUCCESS,
    "failed": State.FAILED,
    "skipped": State.SKIPPED,
    "released": State.PLANNED,
}
_STARTS = ("claimed", "taken_over")
SUPERSEDED = "SUPERSEDED"


@dataclass(frozen=True)
class WatermarkRecord:
    watermark_id: int
    """The window's id, made from its start: the same from READY on, through every retry, until SUCCESS."""
    pipeline_name: str
    job_id: str | None
    """The job that works on the record, or did last; None while it is READY."""
    last_processed_ts: datetime | None
    """The window's start; None is the beginning."""
    current_run_ts: datetime | None
    """The window's end, frozen by the first start; None while it is READY."""
    last_processed_version: int | None
    """`last_processed_ts` in milliseconds since 1970."""
    status: str
    created_at: datetime
    updated_at: datetime
    error_message: str | None = None
    """Why it failed, or was skipped."""
    run_duration: float | None = None
    """Seconds of the last attempt, once it has ended."""
    records_processed: int | None = None
    run_id: str | None = None
    """The ledger's id of the frozen plan behind the record."""
    claim: Claim | None = field(default=None, repr=False, compare=False)
    """The right to finalize the record. Can be pickled, for a job whose last step is another process."""


def _make_watermark_id(pipeline: str, after: Position | None) -> int:
    body = f"{pipeline}\0{encode(after)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(body).digest()[:8]) >> 1


def _make(
    pipeline: str,
    window: Window,
    status: str,
    *,
    created: datetime,
    updated: datetime,
    job_id: str | None = None,
    error: str | None = None,
    seconds: float | None = None,
    rows: int | None = None,
    run_id: str | None = None,
    claim: Claim | None = None,
) -> WatermarkRecord:
    start = from_position(window.after)
    return WatermarkRecord(
        watermark_id=_make_watermark_id(pipeline, window.after),
        pipeline_name=pipeline,
        job_id=job_id,
        last_processed_ts=start,
        current_run_ts=from_position(window.upto),
        last_processed_version=(to_utc(start) - _EPOCH) // timedelta(milliseconds=1) if start else None,
        status=status,
        created_at=with_utc(created),
        updated_at=with_utc(updated),
        error_message=error,
        run_duration=seconds,
        records_processed=rows,
        run_id=run_id,
        claim=claim,
    )


def start_record(plan: Plan, claim: Claim, created: datetime, at: datetime) -> WatermarkRecord:
    return _make(
        plan.draft.pipeline,
        plan.draft.batches[0].windows[0],
        State.RUNNING.value,
        created=created,
        updated=at,
        job_id=claim.run_id,
        run_id=plan.plan_id,
        claim=claim,
    )


def current_record(pipeline_state: PipelineState) -> WatermarkRecord | None:
    """The record of the plan that has not ended; else the READY one, for the next run."""
    status = pipeline_state.status
    if status is None:
        return None
    if status.plan is not None:
        return _active_record(status, status.plan)
    mark = pipeline_state.marks.get(SOURCE)
    if mark is None:
        return None
    at = mark.updated_at
    return _make(
        pipeline_state.pipeline, Window(mark.position, None), State.READY.value, created=at, updated=at
    )


def _active_record(status: FlowStatus, plan: Plan) -> WatermarkRecord:
    run = status.last_run if status.last_run and status.last_run.plan_id == plan.plan_id else None
    made = status.planned_at or (run.started_at if run else datetime(1970, 1, 1))
    ended = run.ended_at if run else None
    return _make(
        status.pipeline,
        plan.draft.batches[0].windows[0],
        status.state.value,
        created=made,
        updated=ended or (run.started_at if run else made),
        job_id=run.run_id if run else None,
        error=mask(str(run.error.get("message"))) if run and run.error else None,
        seconds=(ended - run.started_at).total_seconds() if run and ended else None,
        run_id=plan.plan_id,
    )


def past_records(pipeline: str, events: Sequence[HistoryEvent], *, but: str | None) -> list[WatermarkRecord]:
    """The records of ended plans whose events (newest first) are all there; `but` is the active plan's id."""
    plans: dict[str, list[HistoryEvent]] = {}
    for event in reversed(events):
        if event.plan_id is not None and event.plan_id != but:
            plans.setdefault(event.plan_id, []).append(event)
    made = [
        _replay(pipeline, plan_id, events)
        for plan_id, events in plans.items()
        if events[0].event == "planned"
    ]
    last = {record.watermark_id: record for record in made}
    # The next run takes up a skipped window again: only the last of their records stays.
    return [
        record
        for record in made
        if record.status != State.SKIPPED.value or last[record.watermark_id] is record
    ]


def _replay(pipeline: str, plan_id: str, events: Sequence[HistoryEvent]) -> WatermarkRecord:
    planned = events[0]
    status, job_id, error, rows = State.PLANNED.value, None, None, None
    begun = ended = None
    for event in events[1:]:
        if event.event in _STARTS:
            status, job_id, begun, ended, error = State.RUNNING.value, event.run_id, event.at, None, None
        elif event.event == "advanced":
            rows = event.rows
        elif event.event in ENDS:
            status, ended, error = ENDS[event.event].value, event.at, event.error or event.reason
        else:
            status, error = SUPERSEDED, event.reason
    return _make(
        pipeline,
        Window(planned.before, planned.after),
        status,
        created=planned.at,
        updated=events[-1].at,
        job_id=job_id,
        error=error,
        seconds=(ended - begun).total_seconds() if begun and ended else None,
        rows=rows,
        run_id=plan_id,
    )


def sort_records(records: Iterable[WatermarkRecord]) -> list[WatermarkRecord]:
    return sorted(
        records, key=lambda one: (one.pipeline_name, one.created_at, one.status == State.READY.value)
    )
