"""Rules of schedules: suspend and resume flows, list a pipeline's schedulers, hand out due times. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tidegauge.errors import FlowSuspended, SchedulersDisagree
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.journal import clean
from tidegauge.ledger.rule_records import make_event, name_owner
from tidegauge.model.claim import Owner
from tidegauge.model.schedule import CatchUp, FlowSchedule, find_due
from tidegauge.model.secret import mask
from tidegauge.model.suspension import Suspension
from tidegauge.model.ticks import SILENCE, ScheduleTicks, SeenScheduler, Tick

_MICROSECOND = timedelta(microseconds=1)


def suspend(flow_state: FlowState, *, owner: Owner, reason: str, now: datetime) -> StateChange | None:
    """See LedgerWriter.suspend. None if the flow is suspended already; the earlier reason stays."""
    if flow_state.suspended is not None:
        return None
    kept = Suspension(clean(mask(reason)), clean(owner.actor), now)
    logged = make_event(flow_state, "suspended", now, owner.actor, reason=reason)
    return StateChange(replace(flow_state, suspended=kept), (logged,))


def resume(flow_state: FlowState, *, owner: Owner, reason: str, now: datetime) -> StateChange | None:
    """See LedgerWriter.resume. None if the flow is not suspended."""
    if flow_state.suspended is None:
        return None
    logged = make_event(flow_state, "resumed", now, owner.actor, reason=reason)
    return StateChange(replace(flow_state, suspended=None), (logged,))


def refuse_suspended(flow_state: FlowState) -> None:
    if flow_state.suspended is not None:
        raise suspended_error(flow_state.flow, flow_state.suspended)


def suspended_error(flow: str, suspended: Suspension, *, pipeline: str | None = None) -> FlowSuspended:
    """The error for a suspended flow, or for its pipeline if `pipeline` is given: then all of it is
    suspended."""
    who = f"the pipeline {pipeline}" if pipeline is not None else flow
    return FlowSuspended(
        f"{who} was suspended by {suspended.actor} at {suspended.at:%Y-%m-%d %H:%M:%S} UTC:"
        f" {suspended.reason}",
        hint=f"`tidegauge schedule resume {flow if pipeline is None else pipeline} --reason …` lets it run",
    )


def join_schedulers(
    flow_state: FlowState,
    me: SeenScheduler,
    schedules: Sequence[FlowSchedule],
    *,
    dead: Collection[Owner],
    now: datetime,
) -> StateChange:
    """Record that a scheduler is alive. Raises SchedulersDisagree while another one with a different file is.

    A new schedule begins now; one that the file no longer has is dropped.
    """
    book = flow_state.ticks
    others = [
        one
        for one in book.schedulers
        if one.owner != me.owner and one.owner not in dead and abs(now - one.seen) < SILENCE
    ]
    other = next((one for one in others if one.file != me.file), None)
    if other is not None:
        raise SchedulersDisagree(
            f"{flow_state.pipeline} is scheduled by {name_owner(other.owner)} too, whose {other.path} has"
            f" other flows or schedules than {me.path}",
            hint="give both the same file; or stop that one first, and begin again",
        )
    kept = {str(one): book.schedules.get(str(one)) or ScheduleTicks(fired=now) for one in schedules}
    changed = replace(book, schedules=kept, schedulers=(*others, replace(me, seen=now)))
    return StateChange(replace(flow_state, ticks=changed))


def leave_schedulers(flow_state: FlowState, owner: Owner) -> StateChange | None:
    """Remove a scheduler that ends, so that others need not wait until it counts as gone. The time of a run
    that it has not ended is due again."""
    book = flow_state.ticks
    kept = tuple(one for one in book.schedulers if one.owner != owner)
    if kept == book.schedulers:
        return None
    return StateChange(replace(flow_state, ticks=replace(book, schedulers=kept)))


def take_tick(
    flow_state: FlowState, schedule: FlowSchedule, *, owner: Owner, dead: Collection[Owner], now: datetime
) -> tuple[StateChange | None, Tick]:
    """Give the time that is due to the first scheduler that asks.

    While a run for an earlier time is under way, times that come due are passed over and counted; with
    `catch_up: all` they wait. If the runner of a run is gone, its time is due again.
    """
    name, book = str(schedule), flow_state.ticks
    ticks = book.schedules.get(name) or ScheduleTicks(fired=now)
    lost = ticks.runner is not None and _is_gone(flow_state, ticks.runner, owner, dead, now)
    busy = ticks.runner is not None and not lost
    due = find_due(schedule, ticks.fired - _MICROSECOND if lost else ticks.fired, now)
    if name in book.schedules and due.upto == ticks.fired and not lost:
        return None, Tick(None)
    if busy and schedule.catch_up is CatchUp.ALL:
        return None, Tick(None)
    if busy and due.upto > ticks.fired:
        newest = schedule.last(now)
        skipped = schedule.count(ticks.fired, newest)
        after, tick = (
            replace(ticks, fired=newest, skipped=ticks.skipped + skipped),
            Tick(None, skipped=skipped),
        )
    else:
        tick = Tick(due.tick, missed=due.missed)
        after = replace(
            ticks,
            fired=due.upto,
            runner=owner if due.tick is not None else ticks.runner if busy else None,
            ran=ticks.ran + (due.tick is not None),
            missed=ticks.missed + due.missed,
        )
    changed = replace(book, schedules={**book.schedules, name: after})
    return StateChange(replace(flow_state, ticks=changed)), tick


def end_tick(flow_state: FlowState, schedule: FlowSchedule, *, owner: Owner) -> StateChange | None:
    """Record that the run for a time has ended. None if `owner` is not running one."""
    book, name = flow_state.ticks, str(schedule)
    ticks = book.schedules.get(name)
    if ticks is None or ticks.runner != owner:
        return None
    changed = replace(book, schedules={**book.schedules, name: replace(ticks, runner=None)})
    return StateChange(replace(flow_state, ticks=changed))


def _is_gone(flow_state: FlowState, runner: Owner, me: Owner, dead: Collection[Owner], now: datetime) -> bool:
    if runner in dead:
        return True
    seen = {one.owner for one in flow_state.ticks.schedulers if abs(now - one.seen) < SILENCE}
    return runner != me and runner not in seen
