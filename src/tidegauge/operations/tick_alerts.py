"""Alerts of a scheduler, sent after the run for a due time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidegauge.model.spec import Project
from tidegauge.operations.alerts import send_alerts
from tidegauge.operations.tick import TickResult

EVERY = 300.0
"""Seconds between two checks while all goes well: a check asks every flow's output, as `health` does."""


class TickAlerts:
    """Checks at once if a run failed or is well again, otherwise every `EVERY` seconds. Thread-safe."""

    def __init__(self, project: Project, say: Callable[[str], None]) -> None:
        self._project = project
        self._say = say
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._failing: set[str] = set()

    def tell(self, result: TickResult) -> None:
        """Send alerts, if a check is due. Never raises: a failed channel is logged, and tried again later."""
        if self._project.telemetry.alerts is None or result.stopped or not self._is_due(result):
            return
        for told in send_alerts(self._project, report=result.report, error=result.error):
            if told.error is not None:
                self._say(f"alerts to {told.channel} were not sent, and will be tried again: {told.error}")
            elif told.incidents:
                self._say(f"told {told.channel}: {', '.join(told.incidents)}")

    def _is_due(self, result: TickResult) -> bool:
        name, now = str(result.schedule), time.monotonic()
        with self._lock:
            failed = bool(result.errors)
            due = failed or name in self._failing or self._looked is None or now - self._looked >= EVERY
            (self._failing.add if failed else self._failing.discard)(name)
            if due:
                self._looked = now
            return due
