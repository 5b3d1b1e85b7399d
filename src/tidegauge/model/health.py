"""How well a flow is: findings of a check, each with a level, and where the levels begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
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
"""The checks of one flow; the others are of the whole pipeline."""


@dataclass(frozen=True)
class HealthFinding:
    check: HealthCheck
    level: HealthLevel
    says: str
    alert: AlertKind | None = None
    """What it is to those who are alerted; None: they are not."""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check.value, "level": self.level.value, "says": self.says}


@dataclass(frozen=True)
class HealthLimits:
    fresh: timedelta = timedelta(hours=24)
    """Rows that came less than this ago are FRESH."""
    stale: timedelta = timedelta(hours=48)
    """Up to here they are STALE, and from then on VERY_STALE."""
    watermark: timedelta = timedelta(hours=72)
    lag: timedelta | None = None
    """The target: a watermark further behind the clock is critical."""
    stuck: timedelta = timedelta(hours=6)
    slower: float = 3.0
    """Times the median of its own runs."""
    fewer: float = 0.1
    more: float = 10.0
    """Rows of a run, as multiples of the median of its own runs."""


@dataclass(frozen=True)
class HealthSettings:
    limits: HealthLimits = HealthLimits()
    override: Mapping[str, HealthLimits] = field(default_factory=dict)
    """By a flow's name, a pattern or `tag:WORD`; the first that means a flow holds."""
    ledger_rows: int = 1_000_000
    """Runs and events that the ledger keeps of the pipeline."""
    missed: int = 3
    """Times of a schedule, one after the other, that nobody ran for."""


def worst(levels: Iterable[HealthLevel]) -> HealthLevel:
    order = list(HealthLevel)
    return max(levels, key=order.index, default=HealthLevel.HEALTHY)


@dataclass(frozen=True)
class HealthReport:
    """A flow as the page shows it."""

    flow: str
    layer: str
    """Its first tag, or nothing."""
    state: str
    level: HealthLevel
    findings: tuple[HealthFinding, ...]
    seconds: tuple[float, ...] = ()
    """Of the runs that went well, oldest first; `rows` are theirs too."""
    rows: tuple[int, ...] = ()
