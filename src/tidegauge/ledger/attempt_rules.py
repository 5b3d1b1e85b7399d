"""Rules of an attempt, which only the holder of the claim may use: begin a batch, advance the watermarks past
it, and finish. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tidegauge.errors import WrongState
from tidegauge.ledger import claim_rules
from tidegauge.ledger.flow_state import EndedPlan, FlowState, InputWatermark, StateChange
from tidegauge.ledger.rule_records import close_run, make_event
from tidegauge.ledger.tallies import add_seconds, count_batch
from tidegauge.model.claim import Claim
from tidegauge.model.plan import InputPlan, Plan, Receipt
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import Event, State, step

_ENDINGS = {
    State.SUCCESS: Event.FINISH,
    State.SKIPPED: Event.SKIP,
    State.FAILED: Event.FAIL,
    State.PLANNED: Event.RELEASE,
}
_WORDS = {Event.FINISH: "finished", Event.SKIP: "skipped", Event.FAIL: "failed", Event.RELEASE: "released"}


def begin(flow_state: FlowState, held: Claim, index: int, *, now: datetime) -> StateChange:
    active = claim_rules.check_held(flow_state, held, Event.BEGIN, index)
    return StateChange(replace(flow_state, active=replace(active, begun=index, updated_at=now)))


def begin_next(change: StateChange, *, now: datetime) -> StateChange:
    """Add the begin of the next batch to a claim's change; returns it unchanged if no batch is left."""
    held = claim_rules.claim_of(change.flow_state)
    if held.plan.done == len(held.plan.draft.batches):
        return change
    return replace(change, flow_state=begin(change.flow_state, held, held.plan.done, now=now).flow_state)


def finish_last(change: StateChange, held: Claim, *, now: datetime) -> StateChange:
    """Add the attempt's end as SUCCESS to an advance's change, if the plan's last batch is done."""
    active = change.flow_state.active
    if active is None or active.plan.done != len(active.plan.draft.batches):
        return change
    ended = finish(change.flow_state, held, State.SUCCESS, None, now=now)
    return replace(ended, events=(*change.events, *ended.events))


def advance(
    flow_state: FlowState,
    held: Claim,
    index: int,
    receipt: Receipt,
    *,
    now: datetime,
    rows: Mapping[str, int | None] | None = None,
) -> StateChange:
    """See LedgerWriter.advance. `rows`: the inputs that are done, each with its row count; None: all are."""
    active = claim_rules.check_held(flow_state, held, Event.ADVANCE, index)
    plan, batch = active.plan, active.plan.draft.batches[index]
    if active.begun != index or receipt.tag != plan.tag(index):
        raise WrongState(
            f"{flow_state.flow}: batch {index} cannot advance before it was begun and its receipt is there",
            hint="begin it, write it, and ask the output for the receipt of its tag",
        )
    assert flow_state.run is not None
    left = [part for part in plan.draft.inputs if part.input not in active.completed]
    moving = left if rows is None else [part for part in left if part.input in rows]
    whole = len(moving) == len(left)
    marks = _advance_marks(flow_state, plan, index, moving, whole=whole, now=now)
    events = _describe_advance(flow_state, held, moving, marks, receipt, rows=rows, now=now)
    run = _count_run(flow_state.run, receipt, whole=whole)
    changed = replace(
        flow_state,
        seq=plan.first_seq + index if whole else flow_state.seq,
        marks=marks,
        active=replace(
            active,
            plan=replace(plan, done=index + 1) if whole else plan,
            completed=frozenset() if whole else active.completed | {part.input for part in moving},
            updated_at=now,
        ),
        run=run,
        tally=count_batch(flow_state.tally, batch, receipt, whole=whole, now=now),
    )
    return StateChange(changed, events, (run,))


