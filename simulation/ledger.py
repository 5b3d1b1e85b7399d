"""A ledger in memory: load, let the real rule decide, save by compare-and-set, as every store does it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from types import FrameType
from typing import Any, Protocol

from simulation.places import NAME, PIPELINE
from simulation.world import Actor, Fault, World
from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger import plan_rules
from tidegauge.ledger.base import BaseLedger, Rule
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.ledger.flow_status import status_of, watermarks_of
from tidegauge.model.claim import Owner
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.run import EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.model.watermark import Tally, Watermark


class Watcher(Protocol):
    def ledger(self, before: FlowState, change: StateChange, who: Owner, at: datetime) -> None:
        """Check one change; `at` is the time on the store's clock when the rule decided it."""


class Desk:
    """The flow's state in the ledger, which all runners share."""

    def __init__(self, world: World, checker: Watcher) -> None:
        self.world = world
        self.checker = checker
        self.flow_state = FlowState(PIPELINE, NAME)
        self.plans = 0

    def ledger(self, actor: Actor) -> MemoryLedger:
        return MemoryLedger(self, actor)

    def save(self, seen: FlowState, change: StateChange, who: Owner, at: datetime) -> bool:
        """Save the change if nothing was saved since `seen`; False if another writer came first."""
        if self.flow_state is not seen:
            self.world.tally["race lost, asked again"] += 1
            return False
        if change.flow_state is not seen:
            self.flow_state = change.flow_state
            self.checker.ledger(seen, change, who, at)
        return True


class MemoryLedger(BaseLedger):
    """Implements LedgerWriter for one actor."""

    def __init__(self, desk: Desk, actor: Actor) -> None:
        self._desk = desk
        self._actor = actor
        self._world = desk.world

    def now(self) -> datetime:
        return self._world.now

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:
        return watermarks_of(self._read("watermarks"))

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        flow_state = self._read("status")
        return [status_of(flow_state, flow_state.run)]

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        return {NAME: self._read("tallies").tally}

    def history(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        failed: bool = False,
        events: Sequence[str] | None = None,
        limit: int = 20,
    ) -> list[HistoryEvent]:
        return []

    def runs(
        self,
        pipeline: str,
        *,
        since: datetime = datetime.min,
        flow: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        return []

    def run_totals(self, pipeline: str) -> list[RunTotals]:
        return []

    def event_totals(self, pipeline: str) -> list[EventTotals]:
        return []

    def pipelines(self) -> list[str]:
        return [PIPELINE]

    def ticks(self, pipeline: str) -> SchedulerRecords:
        return SchedulerRecords()

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        active = self._read("find_plan").active
        return (PIPELINE, NAME, True) if active and active.plan.plan_id == plan_id else None

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        [draft] = drafts
        plan_id = self._plan_id(draft)
        kept: list[Plan | None] = []

        def rule(flow_state: FlowState, now: datetime) -> StateChange | None:
            change, plan = plan_rules.plan(
                flow_state, draft, plan_id=plan_id, owner=owner, run_id=run_id, now=now
            )
            kept.append(plan)
            return change

        self._change(draft.pipeline, draft.flow, rule)
        plan = kept[-1]
        return {draft.flow: plan} if plan else {}

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        return {}

    def _read(self, what: str) -> FlowState:
        fault = self._actor.turn(what)
        if fault is not None:
            raise _unreachable(what, fault)
        return self._desk.flow_state

    def _plan_id(self, draft: Draft) -> str:
        self._desk.plans += 1
        return f"plan-{self._desk.plans}"

    def _change(self, pipeline: str, flow: str, rule: Rule, **known: Any) -> FlowState:
        """Ask the rule, save its change, and return the flow's state after the call."""
        what = _describe_call(sys._getframe(1))
        desk, actor = self._desk, self._actor
        fault = actor.turn(what)
        if fault is Fault.REFUSED:
            raise _unreachable(what, fault)
        while True:
            seen, at = desk.flow_state, self._world.now
            change = rule(seen, self.now())
            if change is None:
                change = StateChange(seen)
            if self._world.chance(self._world.middle):
                actor.turn(f"{what}: loaded, not saved", asking=False)
            if fault is Fault.LATE:
                self._world.later.append((what, partial(self._save_late, seen, change, at)))
                raise _unreachable(what, fault)
            if change.flow_state is seen or desk.save(seen, change, actor.owner, at):
                if fault is not Fault.DOUBLED:
                    break
                # The client sent the save twice and saw the second refused: load again, find it saved.
                fault = None
        if fault is Fault.LOST:
            raise _unreachable(what, fault)
        return change.flow_state

    def _save_late(self, seen: FlowState, change: StateChange, at: datetime) -> None:
        if not self._desk.save(seen, change, self._actor.owner, at):
            self._world.changed("refused: the book has moved on")


def _describe_call(caller: FrameType) -> str:
    """Describe for the trace the call of the ledger that asks for a change."""
    if caller.f_code.co_name == "_step":
        assert caller.f_back is not None
        caller = caller.f_back
    values = caller.f_locals
    told = [
        values[name]
        for name in ("index", "state", "plan_id", "kind", "epoch", "rows")
        if values.get(name) is not None
    ]
    told += [plan.plan_id for plan in [values.get("plan")] if isinstance(plan, Plan)]
    return " ".join([caller.f_code.co_name, *map(str, told)])


def _unreachable(what: str, fault: Fault) -> LedgerUnreachable:
    return LedgerUnreachable(f"{what}: {fault}", hint="feigned")
