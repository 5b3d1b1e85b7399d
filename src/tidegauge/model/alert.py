"""Settings and results of alerts: which incidents are reported, to which channels, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from tidegauge.model.secret import Secret


class AlertKind(StrEnum):
    """What an incident is about."""

    FAILED = "failed"
    STUCK = "stuck"
    LATE = "late"
    REGRESSED = "regressed"
    RECOVERED = "recovered"
    """Not an incident: reports that an incident which was alerted has ended."""


@dataclass(frozen=True)
class AlertChannel:
    name: str
    """The name in output and ledger: the address's scheme, with a number if the scheme was used before."""
    url: Secret


@dataclass(frozen=True)
class AlertSettings:
    on: tuple[AlertKind, ...]
    to: tuple[AlertChannel, ...]
    after: int = 1
    """Alert `failed` only after a flow has failed this many times in a row."""
    remind: timedelta = timedelta(days=1)
    """Alert again if an incident is still open after this time; 0: never."""


@dataclass(frozen=True)
class AlertResult:
    """The result of sending alerts to one channel."""

    channel: str
    sent: bool
    incidents: tuple[str, ...]
    """The incidents that the messages were about, such as `failed of orders`."""
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "channel": self.channel,
            "sent": self.sent,
            "error": self.error,
            "incidents": list(self.incidents),
        }
