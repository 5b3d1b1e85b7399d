"""Deliberate faults in the protocol, each of which the simulation must find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from simulation.invariants import EPOCHS, LEASE_HOLDS, PLAN, VISIBLE, WRITER
from simulation.lake import Lake, Manifest
from simulation.ledger import MemoryLedger
from simulation.places import at
from simulation.source import MemorySource, Table
from tidegauge.ledger import attempt_rules, claim_rules, plan_rules
from tidegauge.ledger import override_rules as byhand
from tidegauge.ledger.flow_state import ActivePlan, FlowState, StateChange
from tidegauge.model.batch_data import ReadBatch
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.override import Override
from tidegauge.model.plan import Draft, Plan, Receipt, Tag
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import TableFlow
from tidegauge.model.state import Event, State
from tidegauge.model.table import Cut
from tidegauge.observe.events import Listener
from tidegauge.run import commit_batch as batches
from tidegauge.run import executor
from tidegauge.run import ready as standing


@dataclass(frozen=True)
class Mutation:
    name: str
    place: object
    """The module or class whose function is replaced."""
    function: str
    by: object
    caught_by: str
    """The invariant that this mutation must break."""

    @contextmanager
    def made(self) -> Iterator[None]:
        kept = getattr(self.place, self.function)
        setattr(self.place, self.function, self.by)
        try:
            yield
        finally:
            setattr(self.place, self.function, kept)


_finish = attempt_rules.finish
_begin_override = byhand.begin_override
_end_override = byhand.end_override
_held = claim_rules.check_held
_plan = plan_rules.plan
_claim = claim_rules.claim
_found = MemorySource._found


def _advance_first(
    claim: Claim, index: int, read_batch: ReadBatch, tools: batches.CommitResources
) -> Receipt:
    batch = claim.plan.draft.batches[index]
    tools.ledger.begin(claim, index)
    forged = Receipt(claim.plan.tag(index), batch.windows, batch.rows or 0, 1, 0, claim.run_id)
    tools.ledger.advance(claim, index, forged)
    batch_data = read_batch(batch)
    staged = tools.output.stage(batch_data, tools.spark)
    return batches.publish_batch(claim, index, batch_data, staged, tools)


def _same_epoch(flow_state: FlowState, *args: Any, **options: Any) -> StateChange:
    change = _begin_override(flow_state, *args, **options)
    assert change.flow_state.override is not None
    return replace(
        change,
        flow_state=replace(
            change.flow_state, override=replace(change.flow_state.override, epoch=flow_state.epoch)
        ),
    )


def _put_always(lake: Lake, tag: Tag, manifest: Manifest) -> bool:
    lake.put(tag, manifest)
    return True


def _forget_failed_plan(
    flow_state: FlowState, held: Claim, state: State, *args: Any, **options: Any
) -> StateChange:
    change = _finish(flow_state, held, state, *args, **options)
    if state is State.FAILED:
        return replace(change, flow_state=replace(change.flow_state, active=None, run=None))
    return change


def _read_runners_clock(ledger: MemoryLedger) -> datetime:
    return ledger._world.now + ledger._actor.skew


def _any_fence(flow_state: FlowState, held: Claim, event: Event, index: int | None = None) -> ActivePlan:
    return _held(flow_state, replace(held, fence=flow_state.fence), event, index)


def _mark_before_output(
    ledger: LedgerWriter, output: Output, flow: TableFlow, begun: Override, tell: Listener
) -> None:
    ledger.end_override(flow.pipeline, flow.name, epoch=begun.epoch)
    output.open_epoch(flow.pipeline, flow.name, begun.epoch, begun.continues, begun.reason)


def _one_batch_less(flow_state: FlowState, *args: Any, **options: Any) -> StateChange:
    change = _begin_override(flow_state, *args, **options)
    override = change.flow_state.override
    assert override is not None
    if override.continues is not None:
        epoch, seq = override.continues
        override = replace(override, continues=(epoch, max(0, seq - 1)))
    return replace(change, flow_state=replace(change.flow_state, override=override))


def _undo_of_known(flow_state: FlowState, **options: Any) -> StateChange | None:
    change = _end_override(flow_state, **options)
    if change is None or change.flow_state.undo is None:
        return change
    known = {
        name: place for name, place in change.flow_state.undo.positions.items() if name in flow_state.marks
    }
    undo = replace(change.flow_state.undo, positions=known)
    return replace(change, flow_state=replace(change.flow_state, undo=undo))


def _upto_the_bound(source: MemorySource, low: int, high: int, step: int) -> tuple[Cut, ...]:
    found = _found(source, low, high, step)
    upto = at(high)
    return (*found[:-1], Cut(upto, found[-1].rows)) if found and upto else ()


def _plan_unseen(
    flow_state: FlowState, draft: Draft, **options: Any
) -> tuple[StateChange | None, Plan | None]:
    return _plan(flow_state, replace(draft, seen=None), **options)


def _claim_from_any(
    flow_state: FlowState, plan_id: str, *, dead: Owner | None, **options: Any
) -> StateChange:
    if dead is not None and flow_state.active is not None:
        dead = flow_state.active.owner
    return _claim(flow_state, plan_id, dead=dead, **options)


FIVE = (
    Mutation("advance before write", executor, "commit_batch", _advance_first, VISIBLE),
    Mutation("reuse of an epoch", byhand, "begin_override", _same_epoch, EPOCHS),
    Mutation("no fence in the output", Lake, "put_if_absent", _put_always, WRITER),
    Mutation("new windows on retry", attempt_rules, "finish", _forget_failed_plan, PLAN),
    Mutation("lease on the runner's clock", MemoryLedger, "now", _read_runners_clock, LEASE_HOLDS),
)

MORE = (
    Mutation("no fence in the ledger", claim_rules, "check_held", _any_fence, WRITER),
    Mutation(
        "the ledger moves before the epoch is open", standing, "end_override", _mark_before_output, EPOCHS
    ),
    Mutation("a set that continues one batch less", byhand, "begin_override", _one_batch_less, VISIBLE),
    Mutation("an undo that forgets an input", byhand, "end_override", _undo_of_known, VISIBLE),
    Mutation("a draft from before others moved on", plan_rules, "plan", _plan_unseen, PLAN),
    Mutation(
        "whoever holds it is taken for the dead one", claim_rules, "claim", _claim_from_any, LEASE_HOLDS
    ),
    Mutation("a watermark at the bound, past the last row", MemorySource, "_found", _upto_the_bound, VISIBLE),
    Mutation("a bound above an open transaction", Table, "bound", property(lambda t: t.top), VISIBLE),
)
