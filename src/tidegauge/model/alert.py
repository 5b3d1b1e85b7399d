"""Whom to tell when a flow is unwell, of what, and how often."""

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
    """No incident of its own: the end of one that was told."""


@dataclass(frozen=True)
class AlertChannel:
    name: str
    """As it is shown and kept: the address's scheme, with a number from the second of a kind on."""
    url: Secret


@dataclass(frozen=True)
class AlertSettings:
    on: tuple[AlertKind, ...]
    to: tuple[AlertChannel, ...]
    after: int = 1
    """`failed` is told once a flow has failed so many times in a row."""
    remind: timedelta = timedelta(days=1)
    """What is still so after this long is told again; 0: never."""


@dataclass(frozen=True)
class Told:
    """What became of telling one channel."""

    channel: str
    sent: bool
    incidents: tuple[str, ...]
    """Those that the messages were about, as `failed of orders`."""
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "channel": self.channel,
            "sent": self.sent,
            "error": self.error,
            "incidents": list(self.incidents),
        }
