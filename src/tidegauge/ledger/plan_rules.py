"""Rules that plan a flow: freeze a draft as its active plan, skip when nothing is new, refuse, add a note.

Every rule of the ledger is a pure function. It gets a flow's state and the store's time, and returns the
StateChange that a store has to save, all of it or nothing; or it raises, and nothing changes. A store that
finds the state changed since it was loaded loads it again and applies the rule again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegauge.ledger.flow_state import ActivePlan, FlowState, InputWatermark, StateChange
from tidegauge.ledger.rule_records import make_event, new_run
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Draft, InputPlan, Plan
from tidegauge.model.secret import mask
from tidegauge.model.state import Event, State, step


def plan(
    flow_state: FlowState, draft: Draft, *, plan_id: str, owner: Owner, run_id: str, now: datetime
) -> tuple[StateChange | None, Plan | None]:
    """See LedgerWriter.plan. (None, None): the flow has moved on since it was looked at, has an override that
    has not ended, or was forgotten."""
    if flow_state.override is not None or flow_state.forgotten:
        return None, None
    if flow_state.active is not None:
        return None, flow_state.active.plan
    if draft.seen is not None and draft.seen != (flow_state.epoch, flow_state.seq):
        return None, None
    if not draft.batches:
        return _skip(flow_state, draft, owner=owner, run_id=run_id, now=now), None
    state = step(flow_state.idle, Event.PLAN)
    notes = tuple(mask(note) for note in draft.notes)
    inputs = tuple(_add_start_time(flow_state.marks.get(part.input), part) for part in draft.inputs)
    if (inputs, notes, None) != (draft.inputs, draft.notes, draft.seen):
        draft = replace(draft, inputs=inputs, notes=notes, seen=None)
    kept = Plan(plan_id, draft, flow_state.epoch, flow_state.seq + 1)
    active = ActivePlan(
        plan=kept,
        state=state,
        attempt=0,
        begun=None,
        completed=frozenset(),
        owner=None,
        lease_until=None,
        created_at=now,
        updated_at=now,
    )
    changed = replace(
        flow_state, marks=_record_look(flow_state, draft, now, skipped=False), active=active, run=None
    )
    first, last = draft.batches[0], draft.batches[-1]
    events = tuple(
        make_event(
            flow_state,
            "planned",
            now,
            owner.actor,
            run_id=run_id,
            plan_id=plan_id,
            input=part.input,
            before=first.windows[place].after,
            after=last.windows[place].upto,
        )
        for place, part in enumerate(draft.inputs)
    )
    return StateChange(changed, events), kept


def refuse(
    flow_state: FlowState, error: dict[str, Any], *, owner: Owner, run_id: str, now: datetime
) -> StateChange:
    state = step(flow_state.state, Event.REFUSE)
    # The flow's own state is READY; only the run that was tried is FAILED.
    run = new_run(flow_state, run_id, State.FAILED, now, ended=now, error=error)
    logged = make_event(flow_state, "refused", now, owner.actor, run_id=run_id, error=error)
    return StateChange(replace(flow_state, idle=state), (logged,), (run,))


def note(
    flow_state: FlowState, event: str, *, owner: Owner, reason: str, now: datetime, rows: int | None = None
) -> StateChange:
    return StateChange(
        flow_state, (make_event(flow_state, event, now, owner.actor, reason=reason, rows=rows),)
    )


def _add_start_time(mark: InputWatermark | None, part: InputPlan) -> InputPlan:
    """Add the time of the window's lower end, as the watermark has it: no source need be asked again."""
    known = mark.stamp if mark is not None and part.window is not None and part.window.after else None
    return replace(part, since=known) if known else part


def _skip(flow_state: FlowState, draft: Draft, *, owner: Owner, run_id: str, now: datetime) -> StateChange:
    state = step(flow_state.idle, Event.SKIP)
    run = new_run(flow_state, run_id, state, now, ended=now)
    changed = replace(flow_state, idle=state, marks=_record_look(flow_state, draft, now, skipped=True))
    return StateChange(changed, (make_event(flow_state, "skipped", now, owner.actor, run_id=run_id),), (run,))


def _record_look(
    flow_state: FlowState, draft: Draft, now: datetime, *, skipped: bool
) -> dict[str, InputWatermark]:
    """The watermarks after the source was looked at; an input gets one with its first plan.

    Positions move only in `advance`. `checked` moves here if nothing new was found; otherwise it moves with
    the plan's last batch."""
    marks = dict(flow_state.marks)
    for part in draft.inputs:
        old = marks.get(part.input)
        checked = old.checked if old else None
        if skipped and part.window is not None:
            checked = part.checked or part.window.upto
        if old is None:
            marks[part.input] = InputWatermark(
                input=part.input,
                cursor=part.cursor,
                position=None,
                checked=checked,
                epoch=flow_state.epoch,
                seq=0,
                pending=part.pending,
                source_id=part.source_id,
                fingerprint=None,
                stamp=None,
                updated_at=now,
            )
        elif (old.cursor, old.checked, old.pending, old.source_id) != (
            part.cursor,
            checked,
            part.pending,
            part.source_id,
        ):
            marks[part.input] = replace(
                old,
                cursor=part.cursor,
                checked=checked,
                pending=part.pending,
                source_id=part.source_id,
                updated_at=now,
            )
    return marks
