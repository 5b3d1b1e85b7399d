"""How long a Delta table keeps versions that a flow has not read yet. Pure: the caller passes the time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegauge.errors import SourceError
from tidegauge.model.versions import DeltaHistory

LOG_RETENTION = "delta.logRetentionDuration"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
_DEFAULTS = {LOG_RETENTION: "interval 30 days", FILE_RETENTION: "interval 1 week"}

_PART = re.compile(r"([+-]?)\s*(\d+)(?:\.(\d{1,9}))?\s*([a-z]+)")
_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    # Delta refuses these two for a retention; if they are set all the same, this is about what they mean.
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}


def parse_interval(text: str) -> timedelta:
    """Parse `interval 7 days`, `168 hours`, `INTERVAL '1' WEEK 2 days`, as Spark parses calendar intervals.

    Raises SourceError for any other text.
    """
    bare = text.strip().lower().replace("'", " ").replace('"', " ").strip()
    bare = re.sub(r"^(?:calendar\s+)?interval\b", "", bare).strip()
    total, at = timedelta(0), 0
    while at < len(bare):
        part = _PART.match(bare, at)
        unit = part and (_UNITS.get(part[4]) or _UNITS.get(part[4].removesuffix("s")))
        if part is None or unit is None or (part[3] and unit != _UNITS["second"]):
            break
        amount = int(part[2]) * unit
        if part[3]:
            amount += timedelta(microseconds=int(part[3].ljust(6, "0")[:6]))
        total += -amount if part[1] == "-" else amount
        at = part.end()
        at += len(bare[at:]) - len(bare[at:].lstrip(" ,"))
    if not bare or at < len(bare):
        raise SourceError(
            f"{text!r} is not an interval",
            hint="write it as Delta does: 'interval 7 days', 'interval 168 hours'",
        )
    return total


def retention(properties: Mapping[str, str], name: str) -> timedelta:
    """Return the table's LOG_RETENTION or FILE_RETENTION, or Delta's default."""
    return parse_interval(properties.get(name) or _DEFAULTS[name])


def kept_for(properties: Mapping[str, str]) -> timedelta:
    """Return how long a version can be read after its commit: the shorter of the two retentions."""
    return _shortest(properties)[0]


def _shortest(properties: Mapping[str, str]) -> tuple[timedelta, str]:
    return min((retention(properties, name), name) for name in _DEFAULTS)


@dataclass(frozen=True)
class TimeLeft:
    """The time left until the oldest unread version may be removed."""

    version: int
    committed: datetime
    kept: timedelta
    """How long it is kept: the retention of the log or that of removed files, whichever is shorter."""
    setting: str
    """The name of the table property that sets it."""
    left: timedelta
    """The time that is left; if not positive, VACUUM or the log's clean-up may remove it any time."""

    @property
    def is_over(self) -> bool:
        return self.left <= timedelta(0)

    @property
    def is_near(self) -> bool:
        """Whether at least half of the time is over."""
        return self.left <= self.kept / 2

    @property
    def note(self) -> str | None:
        """A warning for people; None while more than half of the time is left."""
        if not self.is_near:
            return None
        since = f"version {self.version}, not read yet, is {shown(self.kept - self.left)} old"
        if self.is_over:
            return f"{since}, and kept for {shown(self.kept)} only ({self.setting}): it may vanish any time"
        return f"{since}; it may vanish in {shown(self.left)} ({self.setting} is {shown(self.kept)})"


def time_left(version: int, committed: datetime, properties: Mapping[str, str], now: datetime) -> TimeLeft:
    """Return how long the table's properties keep `version`, the first unread one, committed at `committed`.

    Times without a zone are in UTC.
    """
    kept, setting = _shortest(properties)
    left = _to_utc(committed) + kept - _to_utc(now)
    return TimeLeft(version, _to_utc(committed), kept, setting, left)


def unread(history: DeltaHistory, after: int | None, now: datetime) -> TimeLeft | None:
    """Return the time left for the first version past `after` that changed rows; None: none, or not known."""
    first = next(
        (one for one in history.versions if one.changes and (after is None or one.number > after)), None
    )
    if first is None or first.at is None:
        return None
    return time_left(first.number, first.at, history.properties, now)


def shown(span: timedelta) -> str:
    """Format a time span in its two largest units that are not zero: `3 days 4 hours`."""
    rest = max(int(span.total_seconds()), 0)
    words = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count:,} {unit}{'' if count == 1 else 's'}")
    return " ".join(words[:2]) or "0 seconds"


def _to_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
