"""Every flow of the ledger as `tidegauge status` shows it; read again only when something has changed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tidegauge.errors import LedgerUnreachable, TidegaugeError
from tidegauge.ledger.empty import EmptyLedger
from tidegauge.ledger.holder import is_held
from tidegauge.ledger.open import open_ledger
from tidegauge.model.health import HealthLimits
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import HistoryEvent
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.operations.status import (
    FlowSummary,
    limits_named,
    summarize_flows,
    summarize_pipeline,
    tags_of,
)

if TYPE_CHECKING:
    from tidegauge.flows.selection.select import Selection
    from tidegauge.model.delta_flow import DataFlow

STUCK = "STUCK"
"""The state shown for a flow whose runner is gone, or whose plan is not done after `health: {stuck: …}`;
flows that failed are shown as FAILED."""


@dataclass(frozen=True)
class SeenFlow:
    pipeline: str
    summary: FlowSummary
    at: datetime
    """The moment at which the flow is seen, by the ledger's clock."""
    limits: HealthLimits
    tags: tuple[str, ...] = ()

    @property
    def flow(self) -> str:
        return self.summary.flow

    @property
    def word(self) -> str:
        """The flow's state, or STUCK."""
        one = self.summary
        late = one.state is not State.FAILED and self.limits.is_stuck(one.planned_at, self.at)
        return STUCK if one.abandoned or late else one.state.value

    @property
    def told(self) -> str:
        """The flow's state as people read it, or STUCK."""
        return STUCK if self.word == STUCK else self.summary.told_state


@dataclass(frozen=True)
class FleetSnapshot:
    at: datetime
    """When the snapshot was made, by the ledger's clock."""
    shown: str
    """The ledger's address, as people may read it."""
    pipelines: tuple[str, ...]
    """The pipelines of the ledger, the project's own first."""
    flows: tuple[SeenFlow, ...]

    def find(self, pipeline: str, flow: str) -> SeenFlow | None:
        return next((one for one in self.flows if (one.pipeline, one.flow) == (pipeline, flow)), None)

    def at_moment(self, now: datetime) -> FleetSnapshot:
        """The same snapshot at a later moment: lags have grown, and plans may be late."""
        later = (now - self.at).total_seconds()
        if not later:
            return self
        return replace(self, at=now, flows=tuple(_see_later(one, now, later) for one in self.flows))


def _see_later(seen: SeenFlow, now: datetime, seconds: float) -> SeenFlow:
    lag = seen.summary.lag_seconds
    summary = seen.summary if lag is None else replace(seen.summary, lag_seconds=lag + seconds)
    return replace(seen, summary=summary, at=now)


Pulse = tuple[object, ...]
"""A value that changes whenever something on a page has changed."""


class FleetSnapshots:
    """Keeps the newest snapshot. Safe to use from many threads.

    Every change of a flow leaves an event in the history, so the newest event of each pipeline tells whether
    all has to be read again. A runner that dies leaves no event, so the leases of running flows are read too.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._lock = threading.Lock()
        self._kept: tuple[Pulse, FleetSnapshot] | None = None
        self._structure: tuple[tuple[str, ...], Selection | TidegaugeError] | None = None

    def read(self) -> FleetSnapshot:
        """The newest snapshot. Raises LedgerError if the ledger cannot be read."""
        _, kept, now = self._read()
        return kept.at_moment(now)

    def pulse(self) -> Pulse:
        return self._read()[0]

    def _read(self) -> tuple[Pulse, FleetSnapshot, datetime]:
        """The pulse, the newest snapshot, which may be older, and the ledger's current time."""
        with self._lock, open_ledger(self.project.ledger, create=False) as ledger:
            now, pipelines = ledger.now(), self._order(ledger.pipelines())
            if self._kept is not None and self._kept[1].flows and isinstance(ledger, EmptyLedger):
                raise LedgerUnreachable(
                    f"the ledger {ledger.shown} is gone; it had {len(self._kept[1].flows):,} flows",
                    hint="put it back; without a copy, `tidegauge ledger rebuild` takes the watermarks"
                    " from the outputs",
                )
            running = self._find_running()
            pulse = _take_pulse(ledger, pipelines, running, now)
            if self._kept is not None and self._kept[0] == pulse:
                return *self._kept, now
            made = FleetSnapshot(now, ledger.shown, tuple(pipelines), tuple(self._summarize(pipelines, now)))
            self._kept = (pulse, made)
            # Other flows may be running in the new snapshot, so the pulse kept with it is taken over those.
            self._kept = (_take_pulse(ledger, pipelines, self._find_running(), now), made)
            return *self._kept, now

    def structure(self) -> Selection | TidegaugeError:
        """The flows of the file and the ledger with their settings, or an error. Asks no database."""
        _, kept, _ = self._read()
        names = tuple(one.flow for one in kept.flows if one.pipeline == self.project.pipeline)
        with self._lock:
            if self._structure is None or self._structure[0] != names:
                self._structure = (names, _remember(self.project))
            return self._structure[1]

    def spec_of(self, flow: str) -> DataFlow | None:
        """The flow as the project file defines it; None if the file does not have it, or has an error."""
        found = self.structure()
        if isinstance(found, TidegaugeError):
            return None
        return next((one for one in found.all_flows if one.name == flow), None)

    def _find_running(self) -> list[SeenFlow]:
        flows = self._kept[1].flows if self._kept else ()
        return [one for one in flows if one.summary.state is State.RUNNING]

    def _order(self, pipelines: Sequence[str]) -> list[str]:
        own = self.project.pipeline
        return [own, *(name for name in pipelines if name != own)]

    def _summarize(self, pipelines: Sequence[str], now: datetime) -> list[SeenFlow]:
        own, *others = pipelines
        found = []
        for one in summarize_flows(self.project, ())[1]:
            tags = tuple(sorted(tags_of(self.project, one.flow)))
            found.append(SeenFlow(own, one, now, limits_named(self.project, one.flow, tags), tags))
        for name in others:
            limits = limits_named(self.project, name, ())
            found += [SeenFlow(name, one, now, limits) for one in summarize_pipeline(self.project, name)[1]]
        return found


def _take_pulse(
    ledger: LedgerReader, pipelines: Sequence[str], running: Sequence[SeenFlow], now: datetime
) -> Pulse:
    newest = tuple(_name(one) for name in pipelines for one in ledger.history(name, limit=1))
    held = [
        (status.pipeline, status.flow, status.fence, is_held(status, now))
        for name in dict.fromkeys(one.pipeline for one in running)
        for status in ledger.status(name, [one.flow for one in running if one.pipeline == name])
    ]
    return (tuple(pipelines), newest, tuple(held))


def _name(event: HistoryEvent) -> tuple[object, ...]:
    return event.pipeline, event.at, event.flow, event.event, event.run_id


def _remember(project: Project) -> Selection | TidegaugeError:
    # Imported here, as it imports every kind of flow and is slow; the first page does not need it.
    from tidegauge.operations.graph import remember_flows

    try:
        with open_ledger(project.ledger, create=False) as ledger:
            statuses = ledger.status(project.pipeline)
        return remember_flows(project, statuses)
    except TidegaugeError as error:
        return error
