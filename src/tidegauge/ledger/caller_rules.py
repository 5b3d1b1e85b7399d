"""Rules for callers that move the data themselves (the tracker): several steps of the protocol in one change.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tidegauge.errors import ConfigError, WrongState
from tidegauge.ledger.attempt_rules import advance, begin, finish
from tidegauge.ledger.claim_rules import claim, claim_of, refuse_override
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.plan_rules import plan
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.plan import Draft, Receipt
from tidegauge.model.state import Event, State, step

_ENDLESS = timedelta(days=36500)
"""The lease of a claim that ends in the same change."""


def complete(
    flow_state: FlowState,
    plan_id: str,
    *,
    owner: Owner,
    run_id: str,
    rows: Mapping[str, int | None] | None,
    now: datetime,
    held: Claim | None = None,
) -> StateChange:
    """See LedgerWriter.complete."""
    change = (
        StateChange(flow_state)
        if held
        else _claim_unless_held(flow_state, plan_id, owner=owner, run_id=run_id, now=now)
    )
    held = held or claim_of(change.flow_state)
    change = _join_changes(change, begin(change.flow_state, held, 0, now=now))
    active = change.flow_state.active
    assert active is not None
    draft = active.plan.draft
    rows = _check_inputs(draft, rows)
    counts = [count or 0 for count in rows.values()]
    receipt = Receipt(active.plan.tag(0), draft.batches[0].windows, sum(counts), 0, 0, run_id)
    change = _join_changes(change, advance(change.flow_state, held, 0, receipt, now=now, rows=rows))
    assert change.flow_state.active is not None
    if change.flow_state.active.plan.done == len(draft.batches):
        return _join_changes(change, finish(change.flow_state, held, State.SUCCESS, None, now=now))
    if flow_state.fence == held.fence:
        return change  # the caller held the claim before this call, and keeps it
    return _join_changes(change, finish(change.flow_state, held, State.PLANNED, None, now=now))


def _check_inputs(draft: Draft, rows: Mapping[str, int | None] | None) -> Mapping[str, int | None]:
    """The row count of each input to complete: of those in `rows`, or None for each input of the plan if
    `rows` is None. Raises ConfigError for an input that the plan does not have."""
    inputs = [part.input for part in draft.inputs]
    for name in rows or ():
        if name not in inputs:
            raise ConfigError(
                f"{draft.flow}: the plan has no table '{name}'", hint=f"it has: {', '.join(inputs)}"
            )
    return dict.fromkeys(inputs) if rows is None else rows


def fail(
    flow_state: FlowState, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str, now: datetime
) -> StateChange:
    change = _claim_unless_held(flow_state, plan_id, owner=owner, run_id=run_id, now=now)
    return _join_changes(
        change, finish(change.flow_state, claim_of(change.flow_state), State.FAILED, error, now=now)
    )


def move(
    flow_state: FlowState,
    draft: Draft,
    *,
    plan_id: str,
    owner: Owner,
    run_id: str,
    rows: int | None,
    now: datetime,
) -> StateChange:
    """See LedgerWriter.move."""
    refuse_override(flow_state)
    if flow_state.active is not None:
        step(flow_state.active.state, Event.PLAN)
    planned, kept = plan(flow_state, draft, plan_id=plan_id, owner=owner, run_id=run_id, now=now)
    if planned is None or kept is None:
        raise WrongState(
            f"{flow_state.flow} has moved on since it was looked at", hint="look again", retryable=True
        )
    counts = {part.input: rows for part in draft.inputs}
    return _join_changes(
        planned, complete(planned.flow_state, plan_id, owner=owner, run_id=run_id, rows=counts, now=now)
    )


def _claim_unless_held(
    flow_state: FlowState, plan_id: str, *, owner: Owner, run_id: str, now: datetime
) -> StateChange:
    """Claim the plan, unless the caller's own process holds it already: then nothing changes."""
    active = flow_state.active
    if active is not None and active.plan.plan_id == plan_id and active.owner == owner:
        return StateChange(flow_state)
    return claim(flow_state, plan_id, owner=owner, run_id=run_id, lease=_ENDLESS, dead=None, now=now)


def _join_changes(first: StateChange, second: StateChange) -> StateChange:
    runs = {(run.plan_id, run.attempt): run for run in (*first.runs, *second.runs)}
    return StateChange(
        second.flow_state,
        (*first.events, *second.events),
        tuple(runs.values()),
        (*first.ended, *second.ended),
    )
