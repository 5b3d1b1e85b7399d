"""What must hold of the ledger after every step, for any kind of output."""

from __future__ import annotations

from datetime import datetime

from simulation.places import DAWN, LEASE, number
from simulation.world import World
from tidegauge.ledger.flow_state import ActivePlan, FlowState, StateChange
from tidegauge.model.claim import Owner
from tidegauge.model.position import Window
from tidegauge.model.state import State

VISIBLE = "the watermark never passes data that is not visible"
ONCE = "nothing is visible twice"
FENCE = "the fence only grows"
WRITER = "at most one effective writer"
EPOCHS = "epochs only grow"
PLAN = "a plan keeps its windows until it ends"
LEASE_HOLDS = "a live holder is not robbed before its lease ends on the store's clock"
ENDS = "every plan ends or is retryable"
SURPRISE = "nothing raises what it does not promise"


class StateChecks:
    """Checks the fence, the holder, the plan and the epoch at every change of a flow's state."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.planned: dict[tuple[int, int], tuple[Window, ...]] = {}
        """The windows of every batch that was ever planned, by epoch and number."""
        self._until: datetime = DAWN
        """When the holder's lease ends by the store's clock, computed here, not taken from the ledger."""

    def check(self, before: FlowState, change: StateChange, who: Owner, at: datetime) -> None:
        """Check one change; `at` is the time on the store's clock when the rule decided it."""
        after = change.flow_state
        if self._world.trace is not None:
            self._world.changed(_describe_change(before, after))
        if after.fence < before.fence:
            self._world.violated(FENCE, f"{before.fence} → {after.fence}")
        self._check_holder(before, after, who, at)
        self._check_plan(before, change)
        self._check_epoch(before, after)

    def _check_holder(self, before: FlowState, after: FlowState, who: Owner, at: datetime) -> None:
        old, new = before.active, after.active
        if old is not None and after.fence == before.fence and old.owner not in (None, who):
            self._world.violated(WRITER, f"{who.actor} changed the flow, and it was not the holder")
        if new is None or new.lease_until is None:
            return
        taken = (
            old is not None
            and old.state is State.RUNNING
            and old.owner is not None
            and after.fence != before.fence
        )
        if taken:
            assert old is not None
            assert old.owner is not None
            if at < self._until and old.owner not in self._world.ended:
                left = (self._until - at).total_seconds()
                self._world.violated(
                    LEASE_HOLDS,
                    f"{who.actor} took the flow from {old.owner.actor}, whose lease has {left:.0f}s left",
                )
            self._world.tally["taken over"] += 1
        if old is None or new.lease_until != old.lease_until or after.fence != before.fence:
            if after.fence == before.fence and (old is None or new.owner != old.owner):
                self._world.violated(FENCE, f"{who.actor} holds the flow, and the fence was not raised")
            self._until = at + LEASE

    def _check_plan(self, before: FlowState, change: StateChange) -> None:
        old, after = before.active, change.flow_state
        new = after.active
        if old is not None and (new is None or new.plan.plan_id != old.plan.plan_id):
            superseded = before.override is not None and after.override is None
            # The change that ends a plan may also count its last batch as done.
            done = after.seq + 1 == old.plan.first_seq + len(old.plan.draft.batches)
            if not superseded and not done:
                self._world.violated(
                    PLAN, f"{old.plan.plan_id} is gone with {old.plan.done} of its batches done"
                )
        if new is None:
            return
        plan = new.plan
        if old is not None and old.plan.plan_id == plan.plan_id:
            if plan is not old.plan and (
                plan.draft != old.plan.draft
                or (plan.epoch, plan.first_seq) != (old.plan.epoch, old.plan.first_seq)
                or not 0 <= plan.done - old.plan.done <= 1
            ):
                self._world.violated(PLAN, f"{plan.plan_id} is not what it was")
        else:
            self._check_new_plan(after, new)
        if plan.epoch != after.epoch or plan.first_seq + plan.done != after.seq + 1:
            self._world.violated(
                PLAN,
                f"{plan.plan_id} is at {plan.epoch}/{plan.first_seq + plan.done}, the flow at"
                f" {after.epoch}/{after.seq + 1}",
            )

    def _check_new_plan(self, flow_state: FlowState, active: ActivePlan) -> None:
        self._world.tally["plans"] += 1
        plan = active.plan
        ends = [mark_of(flow_state, part.input) for part in plan.draft.inputs]
        for index, batch in enumerate(plan.draft.batches):
            key = (plan.epoch, plan.first_seq + index)
            if self.planned.get(key, batch.windows) != batch.windows:
                self._world.violated(PLAN, f"{key[0]}/{key[1]} was planned with another window before")
            self.planned[key] = batch.windows
            begins = [number(window.after) for window in batch.windows]
            if begins != ends:
                self._world.violated(PLAN, f"{key[0]}/{key[1]} begins at {begins}, not at {ends}")
            ends = [number(window.upto) for window in batch.windows]

    def _check_epoch(self, before: FlowState, after: FlowState) -> None:
        if after.override != before.override:
            if before.override is None:
                assert after.override is not None
                self._world.tally[f"override {after.override.kind}"] += 1
                if after.override.epoch <= before.epoch:
                    self._world.violated(EPOCHS, f"epoch {after.override.epoch} comes after {before.epoch}")
                if after.fence == before.fence:
                    self._world.violated(FENCE, "an override was begun, and the fence was not raised")
            elif after.override is not None:
                self._world.violated(EPOCHS, "an override took another's place")
            elif after.epoch != before.override.epoch or after.seq != 0:
                self._world.violated(
                    EPOCHS, f"epoch {before.override.epoch} began as {after.epoch}/{after.seq}"
                )
        elif after.epoch != before.epoch:
            self._world.violated(EPOCHS, f"{before.epoch} → {after.epoch} without an override")
        elif after.seq < before.seq:
            self._world.violated(WRITER, f"batch {before.seq} → {after.seq}")


def mark_of(flow_state: FlowState, name: str) -> int:
    mark = flow_state.marks.get(name)
    return number(mark.position) if mark else 0


def marks_of(flow_state: FlowState) -> list[int]:
    return [number(mark.position) for mark in flow_state.marks.values()]


def _format_numbers(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers)) or "0"


def _describe_change(before: FlowState, after: FlowState) -> str:
    said = []
    if after.state != before.state:
        said.append(f"{before.state} → {after.state}")
    if after.fence != before.fence:
        said.append(f"fence {after.fence}")
    if (after.epoch, after.seq) != (before.epoch, before.seq):
        said.append(f"at {after.epoch}/{after.seq}")
    if marks_of(after) != marks_of(before):
        said.append(f"watermark {_format_numbers(marks_of(before))} → {_format_numbers(marks_of(after))}")
    old, new = before.active, after.active
    if new is not None and (old is None or new.plan.plan_id != old.plan.plan_id):
        batches = [[number(window.upto) for window in batch.windows] for batch in new.plan.draft.batches]
        said.append(f"{new.plan.plan_id}: batches up to {', '.join(map(_format_numbers, batches))}")
    if (
        new is not None
        and new.lease_until is not None
        and (old is None or new.lease_until != old.lease_until)
    ):
        said.append(f"lease until {(new.lease_until - DAWN).total_seconds():.0f}s")
    if after.override != before.override:
        said.append(f"override {after.override.kind} begun" if after.override else "override ended")
    return ", ".join(said) or "noted"
