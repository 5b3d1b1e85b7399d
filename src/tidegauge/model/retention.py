"""How long a Delta table keeps what a reader has not read yet. Pure: the clock is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegauge.errors import SourceError
from tidegauge.model.versions import History

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
    # Delta refuses these two for a retention; who wrote them all the same meant about this.
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}


def parse_interval(text: str) -> timedelta:
    """`interval 7 days`, `168 hours`, `INTERVAL '1' WEEK 2 days`: as Spark reads a calendar interval.

    Raises SourceError for what is none.
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
    """What a table's properties say of LOG_RETENTION or FILE_RETENTION, or Delta's own value."""
    return parse_interval(properties.get(name) or _DEFAULTS[name])


def kept_for(properties: Mapping[str, str]) -> timedelta:
    """How long a version can be read from its commit on: whichever retention ends first."""
    return _shortest(properties)[0]


def _shortest(properties: Mapping[str, str]) -> tuple[timedelta, str]:
    return min((retention(properties, name), name) for name in _DEFAULTS)


@dataclass(frozen=True)
class TimeLeft:
    """Until the oldest version that a reader has not read yet may vanish."""

    version: int
    committed: datetime
    kept: timedelta
    """Whichever ends first: the retention of the log, or that of files which only older versions need."""
    setting: str
    """The name of that retention."""
    left: timedelta
    """Negative once it is over: from then on VACUUM, or the log's clean-up, may remove it any time."""

    @property
    def is_over(self) -> bool:
        return self.left <= timedelta(0)

    @property
    def is_near(self) -> bool:
        """From half of the time on."""
        return self.left <= self.kept / 2

    @property
    def note(self) -> str | None:
        """What a person should know of it; None while more than half is left."""
        if not self.is_near:
            return None
        since = f"version {self.version}, not read yet, is {shown(self.kept - self.left)} old"
        if self.is_over:
            return f"{since}, and kept for {shown(self.kept)} only ({self.setting}): it may vanish any time"
        return f"{since}; it may vanish in {shown(self.left)} ({self.setting} is {shown(self.kept)})"


def time_left(version: int, committed: datetime, properties: Mapping[str, str], now: datetime) -> TimeLeft:
    """`version` is the first that was not read, `committed` its commit's time, by the table's own properties.

    Moments without a zone are in UTC.
    """
    kept, setting = _shortest(properties)
    left = _utc(committed) + kept - _utc(now)
    return TimeLeft(version, _utc(committed), kept, setting, left)


def unread(history: History, after: int | None, now: datetime) -> TimeLeft | None:
    """Of the first version past `after` that changed a row; None where there is none, or it has no time."""
    first = next(
        (one for one in history.versions if one.changes and (after is None or one.number > after)), None
    )
    if first is None or first.at is None:
        return None
    return time_left(first.number, first.at, history.properties, now)


def shown(span: timedelta) -> str:
    """In the two largest units that count: `3 days 4 hours`."""
    rest = max(int(span.total_seconds()), 0)
    words = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count:,} {unit}{'' if count == 1 else 's'}")
    return " ".join(words[:2]) or "0 seconds"


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
