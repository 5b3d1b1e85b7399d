"""A flow's document: its state, and the log entries that have not been moved to the logs yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidegauge.ledger.document_store import LOGS, Entry
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.keys import flow_key
from tidegauge.ledger.log_entries import ended_body, event_body, run_body
from tidegauge.model.run import RunRecord


@dataclass(frozen=True)
class FlowDocument:
    flow_state: FlowState
    created_at: datetime
    updated_at: datetime
    known: bool = False
    """Whether the ledger lists the flow: not while its history has nothing but notes, and never `*`."""
    last: RunRecord | None = None
    """The newest run, ended or not."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """By log: the number `n` of the flow's last entry."""
    pending: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    """By log: entries that it may not have yet, in their order."""
    pinned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By log: the ids of entries that are never pruned, those of the last run's plan."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """Rows of the active plan so far, by input, where they are known."""

    @property
    def waiting(self) -> int:
        """How many log entries are pending."""
        return sum(len(entries) for entries in self.pending.values())


def new_document(pipeline: str, flow: str, now: datetime) -> FlowDocument:
    # Entries are numbered from the microsecond of creation; see document_store.Entry.
    first = int(now.replace(tzinfo=UTC).timestamp() * 1_000_000) - 1
    return FlowDocument(FlowState(pipeline, flow), now, now, numbers=dict.fromkeys(LOGS, first))


def apply_change(document: FlowDocument, change: StateChange, now: datetime, *, known: bool) -> FlowDocument:
    """The document after a change, with the change's events, runs and plans pending."""
    counted = _count(document, change)
    last = change.runs[-1] if change.runs else document.last
    bodies = {
        "history": [event_body(event) for event in change.events],
        "runs": [run_body(run) for run in change.runs if run.ended_at is not None],
        "plans": [
            ended_body(ended) | {"rows": counted, "error": message_of(last, ended.active.plan.plan_id)}
            for ended in change.ended
        ],
    }
    key = flow_key(document.flow_state.pipeline, document.flow_state.flow)[:32]
    numbers, pending = dict(document.numbers), dict(document.pending)
    pinned = _keep_pinned(document, change)
    for log, added in bodies.items():
        entries = []
        for body in added:
            numbers[log] += 1
            entries.append({"id": f"{key}-{numbers[log]}", "n": numbers[log], **body})
        if entries:
            pending[log] = [*pending.get(log, ()), *entries]
            if log != "history":
                pinned[log] = [*pinned.get(log, ()), *(str(entry["id"]) for entry in entries)]
    return replace(
        document,
        flow_state=change.flow_state,
        updated_at=now,
        known=document.known or known,
        last=last,
        numbers=numbers,
        pending=pending,
        pinned=pinned,
        counted=counted if change.flow_state.active and not change.ended else {},
    )


def message_of(run: RunRecord | None, plan_id: str) -> str | None:
    """Why the plan's last attempt failed; None if `run` is not that attempt, or has not failed."""
    if run is None or run.plan_id != plan_id or run.error is None:
        return None
    message = run.error.get("message")
    return None if message is None else str(message)


def _count(document: FlowDocument, change: StateChange) -> dict[str, int]:
    counted = dict(document.counted)
    for event in change.events:
        if event.event == "advanced" and event.input is not None and event.rows is not None:
            counted[event.input] = counted.get(event.input, 0) + event.rows
    return counted


def drop_moved(document: FlowDocument, moved: Mapping[str, int]) -> FlowDocument:
    """The document without the pending entries up to these numbers, which are in the logs."""
    pending = {
        log: [entry for entry in entries if entry["n"] > moved.get(log, 0)]
        for log, entries in document.pending.items()
    }
    return replace(document, pending={log: entries for log, entries in pending.items() if entries})


def _keep_pinned(document: FlowDocument, change: StateChange) -> dict[str, Sequence[str]]:
    """The pinned entries after a change: none if it has a run of another plan than before, or of no plan."""
    plan = document.last.plan_id if document.last else None
    goes_on = all(run.plan_id is not None and run.plan_id == plan for run in change.runs)
    return dict(document.pinned) if goes_on else {}


def sort_newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries, and drop duplicates: an entry can be in a log and still pending."""
    once = {entry["id"]: entry for entry in entries}
    return sorted(once.values(), key=lambda entry: (entry["at"], entry["n"]), reverse=True)
