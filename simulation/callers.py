"""A flow with two inputs whose callers do the work themselves: they plan, and report what they completed."""

from __future__ import annotations

import traceback
from datetime import datetime

from simulation.invariants import ENDS, SURPRISE, WRITER, StateChecks, mark_of
from simulation.ledger import Desk, MemoryLedger
from simulation.places import LEASE, NAME, PIPELINE, at
from simulation.world import Actor, World
from tidegauge.errors import LeaseLost, LedgerError, TidegaugeError
from tidegauge.ledger.flow_state import FlowState, StateChange
from tidegauge.model.claim import Claim, Owner
from tidegauge.model.plan import Batch, Draft, InputPlan, Plan
from tidegauge.model.position import Window
from tidegauge.model.watermark import Watermark

INPUTS = ("left", "right")


class CallerScene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.tops = dict.fromkeys(INPUTS, 1)
        self._checks = StateChecks(world)
        self.desk = Desk(world, self)

    def ledger(self, before: FlowState, change: StateChange, who: Owner, when: datetime) -> None:
        """Check that an input moves only by its plan's window and only once, or by an override."""
        self._checks.check(before, change, who, when)
        after = change.flow_state
        if before.override is not None and after.override is None:
            return
        active = before.active or after.active or next((one.active for one in change.ended), None)
        for place, name in enumerate(INPUTS):
            low, high = mark_of(before, name), mark_of(after, name)
            if low == high:
                continue
            assert active is not None
            window = active.plan.draft.batches[0].windows[place]
            if (at(low), at(high)) != (window.after, window.upto) or name in active.completed:
                self.world.violated(WRITER, f"{name} moved from {low} to {high}, and its plan says {window}")

    def change(self) -> None:
        name = self.world.random.choice(INPUTS)
        self.tops[name] += 1
        self.world.say(f"{'source':<22} {name} is at {self.tops[name]}")

    def commit(self) -> None:
        pass

    def process(self, actor: Actor) -> CallerProcess:
        return CallerProcess(self, actor)

    def override(self, actor: Actor) -> None:
        dice = self.world.random
        kind = dice.choice(("set", "set", "reset", "undo", "undo"))
        positions = {name: at(dice.randint(0, self.tops[name])) for name in INPUTS if dice.random() < 0.7}
        ledger = MemoryLedger(self.desk, actor)

        def go() -> None:
            try:
                end_begun(ledger)
                begun = ledger.begin_override(
                    PIPELINE,
                    NAME,
                    kind,
                    {} if kind == "reset" else positions,
                    owner=actor.owner,
                    reason=actor.name,
                )
                ledger.end_override(PIPELINE, NAME, epoch=begun.epoch)
            except TidegaugeError as error:
                self.world.changed(f"gives up: {error}")

        actor.begin(go)

    def final(self) -> None:
        flow_state = self.desk.flow_state
        if flow_state.override is not None or flow_state.active is not None:
            self.world.violated(ENDS, f"the flow is {flow_state.state}")
        for name, top in self.tops.items():
            if mark_of(flow_state, name) != top:
                self.world.violated(
                    ENDS, f"{name} is at {mark_of(flow_state, name)}, and the source at {top}"
                )


class CallerProcess:
    """One process that brings the flow up to date, in one of the ways that the ledger offers."""

    def __init__(self, scene: CallerScene, actor: Actor) -> None:
        self.actor = actor
        self.fault: str | None = "it has not ended"
        self._scene = scene
        self._ledger = MemoryLedger(scene.desk, actor)
        self._held: Claim | None = None
        actor.begin(self._go)

    def stop(self) -> None:
        """Callers are not asked to stop."""

    def beat(self, actor: Actor) -> None:
        held, ledger = self._held, MemoryLedger(self._scene.desk, actor)

        def go() -> None:
            try:
                if held is not None:
                    ledger.renew(held, LEASE)
            except LedgerError:
                pass

        actor.begin(go)

    def _go(self) -> None:
        try:
            self._bring_up_to_date()
            self.fault = None
        except TidegaugeError as error:
            self.fault = str(error)
        except Exception:
            self.actor.world.violated(SURPRISE, traceback.format_exc())

    def _bring_up_to_date(self) -> None:
        ledger, name = self._ledger, self.actor.name
        for _ in range(3):
            end_begun(ledger)
            [status] = ledger.status(PIPELINE, [NAME])
            plan = status.plan
            if plan is None:
                draft = self._draft(ledger.watermarks(PIPELINE, [NAME]))
                if self._scene.world.chance(0.2) and draft.batches:
                    ledger.move(draft, owner=self.actor.owner, run_id=name)
                    continue
                plan = ledger.plan([draft], owner=self.actor.owner, run_id=name).get(NAME)
                if plan is None and not draft.batches:
                    return
            if plan is not None:
                self._complete_plan(plan)

    def _complete_plan(self, plan: Plan) -> None:
        ledger, owner, name, world = self._ledger, self.actor.owner, self.actor.name, self._scene.world
        if world.chance(0.5):
            [status] = ledger.status(PIPELINE, [NAME])
            gone = status.owner is not None and world.is_gone(status.owner, seen_from=owner.host)
            dead = status.owner if gone else None
            self._held = ledger.claim(plan, owner=owner, run_id=name, lease=LEASE, dead=dead)
            try:
                ledger.renew(self._held, LEASE)
            except LeaseLost:
                self._held = None
                raise
        if world.faulty and world.chance(0.1):
            ledger.fail(PIPELINE, NAME, plan.plan_id, {"message": "feigned"}, owner=owner, run_id=name)
        elif world.chance(0.4):
            part = world.random.choice(INPUTS)
            ledger.complete(PIPELINE, NAME, plan.plan_id, owner=owner, run_id=name, rows={part: 1})
            ledger.complete(PIPELINE, NAME, plan.plan_id, owner=owner, run_id=name)
        else:
            ledger.complete(PIPELINE, NAME, plan.plan_id, owner=owner, run_id=name)
        self._held = None

    def _draft(self, marks: list[Watermark]) -> Draft:
        before = {mark.input: mark.position for mark in marks}
        windows = tuple(Window(before.get(name), at(self._scene.tops[name])) for name in INPUTS)
        inputs = tuple(
            InputPlan(name, "value", window, "db", "fingerprint")
            for name, window in zip(INPUTS, windows, strict=True)
        )
        batches = (Batch(windows),) if any(window.after != window.upto for window in windows) else ()
        seen = (marks[0].epoch, max(mark.seq for mark in marks)) if marks else (0, 0)
        return Draft(PIPELINE, NAME, inputs, batches, seen=seen)


def end_begun(ledger: MemoryLedger) -> None:
    """End an override that was begun; there is no output in which to open its epoch first."""
    [status] = ledger.status(PIPELINE, [NAME])
    if status.override is not None:
        ledger.end_override(PIPELINE, NAME, epoch=status.override.epoch)
