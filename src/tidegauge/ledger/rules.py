"""The protocol: what each call does to a flow's book. Pure: the clock is handed in, nothing is stored here.

A rule gives the Change that a store has to keep, all of it or nothing, or raises and changes nothing. A store
that finds its book changed since it was loaded loads again and asks the rule again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tidegauge.errors import FlowHeld, LeaseLost, WrongState
from tidegauge.ledger.flow_state import ActivePlan, EndedPlan, FlowState, InputState, StateChange
from tidegauge.ledger.journal import clean, masked, sentence
from tidegauge.ledger.tallies import counted, spent
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.plan import Draft, InputPlan, Plan, Receipt
from tidegauge.model.position import Position, to_moment
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.secret import mask
from tidegauge.model.state import Event, State, step

SUPERSEDED = "SUPERSEDED"
_ENDINGS = {
    State.SUCCESS: Event.FINISH,
    State.SKIPPED: Event.SKIP,
    State.FAILED: Event.FAIL,
    State.PLANNED: Event.RELEASE,
}
_WORDS = {Event.FINISH: "finished", Event.SKIP: "skipped", Event.FAIL: "failed", Event.RELEASE: "released"}


# --- plan


def plan(
    flow_state: FlowState, draft: Draft, *, plan_id: str, owner: Owner, run_id: str, now: datetime
) -> tuple[StateChange | None, Plan | None]:
    """See LedgerWriter.plan. No change and no plan: the flow has moved on since it was looked at."""
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
    inputs = tuple(_since(flow_state.marks.get(part.input), part) for part in draft.inputs)
    kept = Plan(
        plan_id, replace(draft, inputs=inputs, notes=notes, seen=None), flow_state.epoch, flow_state.seq + 1
    )
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
        flow_state, marks=_looked(flow_state, draft, now, skipped=False), active=active, run=None
    )
    first, last = draft.batches[0], draft.batches[-1]
    events = tuple(
        event_of(
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


def _since(mark: InputState | None, part: InputPlan) -> InputPlan:
    """With the time of where it begins, which no source is asked for again."""
    known = mark.stamp if mark is not None and part.window is not None and part.window.after else None
    return replace(part, since=known) if known else part


def _skip(flow_state: FlowState, draft: Draft, *, owner: Owner, run_id: str, now: datetime) -> StateChange:
    state = step(flow_state.idle, Event.SKIP)
    run = _run(flow_state, run_id, state, now, ended=now)
    changed = replace(flow_state, idle=state, marks=_looked(flow_state, draft, now, skipped=True))
    return StateChange(changed, (event_of(flow_state, "skipped", now, owner.actor, run_id=run_id),), (run,))


def refuse(
    flow_state: FlowState, error: dict[str, Any], *, owner: Owner, run_id: str, now: datetime
) -> StateChange:
    state = step(flow_state.state, Event.REFUSE)
    # The flow is READY again; what was tried has failed.
    run = _run(flow_state, run_id, State.FAILED, now, ended=now, error=error)
    said = event_of(flow_state, "refused", now, owner.actor, run_id=run_id, error=error)
    return StateChange(replace(flow_state, idle=state), (said,), (run,))


def note(flow_state: FlowState, event: str, *, owner: Owner, reason: str, now: datetime) -> StateChange:
    return StateChange(flow_state, (event_of(flow_state, event, now, owner.actor, reason=reason),))


def _looked(flow_state: FlowState, draft: Draft, now: datetime, *, skipped: bool) -> dict[str, InputState]:
    """A mark from the first plan on. Positions move only in `advance`. How far we looked moves here if it
    found nothing; what was found counts as looked at once the plan's last batch is there."""
    marks = dict(flow_state.marks)
    for part in draft.inputs:
        old = marks.get(part.input)
        checked = old.checked if old else None
        if skipped and part.window is not None:
            checked = part.checked or part.window.upto
        if old is None:
            marks[part.input] = InputState(
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


# --- claim, and walk


def claim(
    flow_state: FlowState,
    plan_id: str,
    *,
    owner: Owner,
    run_id: str,
    lease: timedelta,
    dead: Owner | None,
    now: datetime,
) -> StateChange:
    refuse_override(flow_state)
    active = flow_state.active
    if active is None or active.plan.plan_id != plan_id:
        raise WrongState(
            f"{flow_state.flow}: this plan has ended, or another has taken its place",
            hint="another runner was faster; run again to see what is left",
            retryable=True,
        )
    taken = active.state is State.RUNNING
    if taken:
        _refuse_if_held(flow_state.flow, active, dead, now)
    after = step(active.state, Event.TAKE_OVER if taken else Event.CLAIM)
    held = replace(
        active,
        state=after,
        attempt=active.attempt + 1,
        owner=Owner(clean(owner.actor), clean(owner.host), owner.pid, clean(owner.started)),
        lease_until=now + lease,
        updated_at=now,
    )
    run = _run(flow_state, run_id, after, now, active=held)
    runs: tuple[RunRecord, ...] = (run,)
    reason = None
    tally = replace(flow_state.tally, strategy=active.plan.draft.strategy or flow_state.tally.strategy)
    if taken:
        # The run that was taken over never says itself that it has ended.
        runs = (*closed(flow_state, State.FAILED, now, lost(f"taken over by {_named(owner)}")), run)
        lease_until = active.lease_until or now
        why = "is gone" if now < lease_until else f"let its lease run out at {lease_until}"
        reason = f"{_named(active.owner)} {why}"
        tally = spent(tally, runs)
    changed = replace(flow_state, fence=flow_state.fence + 1, active=held, run=run, tally=tally)
    word = "taken_over" if taken else "claimed"
    said = event_of(flow_state, word, now, owner.actor, run_id=run_id, plan_id=plan_id, reason=reason)
    return StateChange(changed, (said,), runs)


def claim_of(flow_state: FlowState) -> Claim:
    """The claim that a book's running plan stands for."""
    active, run = flow_state.active, flow_state.run
    assert active is not None
    assert run is not None
    assert active.owner is not None
    assert active.lease_until is not None
    return Claim(active.plan, active.owner, run.run_id, flow_state.fence, active.attempt, active.lease_until)


def renew(flow_state: FlowState, held: Claim, lease: timedelta, *, now: datetime) -> StateChange:
    active = _held(flow_state, held, Event.RENEW)
    return StateChange(replace(flow_state, active=replace(active, lease_until=now + lease)))


def begin(flow_state: FlowState, held: Claim, index: int, *, now: datetime) -> StateChange:
    active = _held(flow_state, held, Event.BEGIN, index)
    return StateChange(replace(flow_state, active=replace(active, begun=index, updated_at=now)))


def advance(
    flow_state: FlowState,
    held: Claim,
    index: int,
    receipt: Receipt,
    *,
    now: datetime,
    rows: Mapping[str, int | None] | None = None,
) -> StateChange:
    """See LedgerWriter.advance. `rows` names the only inputs that are done, with their own counts."""
    active = _held(flow_state, held, Event.ADVANCE, index)
    kept, batch = active.plan, active.plan.draft.batches[index]
    if active.begun != index or receipt.tag != kept.tag(index):
        raise WrongState(
            f"{flow_state.flow}: batch {index} cannot advance before it was begun and its receipt is there",
            hint="begin it, write it, and ask the output for the receipt of its tag",
        )
    run = flow_state.run
    assert run is not None
    seq, marks, events = kept.first_seq + index, dict(flow_state.marks), []
    left = [part for part in kept.draft.inputs if part.input not in active.completed]
    moving = left if rows is None else [part for part in left if part.input in rows]
    whole = len(moving) == len(left)
    for place, (part, window) in enumerate(zip(kept.draft.inputs, batch.windows, strict=True)):
        old = marks[part.input]
        if part not in moving:
            if whole:
                marks[part.input] = replace(old, seq=seq)
            continue
        upto = old.position if batch.again else window.upto
        checked = old.checked
        if index == len(kept.draft.batches) - 1:
            checked = part.checked or (checked if batch.again else upto)
        stands = old.stamp if upto == old.position else None
        marks[part.input] = replace(
            old,
            position=upto,
            checked=checked,
            epoch=kept.epoch,
            # Counts whole batches: whoever looks in between must not take it for all that was planned.
            seq=seq if whole else old.seq,
            fingerprint=part.fingerprint,
            stamp=stands if batch.again else kept.draft.stamp(index, place) or stands,
            updated_at=now,
        )
        events.append(
            event_of(
                flow_state,
                "advanced",
                now,
                held.owner.actor,
                run_id=held.run_id,
                plan_id=kept.plan_id,
                input=part.input,
                before=old.position,
                after=upto,
                rows=receipt.rows if rows is None else rows[part.input],
                seconds=(now - run.started_at).total_seconds(),
            )
        )
    after = replace(
        run,
        batches=run.batches + whole,
        rows_read=run.rows_read + (receipt.rows if receipt.read is None else receipt.read),
        rows_written=run.rows_written + receipt.rows,
        rows_inserted=_sum(run.rows_inserted, receipt.inserted),
        rows_updated=_sum(run.rows_updated, receipt.updated),
        rows_deleted=_sum(run.rows_deleted, receipt.deleted),
    )
    moved = replace(
        active,
        plan=replace(kept, done=index + 1) if whole else kept,
        completed=frozenset() if whole else active.completed | {part.input for part in moving},
        updated_at=now,
    )
    changed = replace(
        flow_state,
        seq=seq if whole else flow_state.seq,
        marks=marks,
        active=moved,
        run=after,
        tally=counted(flow_state.tally, batch, receipt, whole=whole, now=now),
    )
    return StateChange(changed, tuple(events), (after,))


def finish(
    flow_state: FlowState, held: Claim, state: State, error: dict[str, Any] | None, *, now: datetime
) -> StateChange:
    event = _ENDINGS.get(state)
    if event is None:
        raise WrongState(
            f"{flow_state.flow}: an attempt cannot end as {state}",
            hint=f"it can end as: {', '.join(_ENDINGS)}",
        )
    active = _held(flow_state, held, event)
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
            # What was begun may be visible under its tag, and the next plan would use the tag again.
            raise WrongState(
                f"{flow_state.flow}: a batch was begun, so the plan cannot be skipped any more",
                hint="end the attempt as SUCCESS or FAILED",
            )
        # A skip is no failure: what the caller says of it is its reason.
        reason, error = str(error["message"]) if error else None, None
    freed = replace(active, state=after, owner=None, lease_until=None, updated_at=now)
    runs = closed(flow_state, after, now, error)
    said = event_of(
        flow_state,
        _WORDS[event],
        now,
        held.owner.actor,
        run_id=held.run_id,
        plan_id=kept.plan_id,
        reason=reason,
        error=error,
    )
    flow_state = replace(flow_state, tally=spent(flow_state.tally, runs))
    if event in (Event.FINISH, Event.SKIP):
        done = replace(flow_state, idle=after, active=None, run=None)
        return StateChange(done, (said,), runs, (EndedPlan(freed, after.value),))
    return StateChange(replace(flow_state, active=freed, run=runs[0]), (said,), runs)


# --- parts


def _held(flow_state: FlowState, held: Claim, event: Event, index: int | None = None) -> ActivePlan:
    """The plan, while it is this claim's and the event has a place; `index` must be the next batch."""
    active, kept = flow_state.active, held.plan
    if flow_state.fence != held.fence:
        by = active.owner if active else None
        raise LeaseLost(
            f"{flow_state.flow} was taken over by {_named(by)}"
            if by
            else f"{flow_state.flow} was taken over by another",
            hint="nothing is lost: whoever has it now goes on from what is committed",
        )
    if active is None or active.plan.plan_id != kept.plan_id or active.state is not State.RUNNING:
        state = active.state if active else flow_state.idle
        raise WrongState(
            f"{flow_state.flow}: this attempt has ended already as {state}, and cannot {event}",
            hint="an attempt ends once; run again for what is new",
        )
    step(active.state, event)
    if index is not None and index != active.plan.done:
        raise WrongState(
            f"{flow_state.flow}: batch {index} cannot {event} while {active.plan.done} of"
            f" {len(kept.draft.batches)} are done",
            hint="batches go one after the other",
        )
    return active


def _refuse_if_held(flow: str, active: ActivePlan, dead: Owner | None, now: datetime) -> None:
    until = active.lease_until
    if until is None or now >= until or (dead is not None and dead == active.owner):
        return
    raise FlowHeld(
        f"{flow} is held by {_named(active.owner)} until {until:%Y-%m-%d %H:%M:%S} UTC",
        hint="wait for it with `--wait`; if that process is gone, its lease ends by itself",
    )


def refuse_override(flow_state: FlowState) -> None:
    if flow_state.override is not None:
        raise WrongState(
            f"{flow_state.flow}: an override ({flow_state.override.kind}) by {flow_state.override.actor}"
            " was begun at"
            f" {flow_state.override.at:%Y-%m-%d %H:%M:%S} UTC and has not ended",
            hint="`tidegauge run` ends it and goes on; so does the same override again",
            retryable=True,
        )


def _named(owner: Owner | None) -> str:
    return f"{owner.actor} (process {owner.pid})" if owner else "another runner"


def lost(message: str) -> dict[str, Any]:
    return {"type": LeaseLost.__name__, "message": message, "retryable": True}


def _run(
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
        error=masked(error),
        # Nothing has changed before the first batch; a batch that cannot tell makes it unknown.
        rows_inserted=0,
        rows_updated=0,
        rows_deleted=0,
        window=active.plan.draft.inputs[0].window if active else None,
        times=_times(active.plan.draft.inputs[0]) if active else (None, None),
    )


def _times(part: InputPlan) -> tuple[datetime | None, datetime | None]:
    if part.window is None:
        return None, None
    return (
        to_moment(part.window.after, part.cursor, part.since),
        to_moment(part.window.upto, part.cursor, part.stamp),
    )


def _sum(known: int | None, more: int | None) -> int | None:
    return None if known is None or more is None else known + more


def closed(
    flow_state: FlowState, state: State, now: datetime, error: dict[str, Any] | None
) -> tuple[RunRecord, ...]:
    assert flow_state.run is not None
    return (replace(flow_state.run, state=state, ended_at=now, error=masked(error)),)


def event_of(
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
        error=None if error is None else sentence(error),
        input=input,
        plan_id=plan_id,
        rows=rows,
        seconds=seconds,
    )
