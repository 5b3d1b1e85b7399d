"""Runs the flows of a schedule for one due time, and describes the result in a line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.errors import FlowHeld, Stopped, TidegaugeError, unexpected_error
from tidegauge.flows.selection.scheduled import ScheduledPart
from tidegauge.model.error_json import error_to_json
from tidegauge.model.schedule import FlowSchedule
from tidegauge.model.state import State
from tidegauge.observe.events import BatchCommitted, FlowEnded, NoteAdded, RunEvent, SparkStarting
from tidegauge.observe.progress import describe
from tidegauge.run.environment import Environment
from tidegauge.run.options import RunOptions
from tidegauge.run.report import RunReport
from tidegauge.run.run import run

Say = Callable[[str], None]
_MOST_NOTES = 1000


@dataclass(frozen=True)
class TickResult:
    schedule: FlowSchedule
    at: datetime
    """The time for which the run was due."""
    seconds: float
    report: RunReport | None = None
    """The run's report; None if the run raised `error`."""
    error: TidegaugeError | None = None

    @property
    def errors(self) -> list[TidegaugeError]:
        """The errors, without those of flows that another runner holds or that were asked to stop."""
        found = [] if self.report is None else self.report.errors
        return [
            error for error in (self.error, *found) if error and not isinstance(error, FlowHeld | Stopped)
        ]

    @property
    def stopped(self) -> bool:
        """Whether the run was asked to stop before it had done everything."""
        return self.report is not None and any(isinstance(one.error, Stopped) for one in self.report.flows)

    @property
    def held(self) -> int:
        flows = () if self.report is None else self.report.flows
        return sum(isinstance(one.error, FlowHeld) for one in flows)

    @property
    def suspended(self) -> int:
        return 0 if self.report is None else sum(one.suspended for one in self.report.flows)

    @property
    def rows(self) -> int:
        return 0 if self.report is None else sum(one.rows for one in self.report.flows)

    @property
    def state(self) -> State:
        if self.errors:
            return State.FAILED
        if self.stopped:
            return State.PLANNED
        return State.SUCCESS if self.rows else State.SKIPPED

    def describe(self) -> str:
        counts = {"held by another runner": self.held, "suspended": self.suspended}
        more = "".join(f", {count} {what}" for what, count in counts.items() if count)
        flows = 0 if self.report is None else len({one.flow for one in self.report.flows})
        wrong = f", {len(self.errors)} failed" if self.errors else ""
        return (
            f"{self.schedule}: {self.at:%Y-%m-%d %H:%M:%S} UTC: {self.state}: {self.rows:,} rows,"
            f" {flows} flow{'' if flows == 1 else 's'}{more}{wrong} in {self.seconds:.1f} s"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "schedule": str(self.schedule),
            "due": f"{self.at.isoformat(timespec='microseconds')}Z",
            "state": self.state.value,
            "rows": self.rows,
            "held": self.held,
            "suspended": self.suspended,
            "seconds": round(self.seconds, 3),
            "errors": [error_to_json(error) for error in self.errors],
        }


def run_tick(
    part: ScheduledPart,
    at: datetime,
    *,
    options: RunOptions,
    environment: Environment,
    tell: Callable[[RunEvent], None],
    stop: threading.Event,
    ended: Callable[[TickResult], None],
) -> TickResult:
    """Run for one due time; call `ended` with the result, then return it. Errors are in the result."""
    began = time.monotonic()
    report, error = None, None
    try:
        report = run(part.project, options, tell=tell, stop=stop, environment=environment)
    except TidegaugeError as fault:
        error = fault
    except Exception as fault:
        error = unexpected_error(fault)
    result = TickResult(part.schedule, at, time.monotonic() - began, report, error)
    ended(result)
    return result


class TickLines:
    """Writes log lines for repeated runs: what moved and what failed, and each note only once."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: set[NoteAdded] = set()

    def __call__(self, event: RunEvent) -> None:
        match event:
            case BatchCommitted() | SparkStarting():
                wanted = True
            case FlowEnded(_, _, rows, _, error):
                wanted = rows > 0 or error is not None
            case NoteAdded():
                wanted = event not in self._told
                if len(self._told) >= _MOST_NOTES:
                    self._told.clear()
                self._told.add(event)
            case _:
                wanted = False
        for line in describe(event) if wanted else ():
            self._say(line)
