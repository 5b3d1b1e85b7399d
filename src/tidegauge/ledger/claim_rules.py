"""Rules of the claim: take a plan, or take it over from an owner whose lease has ended; renew the lease; and
refuse everybody who holds no claim. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tidegauge.errors import FlowHeld, LeaseLost, WrongState
from tidegauge.ledger.flow_state import ActivePlan, FlowState, StateChange
from tidegauge.ledger.journal import clean
from tidegauge.ledger.rule_records import close_run, describe_lost_lease, make_event, name_owner, new_run
from tidegauge.ledger.tallies import add_seconds
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.run import RunRecord
from tidegauge.model.state import Event, State, step


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
        _refuse_while_leased(flow_state.flow, active, dead, now)
    after = step(active.state, Event.TAKE_OVER if taken else Event.CLAIM)
    held = replace(
        active,
        state=after,
        attempt=active.attempt + 1,
        owner=Owner(clean(owner.actor), clean(owner.host), owner.pid, clean(owner.started)),
        lease_until=now + lease,
        updated_at=now,
    )
    run = new_run(flow_state, run_id, after, now, active=held)
    runs: tuple[RunRecord, ...] = (run,)
    reason = None
    tally = replace(flow_state.tally, strategy=active.plan.draft.strategy or flow_state.tally.strategy)
    if taken:
        # A run that was taken over cannot record its own end any more.
        runs = (
            *close_run(
                flow_state, State.FAILED, now, describe_lost_lease(f"taken over by {name_owner(owner)}")
            ),
            run,
        )
        lease_until = active.lease_until or now
        why = "is gone" if now < lease_until else f"let its lease run out at {lease_until}"
        reason = f"{name_owner(active.owner)} {why}"
        tally = add_seconds(tally, runs)
    changed = replace(flow_state, fence=flow_state.fence + 1, active=held, run=run, tally=tally)
    word = "taken_over" if taken else "claimed"
    logged = make_event(flow_state, word, now, owner.actor, run_id=run_id, plan_id=plan_id, reason=reason)
    return StateChange(changed, (logged,), runs)


def claim_of(flow_state: FlowState) -> Claim:
    """The claim under which the flow's plan is running."""
    active, run = flow_state.active, flow_state.run
    assert active is not None
    assert run is not None
    assert active.owner is not None
    assert active.lease_until is not None
    return Claim(active.plan, active.owner, run.run_id, flow_state.fence, active.attempt, active.lease_until)


def renew(
    flow_state: FlowState, held: Claim, lease: timedelta, *, least: timedelta | None = None, now: datetime
) -> StateChange | None:
    active = check_held(flow_state, held, Event.RENEW)
    if least is not None and active.lease_until is not None and active.lease_until - now >= least:
        return None
    return StateChange(replace(flow_state, active=replace(active, lease_until=now + lease)))


def check_held(flow_state: FlowState, held: Claim, event: Event, index: int | None = None) -> ActivePlan:
    """Return the active plan. Raises LeaseLost once another has taken the flow, and WrongState if the attempt
    has ended, the event is not allowed now, or `index` is not the next batch."""
    active, kept = flow_state.active, held.plan
    if flow_state.fence != held.fence:
        raise LeaseLost(
            f"{flow_state.flow} was taken over by {name_owner(active.owner if active else None)}",
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


def refuse_override(flow_state: FlowState) -> None:
    if flow_state.override is not None:
        raise WrongState(
            f"{flow_state.flow}: an override ({flow_state.override.kind}) by {flow_state.override.actor}"
            " was begun at"
            f" {flow_state.override.at:%Y-%m-%d %H:%M:%S} UTC and has not ended",
            hint="`tidegauge run` ends it and goes on; so does the same override again",
            retryable=True,
        )


def _refuse_while_leased(flow: str, active: ActivePlan, dead: Owner | None, now: datetime) -> None:
    until = active.lease_until
    if until is None or now >= until or (dead is not None and dead == active.owner):
        return
    raise FlowHeld(
        f"{flow} is held by {name_owner(active.owner)} until {until:%Y-%m-%d %H:%M:%S} UTC",
        hint="wait for it with `--wait`; if that process is gone, its lease ends by itself",
    )
