"""What the ledger stores about a pipeline's schedulers: which ones run, and which times were handled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegauge.model.claim import Owner

SILENCE = timedelta(minutes=3)
"""A scheduler that was not seen for this long counts as gone. Each reports every minute."""


@dataclass(frozen=True)
class ScheduleTicks:
    """How far one schedule's times are handled."""

    fired: datetime
    """The times up to here are handled: run or passed over."""
    runner: Owner | None = None
    """The process that is running the flows for a time; None: nobody."""
    ran: int = 0
    """Number of times that were run."""
    skipped: int = 0
    """Number of times passed over because the run before was still going on."""
    missed: int = 0
    """Number of times when no scheduler was there, and that were not run later."""


@dataclass(frozen=True)
class SeenScheduler:
    owner: Owner
    file: str
    """Digest of the schedules in its project file."""
    path: str
    """Path of the project file, for messages."""
    seen: datetime


@dataclass(frozen=True)
class SchedulerRecords:
    schedules: Mapping[str, ScheduleTicks] = field(default_factory=dict)
    """Progress by the schedule's text."""
    schedulers: tuple[SeenScheduler, ...] = ()


@dataclass(frozen=True)
class Tick:
    """The answer to a scheduler that asked for a due time."""

    at: datetime | None
    """The time to run for; None: none is due, or another scheduler has it."""
    skipped: int = 0
    """Number of times passed over just now because the run before is still going on."""
    missed: int = 0
    """Number of times passed over just now because no scheduler was there."""
