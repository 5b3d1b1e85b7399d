"""One schedule: a seed decides who acts next, which faults strike, and what happens around the actors."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Protocol

from simulation.callers import CallerScene
from simulation.engine import EngineScene
from simulation.invariants import ENDS
from simulation.places import LEASE
from simulation.world import ON_PROCESS, ON_REQUEST, Actor, Fault, World

_TICKS = tuple(timedelta(seconds=seconds) for seconds in (0, 0, 1, 2, 5))
_PATIENCE = 2000
"""The most steps that actors may take to end once the faults have stopped."""
_CALLERS = 0.2
"""The share of schedules about callers who do the work themselves."""


class Process(Protocol):
    actor: Actor

    @property
    def fault(self) -> str | None:
        """Why the process did not do all its work; None if it did."""

    def stop(self) -> None: ...

    def beat(self, actor: Actor) -> None: ...


class Scene(Protocol):
    def change(self) -> None:
        """Make one change at the source."""

    def commit(self) -> None:
        """Commit the open transaction at the source, if there is one."""

    def process(self, actor: Actor) -> Process: ...

    def override(self, actor: Actor) -> None: ...

    def final(self) -> None:
        """Check what must be true after all faults have stopped and a fresh process has run twice."""


class Schedule:
    def __init__(self, seed: int, *, trace: bool = False, documents: bool = False) -> None:
        """`documents`: use the real document ledger, on a document store in memory."""
        self.world = world = World(seed, trace=trace)
        dice = world.random
        callers = world.chance(_CALLERS) and not documents
        self._scene: Scene = CallerScene(world) if callers else EngineScene(world, documents=documents)
        self._processes: dict[Actor, Process] = {}
        # Likelihoods differ from schedule to schedule, so that faults also occur alone and in every mix.
        self._most = dice.randint(1, 4)
        self._spawns = dice.randint(1, 6)
        self._overrides = dice.choice((0, 0, 1, 2, 4))
        self._steps = dice.randint(20, 70)
        self._fault = dice.choice((0.0, 0.03, 0.08, 0.15))
        self._process = dice.choice((0.0, 0.02, 0.05))
        self._loyal = dice.choice((0.2, 0.6, 0.9))
        world.middle = dice.choice((0.05, 0.15, 0.4))
        self._around = dice.choice((0.1, 0.2))
        self._last: Actor | None = None

    def run(self) -> Counter[str]:
        """Run the schedule and return its tally. Raises Violation."""
        world, dice = self.world, self.world.random
        try:
            for _ in range(dice.randint(0, 4)):
                self._scene.change()
            for _ in range(self._steps):
                world.now += world.pick(_TICKS)
                awake = [actor for actor in world.living if not actor.asleep]
                if not awake or world.chance(self._around):
                    self._happen(awake)
                else:
                    self._act(awake)
            self._settle()
            self._scene.final()
        finally:
            for actor in [one for one in world.living if one.kin is None]:
                world.crash(actor)
        world.tally["schedules"] += 1
        return world.tally

    def _act(self, awake: list[Actor]) -> None:
        world = self.world
        actor = self._last
        if actor is None or actor not in awake or not world.chance(self._loyal):
            actor = self._last = world.pick(awake)
        fault: Fault | None = None
        if world.chance(self._process):
            fault = world.pick(ON_PROCESS)
        elif actor.asking and world.chance(self._fault):
            fault = world.pick(ON_REQUEST)
        world.resume(actor, fault)

    def _happen(self, awake: list[Actor]) -> None:
        world, dice = self.world, self.world.random
        runners = [actor for actor in awake if actor in self._processes]
        kind = int(dice.random() * 10)
        if kind <= 1 or (not awake and self._spawns):
            self._begin_runner(len([actor for actor in world.living if actor in self._processes]))
        elif kind <= 3:
            self._scene.change()
        elif kind == 4 and world.later:
            world.deliver(dice.randrange(len(world.later)))
        elif kind == 5 and runners:
            self._beat(dice.choice(runners))
        elif kind == 6 and self._overrides > 0:
            self._override()
        elif kind == 7:
            self._disturb(runners)
        else:
            asleep = [actor for actor in world.living if actor.asleep and actor.kin is None]
            if asleep:
                world.wake(dice.choice(asleep))

    def _begin_runner(self, running: int) -> None:
        if self._spawns and running < self._most:
            self._spawns -= 1
            self._runner()

    def _runner(self) -> Process:
        world, dice = self.world, self.world.random
        actor = world.add("runner", dice.choice("ab"))
        world.tally["runs"] += 1
        actor.skew = timedelta(seconds=dice.choice((0, 0, -300, -40, 40, 300)))
        process = self._processes[actor] = self._scene.process(actor)
        return process

    def _override(self) -> Actor:
        self._overrides -= 1
        actor = self.world.add("person", self.world.random.choice("ab"))
        self._scene.override(actor)
        return actor

    def _beat(self, actor: Actor) -> None:
        if not any(one.kin is actor for one in self.world.living):
            heartbeat = self.world.add("heartbeat", actor.owner.host, kin=actor)
            self._processes[actor].beat(heartbeat)

    def _disturb(self, runners: list[Actor]) -> None:
        world, dice = self.world, self.world.random
        kind = dice.randrange(3)
        if kind == 0:
            world.now += LEASE * dice.choice((0.5, 1.0, 3.0))
            world.tally["store's clock jumps"] += 1
            world.say("store's clock jumps")
        elif kind == 1 and runners:
            actor = dice.choice(runners)
            actor.skew += timedelta(seconds=dice.choice((-3600, -45, 45, 3600)))
            world.tally["runner's clock jumps"] += 1
            world.say(f"{actor.name}'s clock jumps to {actor.skew.total_seconds():+.0f}s")
        elif kind == 2 and runners:
            actor = dice.choice(runners)
            self._processes[actor].stop()
            world.tally["stopped"] += 1
            world.say(f"{actor.name} is asked to stop")

    def _settle(self) -> None:
        """Stop all faults, crash some processes, let the others end, and let a fresh process run twice."""
        world, dice = self.world, self.world.random
        world.faulty = False
        world.say("--- no more faults")
        self._scene.commit()
        for actor in [one for one in world.living if one.kin is None]:
            if actor in world.living and world.chance(0.5):
                world.say(f"{actor.name:<22} crashes")
                world.crash(actor)
        sleepers = list(world.living)
        for actor in sleepers:
            actor.asleep = False
        early = world.chance(0.4)
        if early:
            self._until_end(sleepers)
        if world.chance(0.3):
            self._until_end([self._override()])
        world.now += LEASE * 2
        self._until_end([self._runner().actor])
        if not early:
            self._until_end(sleepers)
        while world.later:
            world.deliver(dice.randrange(len(world.later)))
        world.now += LEASE * 2
        last = self._runner()
        self._until_end([last.actor])
        if last.fault is not None:
            world.violated(ENDS, f"the last run, without any fault around it, says: {last.fault}")

    def _until_end(self, actors: list[Actor]) -> None:
        world = self.world
        for _ in range(_PATIENCE):
            awake = [actor for actor in actors if actor.greenlet is not None]
            if not awake:
                return
            world.now += world.pick(_TICKS)
            world.resume(world.pick(awake), None)
        world.violated(ENDS, f"{', '.join(actor.name for actor in awake)} never ends")
