"""Rules for callers who do the work themselves: several steps of the protocol in one change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tidegauge.errors import ConfigError, WrongState
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.rules import advance, begin, claim, claim_of, finish, plan, refuse_override
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.plan import Draft, Receipt
from tidegauge.model.state import Event, State, step

_ENDLESS = timedelta(days=36500)
"""The lease of a claim that ends in the same change."""


def complete(
    book: FlowState,
    plan_id: str,
    *,
    owner: Owner,
    run_id: str,
    rows: Mapping[str, int | None] | None,
    now: datetime,
    held: Claim | None = None,
) -> StateChange:
    """See LedgerWriter.complete."""
    change = StateChange(book) if held else _taken(book, plan_id, owner=owner, run_id=run_id, now=now)
    held = held or claim_of(change.book)
    change = _then(change, begin(change.book, held, 0, now=now))
    active = change.book.active
    assert active is not None
    draft = active.plan.draft
    for name in rows or ():
        if name not in {part.input for part in draft.inputs}:
            raise ConfigError(
                f"{book.flow}: the plan has no table '{name}'",
                hint=f"it has: {', '.join(part.input for part in draft.inputs)}",
            )
    if rows is None:
        rows = dict.fromkeys(part.input for part in draft.inputs)
    counts = [count or 0 for count in rows.values()]
    receipt = Receipt(active.plan.tag(0), draft.batches[0].windows, sum(counts), 0, 0, run_id)
    change = _then(change, advance(change.book, held, 0, receipt, now=now, rows=rows))
    assert change.book.active is not None
    if change.book.active.plan.done == len(draft.batches):
        return _then(change, finish(change.book, held, State.SUCCESS, None, now=now))
    if book.fence == held.fence:
        return change  # the caller's process held it before, and goes on
    return _then(change, finish(change.book, held, State.PLANNED, None, now=now))


def fail(
    book: FlowState, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str, now: datetime
) -> StateChange:
    change = _taken(book, plan_id, owner=owner, run_id=run_id, now=now)
    return _then(change, finish(change.book, claim_of(change.book), State.FAILED, error, now=now))


def move(
    book: FlowState,
    draft: Draft,
    *,
    plan_id: str,
    owner: Owner,
    run_id: str,
    rows: int | None,
    now: datetime,
) -> StateChange:
    """See LedgerWriter.move."""
    refuse_override(book)
    if book.active is not None:
        step(book.active.state, Event.PLAN)
    planned, kept = plan(book, draft, plan_id=plan_id, owner=owner, run_id=run_id, now=now)
    if planned is None or kept is None:
        raise WrongState(
            f"{book.flow} has moved on since it was looked at", hint="look again", retryable=True
        )
    counts = {part.input: rows for part in draft.inputs}
    return _then(planned, complete(planned.book, plan_id, owner=owner, run_id=run_id, rows=counts, now=now))


def _taken(book: FlowState, plan_id: str, *, owner: Owner, run_id: str, now: datetime) -> StateChange:
    """The plan claimed, unless the caller's own process holds it already."""
    active = book.active
    if active is not None and active.plan.plan_id == plan_id and active.owner == owner:
        return StateChange(book)
    return claim(book, plan_id, owner=owner, run_id=run_id, lease=_ENDLESS, dead=None, now=now)


def _then(first: StateChange, second: StateChange) -> StateChange:
    runs = {(run.plan_id, run.attempt): run for run in (*first.runs, *second.runs)}
    return StateChange(
        second.book, (*first.events, *second.events), tuple(runs.values()), (*first.ended, *second.ended)
    )
