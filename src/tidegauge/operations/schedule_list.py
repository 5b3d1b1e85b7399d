"""Lists what is due when, what is suspended, and which schedulers run. Asks no source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from tidegauge.flows.selection.scheduled import find_scheduled
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Project
from tidegauge.model.suspension import ALL, Suspension
from tidegauge.model.ticks import SILENCE, ScheduleTicks
from tidegauge.operations.status import iso, suspension_to_json

_SHOWN = 3


@dataclass(frozen=True)
class ListedSchedule:
    schedule: FlowSchedule
    names: tuple[str, ...]
    next: tuple[datetime, ...]
    ticks: ScheduleTicks | None
    """What the ledger knows about it; None: no scheduler has run for it yet."""

    def local(self, moment: datetime) -> datetime:
        """Convert a time (UTC) to the schedule's own time zone."""
        return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(self.schedule.timezone))

    def to_json(self) -> dict[str, Any]:
        ticks = self.ticks
        return {
            "schedule": self.schedule.text,
            "timezone": self.schedule.timezone,
            "catch_up": self.schedule.catch_up.value,
            "flows": list(self.names),
            "next": [iso(at) for at in self.next],
            "last": iso(ticks.fired) if ticks and ticks.ran else None,
            "running": f"{ticks.runner.actor}, process {ticks.runner.pid}"
            if ticks and ticks.runner
            else None,
            "ticks": ticks.ran if ticks else 0,
            "skipped": ticks.skipped if ticks else 0,
            "missed": ticks.missed if ticks else 0,
        }


@dataclass(frozen=True)
class Listing:
    schedules: tuple[ListedSchedule, ...]
    suspended: dict[str, Suspension]
    """Suspensions by flow; `*` is the pipeline."""
    schedulers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": "tidegauge/schedule-list/1",
            "schedules": [one.to_json() for one in self.schedules],
            "suspended": [{"flow": name, **suspension_to_json(one)} for name, one in self.suspended.items()],
            "schedulers": list(self.schedulers),
        }


def list_schedules(project: Project) -> Listing:
    with open_ledger(project.ledger, create=False) as ledger:
        now, book = ledger.now(), ledger.ticks(project.pipeline)
        statuses = [*ledger.status(project.pipeline, [ALL]), *ledger.status(project.pipeline)]
    listed = tuple(
        ListedSchedule(
            part.schedule,
            part.names,
            tuple(islice(part.schedule.times(now), _SHOWN)),
            book.schedules.get(str(part.schedule)),
        )
        for part in find_scheduled(project)
    )
    there = [one for one in book.schedulers if abs(now - one.seen) < SILENCE and not is_gone(one.owner)]
    return Listing(
        listed,
        {one.flow: one.suspended for one in statuses if one.suspended is not None},
        tuple(f"{one.owner.actor}, process {one.owner.pid}" for one in there),
    )
