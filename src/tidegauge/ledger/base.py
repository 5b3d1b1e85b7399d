"""The base class of every ledger: each call applies a pure rule to one flow's state.

A store adds `_change`, which loads and saves a state, and `plan`, which plans many flows at once."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidegauge.ledger import (
    attempt_rules,
    caller_rules,
    claim_rules,
    override_rules,
    plan_rules,
    rebuild_rules,
    schedule_rules,
)
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.override import FlowRevision, Override
from tidegauge.model.plan import Draft, Plan, Receipt
from tidegauge.model.position import Position
from tidegauge.model.run import FlowStatus
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SeenScheduler, Tick
from tidegauge.model.watermark import Recalled

Rule = Callable[[FlowState, datetime], StateChange | None]
"""A rule gets a flow's state and the store's time, and returns the change to save; None saves nothing."""


class BaseLedger(ABC):
    """Implements LedgerWriter, apart from `plan` and `prune`."""

    @abstractmethod
    def _change(
        self,
        pipeline: str,
        flow: str,
        rule: Rule,
        *,
        plan: Plan | None = None,
        marks: bool = True,
        run: bool = True,
        register: bool = True,
    ) -> FlowState:
        """Load a flow's state, apply the rule, save all of its change or nothing, and return the new state.
        Load again and repeat if another writer changed the flow in between.

        `plan`, `marks` and `run` only save work: `plan` is the plan that the caller takes for the active one,
        so its windows need not be read; without `marks` the watermarks, without `run` the attempt is neither
        read nor changed. `register`: the ledger lists the flow from now on.
        """

    def flow_states(self, pipeline: str) -> list[FlowState]:
        """The state of every flow that the ledger lists, in name order. `*`, which stands for the pipeline
        itself, comes first if the ledger has it."""
        found = [*self.status(pipeline, [ALL]), *self.status(pipeline)]
        names = [status.flow for status in found]
        return [self._change(pipeline, name, _change_nothing, register=False) for name in names]

    @abstractmethod
    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]: ...

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: plan_rules.refuse(flow_state, error, owner=owner, run_id=run_id, now=now),
        )

    def note(
        self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str, rows: int | None = None
    ) -> None:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: plan_rules.note(
                flow_state, event, owner=owner, reason=reason, rows=rows, now=now
            ),
            register=False,
        )

    def claim(
        self,
        plan: Plan,
        *,
        owner: Owner,
        run_id: str,
        lease: timedelta,
        dead: Owner | None = None,
        begins: bool = False,
    ) -> Claim:
        def rule(flow_state: FlowState, now: datetime) -> StateChange:
            # Not in `claim_rules.claim`, which `complete` uses too: a caller may record work that it has done
            # on a suspended flow.
            schedule_rules.refuse_suspended(flow_state)
            change = claim_rules.claim(
                flow_state, plan.plan_id, owner=owner, run_id=run_id, lease=lease, dead=dead, now=now
            )
            return attempt_rules.begin_next(change, now=now) if begins else change

        flow_state = self._change(
            plan.draft.pipeline,
            plan.draft.flow,
            rule,
            plan=plan,
            marks=False,
        )
        return claim_rules.claim_of(flow_state)

    def renew(self, claim: Claim, lease: timedelta, *, least: timedelta | None = None) -> None:
        self._step(
            claim,
            lambda flow_state, now: claim_rules.renew(flow_state, claim, lease, least=least, now=now),
            run=False,
        )

    def begin(self, claim: Claim, index: int) -> None:
        self._step(
            claim, lambda flow_state, now: attempt_rules.begin(flow_state, claim, index, now=now), run=False
        )

    def advance(self, claim: Claim, index: int, receipt: Receipt, *, ends: bool = False) -> None:
        def rule(flow_state: FlowState, now: datetime) -> StateChange:
            change = attempt_rules.advance(flow_state, claim, index, receipt, now=now)
            return attempt_rules.finish_last(change, claim, now=now) if ends else change

        self._change(claim.plan.draft.pipeline, claim.plan.draft.flow, rule, plan=claim.plan)

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        self._step(
            claim, lambda flow_state, now: attempt_rules.finish(flow_state, claim, state, error, now=now)
        )

    def complete(
        self,
        pipeline: str,
        flow: str,
        plan_id: str,
        *,
        owner: Owner,
        run_id: str,
        rows: Mapping[str, int | None] | None = None,
        claim: Claim | None = None,
    ) -> FlowStatus:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: caller_rules.complete(
                flow_state, plan_id, owner=owner, run_id=run_id, rows=rows, now=now, held=claim
            ),
        )
        return self._read_status(pipeline, flow)

    def fail(
        self, pipeline: str, flow: str, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str
    ) -> FlowStatus:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: caller_rules.fail(
                flow_state, plan_id, error, owner=owner, run_id=run_id, now=now
            ),
        )
        return self._read_status(pipeline, flow)

    def move(self, draft: Draft, *, owner: Owner, run_id: str, rows: int | None = None) -> None:
        plan_id = self._plan_id(draft)
        self._change(
            draft.pipeline,
            draft.flow,
            lambda flow_state, now: caller_rules.move(
                flow_state, draft, plan_id=plan_id, owner=owner, run_id=run_id, rows=rows, now=now
            ),
        )

    def begin_override(
        self,
        pipeline: str,
        flow: str,
        kind: str,
        positions: Mapping[str, Position | None],
        *,
        owner: Owner,
        reason: str,
        expected: FlowRevision | None = None,
    ) -> Override:
        flow_state = self._change(
            pipeline,
            flow,
            lambda flow_state, now: override_rules.begin_override(
                flow_state, kind, positions, owner=owner, reason=reason, now=now, expected=expected
            ),
        )
        assert flow_state.override is not None
        return flow_state.override

    def end_override(self, pipeline: str, flow: str, *, epoch: int) -> None:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: override_rules.end_override(flow_state, epoch=epoch, now=now),
        )

    def forget(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> None:
        self._change(
            pipeline,
            flow,
            lambda flow_state, now: override_rules.forget(flow_state, owner=owner, reason=reason, now=now),
        )

    def rebuild(
        self,
        pipeline: str,
        flow: str,
        marks: Mapping[str, Recalled],
        epoch: int,
        seq: int,
        *,
        owner: Owner,
        reason: str,
    ) -> bool:
        return self._change_and_report(
            pipeline,
            flow,
            lambda flow_state, now: rebuild_rules.rebuild(
                flow_state, marks, epoch, seq, owner=owner, reason=reason, now=now
            ),
        )

    def suspend(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        return self._change_and_report(
            pipeline,
            flow,
            lambda flow_state, now: schedule_rules.suspend(flow_state, owner=owner, reason=reason, now=now),
        )

    def resume(self, pipeline: str, flow: str, *, owner: Owner, reason: str) -> bool:
        return self._change_and_report(
            pipeline,
            flow,
            lambda flow_state, now: schedule_rules.resume(flow_state, owner=owner, reason=reason, now=now),
        )

    def join_schedulers(
        self,
        pipeline: str,
        me: SeenScheduler,
        schedules: Sequence[FlowSchedule],
        *,
        dead: Collection[Owner] = (),
    ) -> None:
        self._change_and_report(
            pipeline,
            ALL,
            lambda flow_state, now: schedule_rules.join_schedulers(
                flow_state, me, schedules, dead=dead, now=now
            ),
        )

    def leave_schedulers(self, pipeline: str, *, owner: Owner) -> None:
        self._change_and_report(
            pipeline, ALL, lambda flow_state, _: schedule_rules.leave_schedulers(flow_state, owner)
        )

    def take_tick(
        self, pipeline: str, schedule: FlowSchedule, *, owner: Owner, dead: Collection[Owner] = ()
    ) -> Tick:
        taken = Tick(None)

        def rule(flow_state: FlowState, now: datetime) -> StateChange | None:
            nonlocal taken
            change, taken = schedule_rules.take_tick(flow_state, schedule, owner=owner, dead=dead, now=now)
            return change

        self._change_and_report(pipeline, ALL, rule)
        return taken

    def end_tick(self, pipeline: str, schedule: FlowSchedule, *, owner: Owner) -> None:
        self._change_and_report(
            pipeline, ALL, lambda flow_state, _: schedule_rules.end_tick(flow_state, schedule, owner=owner)
        )

    def _change_and_report(self, pipeline: str, flow: str, rule: Rule) -> bool:
        """Like `_change`, but return whether the rule changed anything."""
        changed = False

        def watch_rule(flow_state: FlowState, now: datetime) -> StateChange | None:
            nonlocal changed
            change = rule(flow_state, now)
            changed = change is not None
            return change

        self._change(pipeline, flow, watch_rule)
        return changed

    def _plan_id(self, draft: Draft) -> str:  # noqa: ARG002 - a store may want to find the flow by it
        return uuid.uuid4().hex

    def _step(self, held: Claim, rule: Rule, *, run: bool = True) -> None:
        """Apply a rule of the claim's holder that does not touch the watermarks."""
        draft = held.plan.draft
        self._change(draft.pipeline, draft.flow, rule, plan=held.plan, marks=False, run=run)

    def _read_status(self, pipeline: str, flow: str) -> FlowStatus:
        [status] = self.status(pipeline, [flow])
        return status


def _change_nothing(flow_state: FlowState, now: datetime) -> None:
    """A rule for callers that only want to read the state."""
