"""When flows are due. Pure; times are UTC without a zone, like the ledger's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from tidegauge.model.cron import Cron

_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_LONGEST = 366 * 9
"""Most days to search for the next time: around 2100 there is no 29th of February for eight years."""
_MOST = 10_000
"""Most missed times that are counted; beyond that the exact number does not matter."""
GRACE = timedelta(minutes=1)
"""A time that is taken at most this late does not count as missed."""
SKEW = timedelta(seconds=5)
"""A clock that is at most this far back was not set back: S3 stores know theirs only to a second or two."""


class CatchUp(StrEnum):
    """What to do about times when no scheduler was running."""

    ONE = "one"
    """One run for all of them, immediately."""
    ALL = "all"
    """A run for each of them, one after the other."""
    NONE = "none"
    """No run; wait for the next time."""


@dataclass(frozen=True)
class Every:
    """At whole multiples of a length since 1970, so that all schedulers compute the same times."""

    length: timedelta


@dataclass(frozen=True)
class FlowSchedule:
    rule: Every | Cron
    text: str
    """The rule for people: `every 5 minutes`, `*/15 * * * *`."""
    timezone: str = "UTC"
    """The time zone of a cron rule."""
    catch_up: CatchUp = CatchUp.ONE

    def __str__(self) -> str:
        """The schedule as text, which is also its name in the ledger."""
        zone = f" {self.timezone}" if isinstance(self.rule, Cron) else ""
        more = "" if self.catch_up is CatchUp.ONE else f", catch_up: {self.catch_up}"
        return f"{self.text}{zone}{more}"

    def times(self, after: datetime) -> Iterator[datetime]:
        """Yield the times after a moment, in order, without end."""
        if isinstance(self.rule, Every):
            yield from _multiples(self.rule.length, after)
        else:
            yield from _cron_times(self.rule, self.timezone, after)

    def next(self, after: datetime) -> datetime:
        return next(self.times(after))

    def last(self, upto: datetime) -> datetime:
        """Return the newest time that is not after `upto`."""
        if isinstance(self.rule, Every):
            return upto - (upto - _EPOCH) % self.rule.length
        return _last_cron_time(self.rule, self.timezone, upto)

    def count(self, after: datetime, upto: datetime) -> int:
        """Count the times in `(after, upto]`; at most ten thousand."""
        if isinstance(self.rule, Every):
            return min(
                max((upto - _EPOCH) // self.rule.length - (after - _EPOCH) // self.rule.length, 0), _MOST
            )
        count = 0
        for at in islice(self.times(after), _MOST):
            if at > upto:
                break
            count += 1
        return count


@dataclass(frozen=True)
class Due:
    """What a scheduler has to do at a moment."""

    tick: datetime | None
    """The time to run for; None: no run is due."""
    upto: datetime
    """All times up to here are handled by this."""
    missed: int = 0
    """How many of those times get no run."""


def find_due(schedule: FlowSchedule, fired: datetime, now: datetime) -> Due:
    """Return what is due now, if all times up to `fired` are handled.

    If `fired` lies in the future, the clock was set back: then all times after now are due again.
    """
    if fired > now + SKEW:
        return Due(None, now)
    newest = schedule.last(now)
    if newest <= fired:
        return Due(None, fired)
    if schedule.catch_up is CatchUp.ALL:
        oldest = schedule.next(fired)
        return Due(oldest, oldest)
    missed = schedule.count(fired, newest) - 1
    if schedule.catch_up is CatchUp.NONE and now - newest > GRACE:
        return Due(None, newest, missed + 1)
    return Due(newest, newest, missed)


def _multiples(length: timedelta, after: datetime) -> Iterator[datetime]:
    at = after - (after - _EPOCH) % length
    while True:
        at += length
        yield at


def _cron_times(rule: Cron, zone: str, after: datetime) -> Iterator[datetime]:
    day = _to_wall_time(after, zone).date() - _DAY
    last = after
    for _ in range(_LONGEST):
        for at in _find_instants(rule, zone, day):
            if at > last:
                last = at
                yield at
        day += _DAY


def _last_cron_time(rule: Cron, zone: str, upto: datetime) -> datetime:
    day = _to_wall_time(upto, zone).date() + _DAY
    for _ in range(_LONGEST):
        before = [at for at in _find_instants(rule, zone, day) if at <= upto]
        if before:
            return before[-1]
        day -= _DAY
    return _EPOCH


@lru_cache(maxsize=16)
def _find_instants(rule: Cron, zone: str, day: date) -> tuple[datetime, ...]:
    """Return the moments (UTC) at which a rule is due on a day of this zone, in order.

    If the clock repeats an hour, its times count once, unless the rule is for every hour: then they count
    both times. A time that the clock skips is due when the skipped hour ends.
    """
    found: set[datetime] = set()
    for wall in rule.times_on(day):
        first, second = (_moment(wall, zone, fold) for fold in (0, 1))
        if _to_wall_time(first, zone) != wall:
            found.add(_find_gap_end(second, first, zone))
            continue
        found.add(first)
        if rule.every_hour:
            found.add(second)
    return tuple(sorted(found))


def _moment(wall: datetime, zone: str, fold: int) -> datetime:
    return wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC).replace(tzinfo=None)


def _to_wall_time(moment: datetime, zone: str) -> datetime:
    return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _find_gap_end(before: datetime, after: datetime, zone: str) -> datetime:
    """Find when the clock was set forward, which happened in `(before, after]`."""
    offset = _to_wall_time(after, zone) - after
    low, high = 0, (after - before) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        moment = before + middle * _SECOND
        low, high = (low, middle) if _to_wall_time(moment, zone) - moment == offset else (middle, high)
    return before + high * _SECOND
