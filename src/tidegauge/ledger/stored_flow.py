"""A flow's document in plain JSON values, as a store keeps it, and back."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegauge.ledger.document_store import StoredFlow
from tidegauge.ledger.flow_document import FlowDocument
from tidegauge.ledger.flow_state import ActivePlan, FlowState, InputWatermark
from tidegauge.ledger.log_entries import moment_of, moment_text, run_body, run_of
from tidegauge.ledger.override_json import override_from_body, override_to_body, undo_from_body, undo_to_body
from tidegauge.ledger.schedule_json import schedule_body, schedule_of
from tidegauge.ledger.summary import split_position, stage_row
from tidegauge.ledger.tallies import tally_body, tally_of
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Draft, Plan, draft_from_body, draft_to_body
from tidegauge.model.position import from_body, to_body, to_moment
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally


def stored_flow_of(document: FlowDocument) -> StoredFlow:
    flow_state = document.flow_state
    body = {
        "known": document.known,
        # Different in every save, so that a writer whose answer was lost can see whether its save was kept.
        "save": uuid.uuid4().hex,
        "created_at": moment_text(document.created_at),
        "updated_at": moment_text(document.updated_at),
        **_tally_body(flow_state.tally),
        "tally_before": tally_body(flow_state.tally_before) if flow_state.tally_before else None,
        "book": {
            "idle": flow_state.idle.value,
            "fence": flow_state.fence,
            "epoch": flow_state.epoch,
            "seq": flow_state.seq,
            "marks": [_mark_body(mark) for mark in flow_state.marks.values()],
            "active": _active_body(flow_state.active) if flow_state.active else None,
            "run": run_body(flow_state.run) if flow_state.run else None,
            "override": override_to_body(flow_state.override) if flow_state.override else None,
            "undo": undo_to_body(flow_state.undo) if flow_state.undo else None,
            "schedule": schedule_body(flow_state),
        },
        "last_run": run_body(document.last) if document.last else None,
        **({"counted": dict(document.counted)} if document.counted else {}),
        "numbers": dict(document.numbers),
        "pinned": {log: list(ids) for log, ids in document.pinned.items()},
        "outbox": {log: list(entries) for log, entries in document.pending.items()},
    }
    return StoredFlow(flow_state.pipeline, flow_state.flow, body, _row(document))


def _row(document: FlowDocument) -> dict[str, Any]:
    """The row for people, with the keys of document_store.ROW."""
    flow_state, run, active = document.flow_state, document.last, document.flow_state.active
    name = active.plan.draft.inputs[0].input if active else next(iter(flow_state.marks), None)
    mark = flow_state.marks.get(name) if name is not None else None
    return {
        **stage_row(
            state=flow_state.state,
            run=run,
            cursor=mark.cursor if mark else None,
            position=mark.position if mark else None,
            stamp=mark.stamp if mark else None,
            tally=flow_state.tally,
            created_at=document.created_at,
            updated_at=document.updated_at,
        ),
        "run_id": run.run_id if run else None,
        "started_at": _text(run.started_at if run else None),
        "ended_at": _text(run.ended_at if run else None),
        "rows": run.rows_written if run else None,
        "batches": run.batches if run else None,
        **_window_end(active),
        "epoch": flow_state.epoch,
        "seq": flow_state.seq,
        "fence": flow_state.fence,
    }


def _window_end(active: ActivePlan | None) -> dict[str, Any]:
    first = active.plan.draft.inputs[0] if active else None
    if first is None or first.window is None:
        return {"upto": None, "upto_time": None}
    text, number = split_position(first.window.upto)
    moment = to_moment(first.window.upto, first.cursor, first.stamp)
    return {"upto": text if text is not None else number, "upto_time": _text(moment)}


def _tally_body(tally: Tally) -> dict[str, Any]:
    """The tally, under the keys where versions before 0.3 kept their part of it."""
    return {
        "advanced_at": _text(tally.advanced_at),
        "manual": tally.manual,
        "totals": {
            "rows": tally.rows,
            "batches": tally.batches,
            "files": tally.files,
            "seconds": tally.seconds,
        },
        "strategy": tally.strategy,
        "loaded": list(tally.loaded),
        "loaded_files": tally.loaded_files,
    }


def _tally_of(body: Mapping[str, Any]) -> Tally:
    return Tally(
        **body["totals"],
        advanced_at=_moment(body["advanced_at"]),
        manual=body["manual"],
        strategy=body.get("strategy"),
        loaded=tuple(body.get("loaded", ())),
        loaded_files=body.get("loaded_files", 0),
    )


def _mark_body(mark: InputWatermark) -> dict[str, Any]:
    return {
        "input": mark.input,
        "cursor": mark.cursor,
        "position": to_body(mark.position),
        "checked": to_body(mark.checked),
        "epoch": mark.epoch,
        "seq": mark.seq,
        "pending": mark.pending,
        "source_id": mark.source_id,
        "fingerprint": mark.fingerprint,
        "stamp": mark.stamp,
        "updated_at": moment_text(mark.updated_at),
    }


def _active_body(active: ActivePlan) -> dict[str, Any]:
    kept, owner = active.plan, active.owner
    return {
        "plan_id": kept.plan_id,
        "epoch": kept.epoch,
        "first_seq": kept.first_seq,
        "done": kept.done,
        "state": active.state.value,
        "attempt": active.attempt,
        "begun": active.begun,
        "completed": sorted(active.completed),
        "owner": vars(owner) if owner else None,
        "lease_until": _text(active.lease_until),
        "created_at": moment_text(active.created_at),
        "updated_at": moment_text(active.updated_at),
        "draft": _draft_body(kept.plan_id, kept.draft),
    }


# --- from a stored flow


def document_of(stored_flow: StoredFlow) -> FlowDocument:
    body = stored_flow.body
    return FlowDocument(
        flow_state=replace(
            _flow_state_of(stored_flow.pipeline, stored_flow.flow, body["book"]),
            tally=_tally_of(body),
            tally_before=tally_of(before) if (before := body.get("tally_before")) else None,
        ),
        created_at=moment_of(body["created_at"]),
        updated_at=moment_of(body["updated_at"]),
        known=body["known"],
        last=run_of(body["last_run"]) if body["last_run"] else None,
        numbers=body["numbers"],
        pending=body["outbox"],
        pinned=body["pinned"],
        counted=body.get("counted", {}),
    )


def _flow_state_of(pipeline: str, flow: str, body: Mapping[str, Any]) -> FlowState:
    override, undo = body["override"], body["undo"]
    suspended, ticks = schedule_of(body.get("schedule"))
    return FlowState(
        pipeline=pipeline,
        flow=flow,
        idle=State(body["idle"]),
        fence=body["fence"],
        epoch=body["epoch"],
        seq=body["seq"],
        marks={mark.input: mark for mark in map(_mark_of, body["marks"])},
        active=_active_of(pipeline, flow, body["active"]) if body["active"] else None,
        run=run_of(body["run"]) if body["run"] else None,
        override=override_from_body(override) if override else None,
        undo=undo_from_body(undo) if undo else None,
        suspended=suspended,
        ticks=ticks,
    )


def _mark_of(body: Mapping[str, Any]) -> InputWatermark:
    return InputWatermark(
        input=body["input"],
        cursor=body["cursor"],
        position=from_body(body["position"]),
        checked=from_body(body["checked"]),
        epoch=body["epoch"],
        seq=body["seq"],
        pending=body["pending"],
        source_id=body["source_id"],
        fingerprint=body["fingerprint"],
        stamp=body["stamp"],
        updated_at=moment_of(body["updated_at"]),
    )


def _active_of(pipeline: str, flow: str, body: Mapping[str, Any]) -> ActivePlan:
    draft = _draft_of(pipeline, flow, body["plan_id"], body["draft"])
    return ActivePlan(
        plan=Plan(body["plan_id"], draft, body["epoch"], body["first_seq"], body["done"]),
        state=State(body["state"]),
        attempt=body["attempt"],
        begun=body["begun"],
        completed=frozenset(body["completed"]),
        owner=Owner(**body["owner"]) if body["owner"] else None,
        lease_until=_moment(body["lease_until"]),
        created_at=moment_of(body["created_at"]),
        updated_at=moment_of(body["updated_at"]),
    )


_drafts: dict[str, tuple[Draft, Any]] = {}
"""A cache by plan id: the draft, and the JSON it was read from. A plan never changes, can have thousands of
batches, and is loaded again with every step."""
_MOST = 256
"""How many drafts the cache holds."""


def _draft_of(pipeline: str, flow: str, plan_id: str, body: Any) -> Draft:
    found = _drafts.get(plan_id)
    if found is None or found[1] != body:
        if len(_drafts) >= _MOST:
            _drafts.clear()
        found = _drafts[plan_id] = (draft_from_body(pipeline, flow, body), body)
    return found[0]


def _draft_body(plan_id: str, draft: Draft) -> Any:
    found = _drafts.get(plan_id)
    return found[1] if found is not None and found[0] is draft else draft_to_body(draft)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment_text(moment)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment_of(text)
