"""A flow that Tidegauge runs: the real runner, and people who override its watermark."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any, TypeVar, cast

from simulation.documents import Cabinet
from simulation.epochs import Checker
from simulation.invariants import SURPRISE
from simulation.lake import Lake, MemoryOutput
from simulation.ledger import Desk
from simulation.places import DAWN, FLOWS, INPUT, LEASE, NAME, PIPELINE, PROJECT, at
from simulation.source import MemorySource, Table
from simulation.world import Actor, World
from tidegauge.errors import TidegaugeError
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Database
from tidegauge.observe.events import RunEvent
from tidegauge.run.context import RunContext
from tidegauge.run.end_override import end_override
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport
from tidegauge.run.runner import Runner
from tidegauge.sources.connections import SourceConnections

T = TypeVar("T")


class _OneSource(SourceConnections):
    def __init__(self, source: MemorySource) -> None:
        self._source = source

    def __exit__(self, *_: object) -> None:
        pass

    def of(self, database: Database) -> Source:
        return self._source


class _Inline(Executor):
    """Runs submitted work immediately, because the simulation has no threads."""

    def submit(self, work: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **options))
        except Exception as error:
            future.set_exception(error)
        return future


class EngineScene:
    """A flow that the real runner runs, with a source and an output."""

    def __init__(self, world: World, *, documents: bool = False) -> None:
        self._world = world
        self.lake, self.table = Lake(world), Table(world)
        self._checker = self.lake.checker = Checker(world, self.lake, self.table)
        self.desk: Desk | Cabinet = (Cabinet if documents else Desk)(world, self._checker)

    def change(self) -> None:
        self.table.change()

    def commit(self) -> None:
        self.table.commit()

    def process(self, actor: Actor) -> EngineProcess:
        return EngineProcess(self, actor)

    def override(self, actor: Actor) -> None:
        """A person overrides the watermark, in the same order as `operations/override.py`."""
        dice = self._world.random
        kind = dice.choice(("set", "set", "reset", "undo", "undo"))
        place = dice.randint(0, self.table.top + 2) if kind == "set" else 0
        ledger, output = self.desk.ledger(actor), MemoryOutput(self.lake, actor)
        flow = FLOWS[0]

        def go() -> None:
            try:
                for status in ledger.status(PIPELINE, [NAME]):
                    if status.override is not None:
                        end_override(ledger, output, flow, status.override, _nothing)
                begun = ledger.begin_override(
                    PIPELINE, NAME, kind, {INPUT: at(place)}, owner=actor.owner, reason=actor.name
                )
                end_override(ledger, output, flow, begun, _nothing)
            except TidegaugeError as error:
                actor.world.changed(f"gives up: {error}")
            except Exception:
                actor.world.violated(SURPRISE, traceback.format_exc())

        actor.begin(go)

    def final(self) -> None:
        self._checker.final(self.desk.flow_state)
        if isinstance(self.desk, Cabinet):
            self.desk.final()


class EngineProcess:
    """One process that runs the flow once, as `tidegauge run` does."""

    def __init__(self, scene: EngineScene, actor: Actor) -> None:
        self.actor = actor
        self._reports: list[FlowReport] = []
        self._error: TidegaugeError | None = None
        self._stop = threading.Event()
        self._scene = scene
        dice = actor.world.random
        self._flow = FLOWS[dice.randrange(len(FLOWS))]
        source = MemorySource(scene.table, actor)
        sources = _OneSource(source)
        world = actor.world
        ledger = scene.desk.ledger(actor)
        output = MemoryOutput(scene.lake, actor)
        self._heartbeat = Heartbeat(ledger, LEASE)
        environment = Environment(
            owner=actor.owner,
            is_gone=lambda owner: world.is_gone(owner, seen_from=actor.owner.host),
            sources=lambda: sources,
            output=lambda _: output,
            reader=lambda _: source,
            check_java=_nothing,
            spark=lambda *_: cast("Any", None),
            threads=lambda _: _Inline(),
            clock=lambda: (world.now + actor.skew - DAWN).total_seconds(),
            sleep=lambda _: cast("None", actor.turn("wait for the holder", asking=False)),
        )
        options = RunOptions(parallel=1, wait=timedelta(seconds=dice.choice((0, 0, 5))))
        context = RunContext(
            PROJECT, options, ledger, self._heartbeat, _nothing, self._stop, environment, actor.name
        )
        self._runner = Runner(context, sources)
        actor.begin(self._go)

    @property
    def fault(self) -> str | None:
        """Why the run did not do all its work; None if it did."""
        if self._error is not None or not self._reports:
            return str(self._error)
        return next((str(report.error) for report in self._reports if report.error), None)

    def stop(self) -> None:
        self._stop.set()

    def beat(self, actor: Actor) -> None:
        """Renew once, as the heartbeat's thread would: the runner's claims, in turns of a separate actor."""
        heartbeat = Heartbeat(self._scene.desk.ledger(actor), LEASE)
        heartbeat._held = self._heartbeat._held
        actor.begin(heartbeat.beat)

    def _go(self) -> None:
        try:
            self._reports = self._runner.make_jobs([self._flow]).run()
        except TidegaugeError as error:
            self._error = error
        except Exception:
            self.actor.world.violated(SURPRISE, traceback.format_exc())
        for report in self._reports:
            if report.error is not None and report.error.type == "TidegaugeError":
                self.actor.world.violated(SURPRISE, f"{report.error}\n{report.error.detail}")


def _nothing(_: RunEvent | object) -> None:
    pass
