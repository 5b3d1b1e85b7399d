"""The actors, their faults and the clocks. Actors take turns, step by step, as a seed decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from simulation.places import DAWN
from tidegauge.model.claim import Owner

T = TypeVar("T")


class Fault(StrEnum):
    """A fault that strikes a request, or the process that makes it."""

    CRASH = "crash"
    """The process is gone, between any two of its requests or in the middle of one."""
    PAUSE = "pause"
    """The process and its heartbeat sleep until the schedule wakes them, often after the lease has ended."""
    REFUSED = "refused"
    """The request has no effect, and the sender gets an error."""
    LOST = "lost answer"
    """The request takes effect, and the sender gets an error."""
    LATE = "late"
    """The sender gets an error, and the request takes effect some time later."""
    DOUBLED = "doubled"
    """The request takes effect and arrives again: at once at the ledger, later at the output."""


ON_PROCESS = (Fault.CRASH, Fault.PAUSE)
ON_REQUEST = (Fault.REFUSED, Fault.LOST, Fault.LATE, Fault.DOUBLED)


class Violation(Exception):
    """An invariant does not hold any more."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message


class Actor:
    """A process, or the heartbeat of one."""

    def __init__(self, world: World, name: str, host: str, *, kin: Actor | None = None) -> None:
        self.world = world
        self.name = name
        self.owner: Owner = kin.owner if kin else Owner(f"{name}@{host}", host, world.count, name)
        self.kin = kin
        """The process whose heartbeat this is; it crashes, sleeps and ends with it. None for a process."""
        self.skew = timedelta(0)
        """How far this process's own clock is ahead of the ledger's clock."""
        self.doing = "start"
        self.asking = False
        """True before a request, which a fault may strike; False in the middle of one or in a wait."""
        self.asleep = False
        self.greenlet: greenlet | None = None

    def begin(self, program: Callable[[], None]) -> None:
        self.greenlet = greenlet(lambda _: program())

    def turn(self, doing: str, *, asking: bool = True) -> Fault | None:
        """Let other actors act first; return the fault that strikes this actor's next request."""
        if self.greenlet is None:
            raise GreenletExit  # a crashed process cleaning up: nothing of it reaches the world
        self.doing = doing
        self.asking = asking
        fault: Fault | None = self.world.hub.switch()
        return fault


class World:
    def __init__(self, seed: int, *, trace: bool) -> None:
        self.random = random.Random(seed)
        self.hub = getcurrent()
        self.now: datetime = DAWN
        """The ledger's clock."""
        self.faulty = True
        self.middle = 0.0
        """The likelihood that other actors act in the middle of a call."""
        self.count = 0
        self.living: list[Actor] = []
        self.later: list[tuple[str, Callable[[], None]]] = []
        """Requests, as (description, effect), that still arrive although their sender has an answer."""
        self.ended: set[Owner] = set()
        self.tally: Counter[str] = Counter()
        self.trace: list[str] | None = [] if trace else None
        self.violation: Violation | None = None

    def chance(self, likelihood: float) -> bool:
        return self.random.random() < likelihood

    def pick(self, among: Sequence[T]) -> T:
        """Like `random.choice`, three times as fast."""
        return among[int(self.random.random() * len(among))]

    def is_gone(self, owner: Owner, *, seen_from: str) -> bool:
        """Like `ledger.owner.is_gone`: knows only about processes of the same host."""
        return owner.host == seen_from and owner in self.ended

    def violated(self, invariant: str, message: str) -> None:
        """Keep the violation as well as raise it: the runner turns unexpected errors into a report."""
        if self.violation is None:
            self.violation = Violation(invariant, message)
        raise self.violation

    def say(self, line: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{(self.now - DAWN).total_seconds():7.0f}s  {line}")

    def changed(self, line: str) -> None:
        """Add a line to the trace: what the current step changed."""
        if self.trace is not None:
            self.trace.append(f"{'':8}    → {line}")

    def add(self, kind: str, host: str, *, kin: Actor | None = None) -> Actor:
        self.count += 1
        actor = Actor(self, f"{kind}-{self.count}" if kin is None else f"{kin.name}'s {kind}", host, kin=kin)
        self.living.append(actor)
        return actor

    def resume(self, actor: Actor, fault: Fault | None) -> None:
        """Let one actor take one step; `fault` strikes the request that the actor makes."""
        self.tally["steps"] += 1
        if fault is not None:
            self.tally[fault] += 1
        if self.trace is not None:
            self.say(f"{actor.name:<22} {actor.doing}{f'  [{fault}]' if fault else ''}")
        if fault is Fault.CRASH:
            self.crash(actor.kin or actor)
            return
        if fault is Fault.PAUSE:
            for one in self._family(actor):
                one.asleep = True
            return
        assert actor.greenlet is not None
        actor.greenlet.switch(fault)
        if self.violation is not None:
            raise self.violation
        if actor.greenlet.dead:
            self._ended(actor)

    def crash(self, actor: Actor) -> None:
        for one in self._family(actor):
            self.living.remove(one)
            body, one.greenlet = one.greenlet, None
            if body:  # begun and not ended
                body.throw()
        self.ended.add(actor.owner)

    def wake(self, actor: Actor) -> None:
        self.say(f"{actor.name:<22} wakes up")
        for one in self._family(actor):
            one.asleep = False

    def deliver(self, place: int) -> None:
        what, effect = self.later.pop(place)
        self.say(f"{'a late request':<22} {what}")
        effect()

    def _ended(self, actor: Actor) -> None:
        if actor.kin is not None:
            self.living.remove(actor)
            actor.greenlet = None
            return
        self.say(f"{actor.name:<22} ends")
        self.crash(actor)

    def _family(self, actor: Actor) -> list[Actor]:
        head = actor.kin or actor
        return [one for one in self.living if one is head or one.kin is head]
