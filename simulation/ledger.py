"""A ledger in memory: load, let the real rule decide, save by compare-and-set, as every store does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from simulation.places import NAME, PIPELINE
from simulation.world import Actor, Fault, World
from tidegauge.errors import LedgerUnreachable
from tidegauge.ledger import alone, byhand, rules
from tidegauge.ledger.book import Book, Change
from tidegauge.model.plan import Draft, Plan, Receipt
from tidegauge.model.position import Position
from tidegauge.model.protocols import (
    Claim,
    FlowStatus,
    HistoryEvent,
    Override,
    Owner,
    Watermark,
)
from tidegauge.model.state import State


class Watcher(Protocol):
    def ledger(self, before: Book, change: Change, who: Owner, at: datetime) -> None:
        """`at` is when the rule was asked, by the store's clock."""


class Desk:
    """Where the book lies: what all runners share."""

    def __init__(self, world: World, checker: Watcher) -> None:
        self.world = world
        self.checker = checker
        self.book = Book(PIPELINE, NAME)
        self.plans = 0

    def ledger(self, actor: Actor) -> MemoryLedger:
        return MemoryLedger(self, actor)

    def save(self, seen: Book, change: Change, who: Owner, at: datetime) -> bool:
        """Compare-and-set; False when another writer came between."""
        if self.book is not seen:
            self.world.tally["race lost, asked again"] += 1
            return False
        if change.book is not seen:
            self.book = change.book
            self.checker.ledger(seen, change, who, at)
        return True


