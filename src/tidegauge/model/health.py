"""The health of flows: checks, their findings with a level, and the limits of each level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tidegauge.model.alert import AlertKind


class HealthLevel(StrEnum):
    HEALTHY = "HEALTHY"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class HealthCheck(StrEnum):
    FRESHNESS = "freshness"
    COUNTS = "counts"
    QUALITY = "quality"
    PERFORMANCE = "performance"
    STATUS = "status"
    LEDGER = "ledger size"
    SCHEDULE = "schedule misses"


OF_FLOWS = tuple(check for check in HealthCheck if check not in (HealthCheck.LEDGER, HealthCheck.SCHEDULE))
"""The checks of a single flow; the others are about the whole pipeline."""


@dataclass(frozen=True)
class HealthFinding:
    check: HealthCheck
    level: HealthLevel
    says: str
    alert: AlertKind | None = None
    """The kind of alert that this finding raises; None: no alert."""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check.value, "level": self.level.value, "says": self.says}


@dataclass(frozen=True)
class HealthLimits:
    fresh: timedelta = timedelta(hours=24)
    """A flow whose newest rows came less than this ago is FRESH."""
    stale: timedelta = timedelta(hours=48)
    """Up to this age they are STALE, from then on VERY_STALE."""
    watermark: timedelta = timedelta(hours=72)
    lag: timedelta | None = None
    """The most that a watermark may lag behind the clock before it is critical; None: no limit."""
    stuck: timedelta = timedelta(hours=6)
    slower: float = 3.0
    """A run is slow from this many times the median duration of the flow's own runs."""
    fewer: float = 0.1
    more: float = 10.0
    """`fewer` and `more`: limits for the rows of a run, as multiples of the median of the flow's own runs."""

    def is_stuck(self, planned_at: datetime | None, now: datetime) -> bool:
        """Whether a plan that was made then and is not done yet means that its flow is stuck."""
        return planned_at is not None and now - planned_at > self.stuck


@dataclass(frozen=True)
class HealthSettings:
    limits: HealthLimits = HealthLimits()
    per_flow: Mapping[str, HealthLimits] = field(default_factory=dict)
    """Limits by a flow's name, a pattern or `tag:WORD`; the first entry that matches a flow applies."""
    ledger_rows: int = 1_000_000
    """How many runs and events of the pipeline the ledger may hold before a warning."""
    missed: int = 3
    """How many scheduled times in a row may be missed before it is critical."""


def worst(levels: Iterable[HealthLevel]) -> HealthLevel:
    order = list(HealthLevel)
    return max(levels, key=order.index, default=HealthLevel.HEALTHY)


@dataclass(frozen=True)
class HealthReport:
    """A flow's health, as the page shows it."""

    flow: str
    layer: str
    """The flow's first tag; empty if it has none."""
    state: str
    level: HealthLevel
    findings: tuple[HealthFinding, ...]
    seconds: tuple[float, ...] = ()
    """Durations of the successful runs, oldest first; `rows` are the same runs' row counts."""
    rows: tuple[int, ...] = ()