def finish(
    flow_state: FlowState, held: Claim, state: State, error: dict[str, Any] | None, *, now: datetime
) -> StateChange:
    event = _ENDINGS.get(state)
    if event is None:
        raise WrongState(
            f"{flow_state.flow}: an attempt cannot end as {state}",
            hint=f"it can end as: {', '.join(_ENDINGS)}",
        )
    active = claim_rules.check_held(flow_state, held, event)
    kept = active.plan
    after = step(active.state, event)
    if event is Event.FINISH and kept.done != len(kept.draft.batches):
        raise WrongState(
            f"{flow_state.flow}: {kept.done} of {len(kept.draft.batches)} batches are done, so the plan"
            " is not",
            hint="advance past every batch first, or end the attempt as FAILED",
        )
    reason = None
    if event is Event.SKIP:
        if active.begun is not None:
            # The begun batch may be in the output under its tag, and the next plan would use that tag again.
            raise WrongState(
                f"{flow_state.flow}: a batch was begun, so the plan cannot be skipped any more",
                hint="end the attempt as SUCCESS or FAILED",
            )
        # A skip is not a failure: the error's message becomes its reason.
        reason, error = str(error["message"]) if error else None, None
    freed = replace(active, state=after, owner=None, lease_until=None, updated_at=now)
    runs = close_run(flow_state, after, now, error)
    logged = make_event(
        flow_state,
        _WORDS[event],
        now,
        held.owner.actor,
        run_id=held.run_id,
        plan_id=kept.plan_id,
        reason=reason,
        error=error,
    )
    flow_state = replace(flow_state, tally=add_seconds(flow_state.tally, runs))
    if event in (Event.FINISH, Event.SKIP):
        done = replace(flow_state, idle=after, active=None, run=None)
        return StateChange(done, (logged,), runs, (EndedPlan(freed, after.value),))
    return StateChange(replace(flow_state, active=freed, run=runs[0]), (logged,), runs)


def _advance_marks(
    flow_state: FlowState,
    plan: Plan,
    index: int,
    moving: Sequence[InputPlan],
    *,
    whole: bool,
    now: datetime,
) -> dict[str, InputWatermark]:
    """All watermarks, with the `moving` inputs advanced. `whole`: every input of the batch is done now."""
    seq, marks = plan.first_seq + index, dict(flow_state.marks)
    for place, part in enumerate(plan.draft.inputs):
        old = marks[part.input]
        if part in moving:
            # `seq` counts whole batches: a reader must not take a batch that is partly done for a whole one.
            counted = seq if whole else old.seq
            marks[part.input] = _advance_mark(old, plan, index, place, seq=counted, now=now)
        elif whole:
            marks[part.input] = replace(old, seq=seq)
    return marks


def _advance_mark(
    old: InputWatermark, plan: Plan, index: int, place: int, *, seq: int, now: datetime
) -> InputWatermark:
    part, batch = plan.draft.inputs[place], plan.draft.batches[index]
    upto = old.position if batch.rereads else batch.windows[place].upto
    checked = old.checked
    if index == len(plan.draft.batches) - 1:
        checked = part.checked or (checked if batch.rereads else upto)
    stamp = old.stamp if upto == old.position else None
    if not batch.rereads:
        stamp = plan.draft.stamp(index, place) or stamp
    return replace(
        old,
        position=upto,
        checked=checked,
        epoch=plan.epoch,
        seq=seq,
        fingerprint=part.fingerprint,
        stamp=stamp,
        updated_at=now,
    )


def _describe_advance(
    flow_state: FlowState,
    held: Claim,
    moving: Sequence[InputPlan],
    marks: Mapping[str, InputWatermark],
    receipt: Receipt,
    *,
    rows: Mapping[str, int | None] | None,
    now: datetime,
) -> tuple[HistoryEvent, ...]:
    assert flow_state.run is not None
    seconds = (now - flow_state.run.started_at).total_seconds()
    return tuple(
        make_event(
            flow_state,
            "advanced",
            now,
            held.owner.actor,
            run_id=held.run_id,
            plan_id=held.plan.plan_id,
            input=part.input,
            before=flow_state.marks[part.input].position,
            after=marks[part.input].position,
            rows=receipt.rows if rows is None else rows[part.input],
            seconds=seconds,
        )
        for part in moving
    )


def _count_run(run: RunRecord, receipt: Receipt, *, whole: bool) -> RunRecord:
    return replace(
        run,
        batches=run.batches + whole,
        rows_read=run.rows_read + (receipt.rows if receipt.read is None else receipt.read),
        rows_written=run.rows_written + receipt.rows,
        rows_inserted=_add(run.rows_inserted, receipt.inserted),
        rows_updated=_add(run.rows_updated, receipt.updated),
        rows_deleted=_add(run.rows_deleted, receipt.deleted),
    )


def _add(known: int | None, more: int | None) -> int | None:
    return None if known is None or more is None else known + more
