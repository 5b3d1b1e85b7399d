"""A flow's state as rows of the ledger's tables, and back."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from tidegauge.ledger.flow_state import NO_TALLY, ActivePlan, FlowState, InputWatermark
from tidegauge.ledger.journal import clean, error_text, position_text
from tidegauge.ledger.keys import flow_key, input_key, pipeline_key
from tidegauge.ledger.override_json import override_from_body, override_to_body, undo_from_body, undo_to_body
from tidegauge.ledger.schedule_json import SCHEDULE, schedule_body
from tidegauge.ledger.tallies import tally_body, tally_of
from tidegauge.model.claim import Owner
from tidegauge.model.override import Override, Undo
from tidegauge.model.plan import Plan, draft_from_json, draft_to_json
from tidegauge.model.position import (
    FilesPosition,
    Position,
    RowPosition,
    Value,
    ValueKind,
    VersionPosition,
    decode,
    to_moment,
    to_text,
)
from tidegauge.model.run import RunRecord
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally

_EPOCH, _MILLISECOND = datetime(1970, 1, 1), timedelta(milliseconds=1)


# --- to rows


def head_values(flow_state: FlowState, at: Any) -> dict[str, Any]:
    return {
        "flow_key": flow_key(flow_state.pipeline, flow_state.flow),
        "pipeline_key": pipeline_key(flow_state.pipeline),
        "pipeline": flow_state.pipeline,
        "flow": flow_state.flow,
        "idle_state": flow_state.idle.value,
        "fence": flow_state.fence,
        "epoch": flow_state.epoch,
        "seq": flow_state.seq,
        "override_body": None
        if flow_state.override is None
        else json.dumps(override_to_body(flow_state.override)),
        "undo_body": None if flow_state.undo is None else json.dumps(undo_to_body(flow_state.undo)),
        "tally_body": _tally_text(flow_state),
        "created_at": at,
        "updated_at": at,
    }


def _tally_text(flow_state: FlowState) -> str | None:
    schedule = schedule_body(flow_state)
    if flow_state.tally == NO_TALLY and flow_state.tally_before is None and schedule is None:
        return None
    before = None if flow_state.tally_before is None else tally_body(flow_state.tally_before)
    body = {"now": tally_body(flow_state.tally), "before": before}
    return json.dumps({SCHEDULE: schedule, **body} if schedule is not None else body)


def plan_values(flow_state: FlowState, active: ActivePlan) -> dict[str, Any]:
    """The columns of a plan that never change."""
    kept = active.plan
    return {
        "plan_id": kept.plan_id,
        "flow_key": flow_key(flow_state.pipeline, flow_state.flow),
        "pipeline": flow_state.pipeline,
        "flow": flow_state.flow,
        "epoch": kept.epoch,
        "first_seq": kept.first_seq,
        "batches": len(kept.draft.batches),
        "body": draft_to_json(kept.draft),
        "created_at": active.created_at,
    }


def plan_changes(flow_state: FlowState, active: ActivePlan, word: str | None) -> dict[str, Any]:
    """The columns of a plan that change. `word` is what it ended as; None while it is active."""
    owner = active.owner
    return {
        "active": None if word else 1,
        "state": word or active.state.value,
        "done": active.plan.done,
        "begun": active.begun,
        "completed": json.dumps(sorted(active.completed)) if active.completed else None,
        "fence": flow_state.fence,
        "attempt": active.attempt,
        "owner_actor": owner.actor if owner else None,
        "owner_host": owner.host if owner else None,
        "owner_pid": owner.pid if owner else None,
        "owner_started": owner.started if owner else None,
        "lease_until": active.lease_until,
        "updated_at": active.updated_at,
    }


def mark_values(flow_state: FlowState, mark: InputWatermark) -> dict[str, Any]:
    moment = to_moment(mark.position, mark.cursor, mark.stamp)
    return {
        "flow_key": flow_key(flow_state.pipeline, flow_state.flow),
        "input_key": input_key(mark.input),
        "pipeline_key": pipeline_key(flow_state.pipeline),
        "pipeline": flow_state.pipeline,
        "flow": flow_state.flow,
        "input": mark.input,
        "cursor_kind": mark.cursor,
        "position": position_text(mark.position),
        "checked": position_text(mark.checked),
        "epoch": mark.epoch,
        "seq": mark.seq,
        "pending": mark.pending,
        "source_id": mark.source_id,
        "fingerprint": mark.fingerprint,
        "stamp": mark.stamp,
        "position_version": number_of(mark.position, moment),
        "position_ts": moment,
        "checked_ts": to_moment(mark.checked, mark.cursor, mark.stamp),
        "updated_at": mark.updated_at,
    }


def run_values(run: RunRecord) -> dict[str, Any]:
    after, upto = (run.window.after, run.window.upto) if run.window else (None, None)
    after_ts, upto_ts = run.times
    return {
        "run_id": run.run_id,
        "flow_key": flow_key(run.pipeline, run.flow),
        "pipeline": run.pipeline,
        "flow": run.flow,
        "plan_id": run.plan_id,
        "attempt": run.attempt,
        "started_at": run.started_at,
        "after_ts": after_ts,
        "upto_ts": upto_ts,
        "after_version": number_of(after, after_ts),
        "upto_version": number_of(upto, upto_ts),
        "after_text": None if after is None else clean(to_text(after)),
        "upto_text": None if upto is None else clean(to_text(upto)),
        **run_changes(run),
    }


def run_changes(run: RunRecord) -> dict[str, Any]:
    return {
        "state": run.state.value,
        "ended_at": run.ended_at,
        "batches": run.batches,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "rows_inserted": run.rows_inserted,
        "rows_updated": run.rows_updated,
        "rows_deleted": run.rows_deleted,
        "error": error_text(run.error),
    }


def number_of(position: Position | None, moment: datetime | None) -> int | None:
    """The position as a number: a version, a batch of files, a whole number, or the milliseconds of a time
    since 1970. None for any other."""
    match position:
        case VersionPosition(number) | FilesPosition(number):
            return number
        case RowPosition(Value(ValueKind.INT, text), _) if len(text) < 19:
            return int(text)
        case RowPosition() if moment is not None:
            return (moment - _EPOCH) // _MILLISECOND
        case _:
            return None


# --- from rows


def override_of(text: str | None) -> Override | None:
    return None if text is None else override_from_body(json.loads(text))


def undo_of(text: str | None) -> Undo | None:
    return None if text is None else undo_from_body(json.loads(text))


def tallies_of(row: Row[Any]) -> tuple[Tally, Tally | None]:
    """The tally, and what the last override replaced; from a row with the columns of `flows`."""
    if row.tally_body is None:
        return NO_TALLY, None
    body = json.loads(row.tally_body)
    return tally_of(body["now"]), tally_of(body["before"]) if body["before"] else None


def plan_of(row: Row[Any]) -> Plan:
    """The plan in a row with the columns of `plans`."""
    return Plan(
        plan_id=row.plan_id,
        draft=draft_from_json(row.pipeline, row.flow, row.body),
        epoch=row.epoch,
        first_seq=row.first_seq,
        done=row.done,
    )


def owner_of(row: Row[Any]) -> Owner | None:
    if row.owner_actor is None:
        return None
    return Owner(row.owner_actor, row.owner_host, row.owner_pid, row.owner_started)


def completed_of(row: Row[Any]) -> frozenset[str]:
    return frozenset(json.loads(row.completed)) if row.completed else frozenset()


MARK_COLUMNS = (
    "input",
    "cursor_kind",
    "position",
    "checked",
    "epoch",
    "seq",
    "pending",
    "source_id",
    "fingerprint",
    "stamp",
    "updated_at",
)
"""The columns that `mark_of` reads."""


def mark_of(row: Row[Any]) -> InputWatermark:
    return InputWatermark(
        input=row.input,
        cursor=row.cursor_kind,
        position=None if row.position is None else decode(row.position),
        checked=None if row.checked is None else decode(row.checked),
        epoch=row.epoch,
        seq=row.seq,
        pending=row.pending,
        source_id=row.source_id,
        fingerprint=row.fingerprint,
        stamp=row.stamp,
        updated_at=row.updated_at,
    )


RUN_COLUMNS = (
    "run_id",
    "state",
    "started_at",
    "ended_at",
    "batches",
    "rows_read",
    "rows_written",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "error",
)
"""The columns that `run_of` reads, besides pipeline, flow, plan_id and attempt."""


def run_of(row: Row[Any], prefix: str = "", **known: Any) -> RunRecord:
    """A run from a row whose columns have the prefix. `known` has pipeline, flow, plan_id and attempt, if the
    caller knows them: then the row need not have them."""
    found = known or {
        name: getattr(row, prefix + name) for name in ("pipeline", "flow", "plan_id", "attempt")
    }
    found |= {name: getattr(row, prefix + name) for name in RUN_COLUMNS}
    found["state"] = State(found["state"])
    if found["error"] is not None:
        found["error"] = json.loads(found["error"])
    return RunRecord(**found)