class MemoryLedger:
    """Implements LedgerWriter for one actor."""

    def __init__(self, desk: Desk, actor: Actor) -> None:
        self._desk = desk
        self._actor = actor
        self._world = desk.world

    def now(self) -> datetime:
        return self._world.now

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:
        book = self._read("watermarks")
        return [
            Watermark(
                pipeline=book.pipeline,
                flow=book.flow,
                input=mark.input,
                cursor=mark.cursor,
                position=mark.position,
                checked=mark.checked,
                epoch=mark.epoch,
                seq=mark.seq,
                pending=mark.pending,
                source_id=mark.source_id,
                updated_at=mark.updated_at,
                fingerprint=mark.fingerprint,
                stamp=mark.stamp,
            )
            for mark in book.marks.values()
        ]

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        return [_status(self._read("status"))]

    def history(
        self, pipeline: str, *, flow: str | None = None, failed: bool = False, limit: int = 20
    ) -> list[HistoryEvent]:
        return []

    def pipelines(self) -> list[str]:
        return [PIPELINE]

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        active = self._read("find_plan").active
        return (PIPELINE, NAME, True) if active and active.plan.plan_id == plan_id else None

    def plan(self, drafts: Sequence[Draft], *, owner: Owner, run_id: str) -> dict[str, Plan]:
        [draft] = drafts
        self._desk.plans += 1
        plan_id = f"plan-{self._desk.plans}"
        kept: list[Plan | None] = []

        def rule(book: Book, now: datetime) -> Change | None:
            change, plan = rules.plan(book, draft, plan_id=plan_id, owner=owner, run_id=run_id, now=now)
            kept.append(plan)
            return change

        self._change("plan", rule)
        plan = kept[-1]
        return {draft.flow: plan} if plan else {}

    def refuse(self, pipeline: str, flow: str, error: dict[str, Any], *, owner: Owner, run_id: str) -> None:
        self._change(
            "refuse", lambda book, now: rules.refuse(book, error, owner=owner, run_id=run_id, now=now)
        )

    def note(self, pipeline: str, flow: str, event: str, *, owner: Owner, reason: str) -> None:
        self._change("note", lambda book, now: rules.note(book, event, owner=owner, reason=reason, now=now))

    def claim(
        self, plan: Plan, *, owner: Owner, run_id: str, lease: timedelta, dead: Owner | None = None
    ) -> Claim:
        book = self._change(
            f"claim {plan.plan_id}",
            lambda book, now: rules.claim(
                book, plan.plan_id, owner=owner, run_id=run_id, lease=lease, dead=dead, now=now
            ),
        )
        return rules.claim_of(book)

    def renew(self, claim: Claim, lease: timedelta) -> None:
        self._change("renew", lambda book, now: rules.renew(book, claim, lease, now=now))

    def begin(self, claim: Claim, index: int) -> None:
        self._change(f"begin batch {index}", lambda book, now: rules.begin(book, claim, index, now=now))

    def advance(self, claim: Claim, index: int, receipt: Receipt) -> None:
        self._change(
            f"advance past batch {index}",
            lambda book, now: rules.advance(book, claim, index, receipt, now=now),
        )

    def finish(self, claim: Claim, state: State, error: dict[str, Any] | None = None) -> None:
        self._change(f"finish as {state}", lambda book, now: rules.finish(book, claim, state, error, now=now))

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
        book = self._change(
            f"complete {'all' if rows is None else ', '.join(rows)} of {plan_id}",
            lambda book, now: alone.complete(
                book, plan_id, owner=owner, run_id=run_id, rows=rows, now=now, held=claim
            ),
        )
        return _status(book)

    def fail(
        self, pipeline: str, flow: str, plan_id: str, error: dict[str, Any], *, owner: Owner, run_id: str
    ) -> FlowStatus:
        book = self._change(
            f"fail {plan_id}",
            lambda book, now: alone.fail(book, plan_id, error, owner=owner, run_id=run_id, now=now),
        )
        return _status(book)

    def move(self, draft: Draft, *, owner: Owner, run_id: str, rows: int | None = None) -> None:
        self._desk.plans += 1
        plan_id = f"plan-{self._desk.plans}"
        self._change(
            "move",
            lambda book, now: alone.move(
                book, draft, plan_id=plan_id, owner=owner, run_id=run_id, rows=rows, now=now
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
    ) -> Override:
        book = self._change(
            f"begin override: {kind}",
            lambda book, now: byhand.begin_override(
                book, kind, positions, owner=owner, reason=reason, now=now
            ),
        )
        assert book.override is not None
        return book.override

    def end_override(self, pipeline: str, flow: str, *, epoch: int) -> None:
        self._change(
            f"end override: epoch {epoch}", lambda book, now: byhand.end_override(book, epoch=epoch, now=now)
        )

    def prune(self, *, before: datetime, pipeline: str | None = None) -> dict[str, int]:
        return {}

    def _read(self, what: str) -> Book:
        fault = self._actor.turn(what)
        if fault is not None:
            raise _unreachable(what, fault)
        return self._desk.book

    def _change(self, what: str, rule: Callable[[Book, datetime], Change | None]) -> Book:
        """The book as this call left it, or found it where there was nothing to change."""
        desk, actor = self._desk, self._actor
        fault = actor.turn(what)
        if fault is Fault.REFUSED:
            raise _unreachable(what, fault)
        while True:
            seen, at = desk.book, self._world.now
            change = rule(seen, self.now())
            if change is None:
                change = Change(seen)
            if self._world.chance(self._world.middle):
                actor.turn(f"{what}: loaded, not saved", asking=False)
            if fault is Fault.LATE:
                self._world.later.append((what, partial(self._save_late, seen, change, at)))
                raise _unreachable(what, fault)
            if change.book is seen or desk.save(seen, change, actor.owner, at):
                if fault is not Fault.DOUBLED:
                    break
                # The store's client sent it once more and was refused: it must look again, and finds its own.
                fault = None
        if fault is Fault.LOST:
            raise _unreachable(what, fault)
        return change.book

    def _save_late(self, seen: Book, change: Change, at: datetime) -> None:
        if not self._desk.save(seen, change, self._actor.owner, at):
            self._world.changed("refused: the book has moved on")


def _status(book: Book) -> FlowStatus:
    active = book.active
    return FlowStatus(
        pipeline=book.pipeline,
        flow=book.flow,
        state=book.state,
        plan=active.plan if active else None,
        fence=book.fence,
        owner=active.owner if active else None,
        lease_until=active.lease_until if active else None,
        last_run=book.run,
        completed=active.completed if active else frozenset(),
        planned_at=active.created_at if active else None,
        override=book.override,
        undo=book.undo,
    )


def _unreachable(what: str, fault: Fault) -> LedgerUnreachable:
    return LedgerUnreachable(f"{what}: {fault}", hint="feigned")
