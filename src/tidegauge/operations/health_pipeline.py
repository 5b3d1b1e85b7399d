"""Health of a pipeline as a whole: the size of its ledger, and missed times of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from tidegauge.flows.selection.scheduled import find_scheduled
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.alert import AlertKind
from tidegauge.model.health import HealthCheck, HealthFinding, HealthLevel
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.spec import Project
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SILENCE, SchedulerRecords, ScheduleTicks

_MOST = 1000
"""Most missed times that are counted; beyond that the message says "more than"."""


def examine_pipeline(project: Project) -> list[HealthFinding]:
    """Check the pipeline from the ledger alone. Changes nothing."""
    with open_ledger(project.ledger, create=False) as ledger:
        now, book = ledger.now(), ledger.ticks(project.pipeline)
        suspended = any(one.suspended for one in ledger.status(project.pipeline, [ALL]))
        found = [check_ledger_size(count_kept(ledger, project.pipeline), project.health.ledger_rows)]
    return [*found, *_check_schedules(project, book, now, suspended=suspended).values()]


def examine_schedules(project: Project, ledger: LedgerReader) -> dict[str, HealthFinding]:
    """Return what `examine_pipeline` finds about missed times, by schedule. Empty if the whole pipeline is
    suspended."""
    suspended = any(one.suspended for one in ledger.status(project.pipeline, [ALL]))
    return _check_schedules(project, ledger.ticks(project.pipeline), ledger.now(), suspended=suspended)


def _check_schedules(
    project: Project, book: SchedulerRecords, now: datetime, *, suspended: bool
) -> dict[str, HealthFinding]:
    found: dict[str, HealthFinding] = {}
    for part in [] if suspended else find_scheduled(project):
        ticks = book.schedules.get(str(part.schedule))
        if ticks is not None and ticks.runner is not None and is_gone(ticks.runner):
            ticks = replace(ticks, runner=None)
        [found[str(part.schedule)]] = check_missed(part.schedule, ticks, now, project.health.missed)
    return found


def count_kept(ledger: LedgerReader, pipeline: str) -> int:
    """Count the runs and events of a pipeline in the ledger."""
    runs = sum(one.runs for one in ledger.run_totals(pipeline))
    return runs + sum(one.events for one in ledger.event_totals(pipeline))


def check_ledger_size(rows: int, limit: int) -> HealthFinding:
    says = f"{rows:,} runs and events of this pipeline are kept"
    if rows <= limit:
        return HealthFinding(HealthCheck.LEDGER, HealthLevel.HEALTHY, says)
    hint = f"{says}, and {limit:,} is the limit: `tidegauge ledger prune --older-than 90d` removes old ones"
    return HealthFinding(HealthCheck.LEDGER, HealthLevel.WARNING, hint)


def check_missed(
    schedule: FlowSchedule, ticks: ScheduleTicks | None, now: datetime, limit: int
) -> Iterator[HealthFinding]:
    """Count the times since the last one that was handled, without those a scheduler may just be taking."""
    if ticks is None:
        says = f"{schedule}: no scheduler has run for it yet; `tidegauge schedule start` does"
        yield HealthFinding(HealthCheck.SCHEDULE, HealthLevel.WARNING, says)
        return
    past = takewhile(lambda at: at <= now - SILENCE, schedule.times(ticks.fired))
    missed = 0 if ticks.runner else sum(1 for _ in islice(past, _MOST))
    if not missed:
        before = f"; {ticks.missed:,} were missed before" if ticks.missed else ""
        yield HealthFinding(
            HealthCheck.SCHEDULE, HealthLevel.HEALTHY, f"{schedule}: every time was dealt with{before}"
        )
        return
    more = "more than " if missed == _MOST else ""
    times = "1 time" if missed == 1 else f"{more}{missed:,} times"
    level = HealthLevel.CRITICAL if missed >= limit else HealthLevel.WARNING
    says = (
        f"{schedule}: {times} since {ticks.fired:%Y-%m-%d %H:%M} UTC that nobody ran for; is a scheduler"
        " running? `tidegauge schedule list`"
    )
    yield HealthFinding(
        HealthCheck.SCHEDULE, level, says, AlertKind.LATE if level is HealthLevel.CRITICAL else None
    )
