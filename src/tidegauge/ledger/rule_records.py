"""What rules write down beside a flow's state: runs, and events of the history. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegauge.errors import LeaseLost
from tidegauge.ledger.flow_state import ActivePlan, FlowState
from tidegauge.ledger.journal import clean, describe_error, mask_error
from tidegauge.model.claim import Owner
from tidegauge.model.plan import InputPlan
from tidegauge.model.position import Position, to_moment
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.secret import mask
from tidegauge.model.state import State


def new_run(
    flow_state: FlowState,
    run_id: str,
    state: State,
    now: datetime,
    *,
    active: ActivePlan | None = None,
    ended: datetime | None = None,
    error: dict[str, Any] | None = None,
) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        pipeline=flow_state.pipeline,
        flow=flow_state.flow,
        plan_id=active.plan.plan_id if active else None,
        attempt=active.attempt if active else 0,
        state=state,
        started_at=now,
        ended_at=ended,
        batches=0,
        rows_read=0,
        rows_written=0,
        error=mask_error(error),
        # Zero before the first batch; a batch whose output cannot count its changes makes them None.
        rows_inserted=0,
        rows_updated=0,
        rows_deleted=0,
        window=active.plan.draft.inputs[0].window if active else None,
        times=_window_times(active.plan.draft.inputs[0]) if active else (None, None),
    )


def close_run(
    flow_state: FlowState, state: State, now: datetime, error: dict[str, Any] | None
) -> tuple[RunRecord, ...]:
    assert flow_state.run is not None
    return (replace(flow_state.run, state=state, ended_at=now, error=mask_error(error)),)


def make_event(
    flow_state: FlowState,
    event: str,
    now: datetime,
    actor: str,
    *,
    run_id: str | None = None,
    plan_id: str | None = None,
    input: str | None = None,  # noqa: A002 - the ledger's own word
    reason: str | None = None,
    before: Position | None = None,
    after: Position | None = None,
    error: dict[str, Any] | None = None,
    rows: int | None = None,
    seconds: float | None = None,
) -> HistoryEvent:
    return HistoryEvent(
        at=now,
        pipeline=flow_state.pipeline,
        flow=flow_state.flow,
        run_id=run_id,
        event=event,
        actor=clean(actor),
        reason=None if reason is None else clean(mask(reason)),
        before=before,
        after=after,
        error=None if error is None else describe_error(error),
        input=input,
        plan_id=plan_id,
        rows=rows,
        seconds=seconds,
    )


def name_owner(owner: Owner | None) -> str:
    return f"{owner.actor} (process {owner.pid})" if owner else "another runner"


def describe_lost_lease(message: str) -> dict[str, Any]:
    return {"type": LeaseLost.__name__, "message": message, "retryable": True}


def _window_times(part: InputPlan) -> tuple[datetime | None, datetime | None]:
    if part.window is None:
        return None, None
    return (
        to_moment(part.window.after, part.cursor, part.since),
        to_moment(part.window.upto, part.cursor, part.stamp),
    )
