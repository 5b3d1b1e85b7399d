"""Events, runs and ended plans as entries of a document ledger's logs, and back."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidegauge.ledger.document_store import Entry
from tidegauge.ledger.flow_state import EndedPlan
from tidegauge.ledger.journal import error_text
from tidegauge.model.plan import draft_to_body, window_from_dict, window_to_dict
from tidegauge.model.position import from_body, to_body
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State


def event_body(event: HistoryEvent) -> dict[str, Any]:
    return {
        "pipeline": event.pipeline,
        "flow": event.flow,
        "at": moment_text(event.at),
        "kind": event.event,
        "run_id": event.run_id,
        "plan_id": event.plan_id,
        "actor": event.actor,
        "reason": event.reason,
        "input": event.input,
        "before": to_body(event.before),
        "after": to_body(event.after),
        "error": event.error,
        "rows": event.rows,
        "seconds": event.seconds,
    }


def event_of(entry: Entry) -> HistoryEvent:
    return HistoryEvent(
        at=moment_of(entry["at"]),
        pipeline=entry["pipeline"],
        flow=entry["flow"],
        run_id=entry["run_id"],
        event=entry["kind"],
        actor=entry["actor"],
        reason=entry["reason"],
        before=from_body(entry["before"]),
        after=from_body(entry["after"]),
        error=entry["error"],
        input=entry["input"],
        plan_id=entry["plan_id"],
        rows=entry["rows"],
        seconds=entry["seconds"],
    )


def run_body(run: RunRecord) -> dict[str, Any]:
    """A run in plain JSON values. `at` is the run's end, or its start until it has ended."""
    return {
        "pipeline": run.pipeline,
        "flow": run.flow,
        "at": moment_text(run.ended_at or run.started_at),
        "kind": run.state.value,
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "attempt": run.attempt,
        "started_at": moment_text(run.started_at),
        "ended_at": None if run.ended_at is None else moment_text(run.ended_at),
        "batches": run.batches,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "rows_inserted": run.rows_inserted,
        "rows_updated": run.rows_updated,
        "rows_deleted": run.rows_deleted,
        "window": window_to_dict(run.window) if run.window else None,
        "times": [None if at is None else moment_text(at) for at in run.times],
        # JSON inside JSON, escaped to ASCII: a driver's message can hold characters that UTF-8 cannot encode.
        "error": error_text(run.error),
    }


def run_of(entry: Entry) -> RunRecord:
    return RunRecord(
        run_id=entry["run_id"],
        pipeline=entry["pipeline"],
        flow=entry["flow"],
        plan_id=entry["plan_id"],
        attempt=entry["attempt"],
        state=State(entry["kind"]),
        started_at=moment_of(entry["started_at"]),
        ended_at=None if entry["ended_at"] is None else moment_of(entry["ended_at"]),
        batches=entry["batches"],
        rows_read=entry["rows_read"],
        rows_written=entry["rows_written"],
        error=None if entry["error"] is None else json.loads(entry["error"]),
        rows_inserted=entry["rows_inserted"],
        rows_updated=entry["rows_updated"],
        rows_deleted=entry["rows_deleted"],
        window=window_from_dict(entry["window"]) if entry["window"] else None,
        times=_times(entry),
    )


def _times(entry: Entry) -> tuple[datetime | None, datetime | None]:
    """The times of the window's ends; None in entries from before they were kept."""
    after, upto = (None if at is None else moment_of(at) for at in entry.get("times", (None, None)))
    return after, upto


def ended_body(ended: EndedPlan) -> dict[str, Any]:
    active = ended.active
    draft = active.plan.draft
    return {
        "pipeline": draft.pipeline,
        "flow": draft.flow,
        "at": moment_text(active.updated_at),
        "kind": ended.word,
        "plan_id": active.plan.plan_id,
        "epoch": active.plan.epoch,
        "first_seq": active.plan.first_seq,
        "done": active.plan.done,
        "attempts": active.attempt,
        "created_at": moment_text(active.created_at),
        "plan": draft_to_body(draft),
    }


def moment_text(moment: datetime) -> str:
    """ISO 8601 with six digits of fraction, so that texts are in the order of time."""
    return moment.isoformat(timespec="microseconds")


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text)
