"""What the ledger keeps of a pipeline's schedulers: who is there, and which times were dealt with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegauge.model.claim import Owner

SILENCE = timedelta(minutes=3)
"""A scheduler that was not seen for so long is gone. Each shows itself every minute."""


@dataclass(frozen=True)
class ScheduleTicks:
    """Of one schedule."""

    fired: datetime
    """The times up to here are dealt with: run for, or passed over."""
    runner: Owner | None = None
    """Who is running its flows for a time; None: nobody."""
    ran: int = 0
    """Times that somebody ran for."""
    skipped: int = 0
    """Times that came while the run before was still under way."""
    missed: int = 0
    """Times that nobody was there for, and nobody ran for since."""


@dataclass(frozen=True)
class SeenScheduler:
    owner: Owner
    file: str
    """A digest of what its project file schedules."""
    path: str
    """The file itself, to name it."""
    seen: datetime


@dataclass(frozen=True)
class TickBook:
    schedules: Mapping[str, ScheduleTicks] = field(default_factory=dict)
    """By the schedule's text."""
    schedulers: tuple[SeenScheduler, ...] = ()


@dataclass(frozen=True)
class Tick:
    """What a scheduler that asked for a time was given."""

    at: datetime | None
    """The time to run for; None: there is none, or another scheduler has it."""
    skipped: int = 0
    """Times that were passed over just now, because the run before is still under way."""
    missed: int = 0
    """Times that were passed over just now, because nobody was there."""
