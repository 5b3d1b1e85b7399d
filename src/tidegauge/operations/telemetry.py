"""What a run reports to other systems: alert channels, a Pushgateway, a lineage server.

An error here is a warning, and is in the run's JSON. It does not fail the run or change the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.errors import ConfigError, TidegaugeError

Warn = Callable[[str], None]
"""Shows a warning about something that did not fail the run."""

if TYPE_CHECKING:
    from tidegauge.model.alert import AlertResult
    from tidegauge.model.spec import Project
    from tidegauge.observe.events import Listener, RunEvent
    from tidegauge.observe.lineage import LineageListener
    from tidegauge.run.report import RunReport


def send_telemetry(
    project: Project, report: RunReport, selection: Sequence[str], *, warn: Warn
) -> dict[str, Any]:
    """Send alerts and metrics after a run; return what to add to the run's JSON document."""
    telemetry = project.telemetry
    found: dict[str, Any] = {}
    if telemetry.alerts is not None:
        from tidegauge.operations.alerts import send_alerts

        found |= report_told(send_alerts(project, selection=selection, report=report), warn=warn)
    if telemetry.metrics is not None and telemetry.metrics.push is not None:
        from tidegauge.operations.metrics import push

        error = push(project)
        found["metrics"] = {"pushed": error is None, "error": error}
        if error is not None:
            warn(f"metrics were not pushed: {error}")
    return found


def tell_of_error(project: Project, error: TidegaugeError, *, warn: Warn) -> None:
    """Alert about a run that could not begin, unless by a ConfigError, which the user sees anyway."""
    if project.telemetry.alerts is not None and not isinstance(error, ConfigError):
        from tidegauge.operations.alerts import send_alerts

        report_told(send_alerts(project, error=error), warn=warn)


def report_told(told: Sequence[AlertResult], *, warn: Warn) -> dict[str, Any]:
    for one in told:
        if one.error is not None:
            warn(f"alerts to {one.channel} were not sent, and will be tried again: {one.error}")
    return {"alerts": [one.to_json() for one in told]}


class LineageForwarder:
    """A listener that passes events on, and also sends lineage if the project asks for it."""

    def __init__(self, project: Project, tell: Listener, *, warn: Warn) -> None:
        self._project = project
        self._tell = tell
        self._warn = warn
        self._lineage: LineageListener | None = None
        self.outcome: dict[str, Any] | None = None
        """The result of sending lineage, for the run's JSON document; set when the block ends."""

    def __enter__(self) -> LineageForwarder:
        if not self._project.telemetry.lineage:
            return self
        from tidegauge.operations.lineage import open_lineage

        try:
            self._lineage = open_lineage(self._project)
        except TidegaugeError as error:
            self._fail(f"{error.message}; {error.hint}", 0)
        return self

    def __call__(self, event: RunEvent) -> None:
        self._tell(event)
        if self._lineage is not None:
            self._lineage(event)

    def __exit__(self, *_: object) -> None:
        if self._lineage is None:
            return
        self._lineage.close()
        self.outcome = {"sent": self._lineage.sent, "error": None}
        if self._lineage.error is not None:
            self._fail(f"{self._lineage.error} ({self._lineage.lost} events lost)", self._lineage.sent)

    def _fail(self, why: str, sent: int) -> None:
        self.outcome = {"sent": sent, "error": why}
        self._warn(f"lineage was not sent: {why}")
