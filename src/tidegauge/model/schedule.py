"""When flows are due. Pure: moments are UTC without a zone, as the ledger's clock gives them."""

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
"""Days. The 29th of February is away for eight years around 2100, and nothing else for longer."""
_MOST = 10_000
"""Times that are counted one by one; whoever slept through more need not know how many."""
GRACE = timedelta(minutes=1)
"""A time that is taken so late at most was not missed."""
SKEW = timedelta(seconds=5)
"""A clock that is so far back at most was not set: stores on S3 know theirs only to a second or two."""


class CatchUp(StrEnum):
    """What becomes of times that nobody was there for."""

    ONE = "one"
    """One run for all of them, at once."""
    ALL = "all"
    """A run for each of them, one after the other."""
    NONE = "none"
    """No run: the next time counts."""


@dataclass(frozen=True)
class Every:
    """At whole multiples of a length since 1970, so that all schedulers mean the same times."""

    length: timedelta


@dataclass(frozen=True)
class FlowSchedule:
    rule: Every | Cron
    text: str
    """As people read it: `every 5 minutes`, `*/15 * * * *`."""
    timezone: str = "UTC"
    """What the hours of a cron rule are hours of."""
    catch_up: CatchUp = CatchUp.ONE

    def __str__(self) -> str:
        """Also the name under which the ledger keeps it."""
        zone = f" {self.timezone}" if isinstance(self.rule, Cron) else ""
        more = "" if self.catch_up is CatchUp.ONE else f", catch_up: {self.catch_up}"
        return f"{self.text}{zone}{more}"

    def times(self, after: datetime) -> Iterator[datetime]:
        """The times after a moment, in order, for ever."""
        if isinstance(self.rule, Every):
            yield from _multiples(self.rule.length, after)
        else:
            yield from _cron_times(self.rule, self.timezone, after)

    def next(self, after: datetime) -> datetime:
        return next(self.times(after))

    def last(self, upto: datetime) -> datetime:
        """The newest time that is not after the moment."""
        if isinstance(self.rule, Every):
            return upto - (upto - _EPOCH) % self.rule.length
        return _last_cron_time(self.rule, self.timezone, upto)

    def count(self, after: datetime, upto: datetime) -> int:
        """How many times lie after one moment and not after another; at most ten thousand."""
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
    """What is to be done at a moment."""

    tick: datetime | None
    """The time to run for; None: there is none."""
    upto: datetime
    """The times up to here are dealt with."""
    missed: int = 0
    """How many of them nobody ran for."""


def find_due(schedule: FlowSchedule, fired: datetime, now: datetime) -> Due:
    """What is due now, after the times up to `fired` were dealt with.

    A `fired` that lies ahead means that the clock was set back: then the times after now count again.
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
    day = _wall(after, zone).date() - _DAY
    last = after
    for _ in range(_LONGEST):
        for at in _instants(rule, zone, day):
            if at > last:
                last = at
                yield at
        day += _DAY


def _last_cron_time(rule: Cron, zone: str, upto: datetime) -> datetime:
    day = _wall(upto, zone).date() + _DAY
    for _ in range(_LONGEST):
        before = [at for at in _instants(rule, zone, day) if at <= upto]
        if before:
            return before[-1]
        day -= _DAY
    return _EPOCH


@lru_cache(maxsize=16)
def _instants(rule: Cron, zone: str, day: date) -> tuple[datetime, ...]:
    """The moments at which a rule is due on a day of this zone, in order.

    An hour that comes twice counts once, unless the rule names every hour: then what is due each quarter of
    an hour is due in both. A time that the clock leaves out is due when the clock goes on.
    """
    found: set[datetime] = set()
    for wall in rule.times_on(day):
        first, second = (_moment(wall, zone, fold) for fold in (0, 1))
        if _wall(first, zone) != wall:
            found.add(_end_of_gap(second, first, zone))
            continue
        found.add(first)
        if rule.every_hour:
            found.add(second)
    return tuple(sorted(found))


def _moment(wall: datetime, zone: str, fold: int) -> datetime:
    return wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC).replace(tzinfo=None)


def _wall(moment: datetime, zone: str) -> datetime:
    return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _end_of_gap(before: datetime, after: datetime, zone: str) -> datetime:
    """When the clock was set forward, which is after the one moment and not after the other."""
    offset = _wall(after, zone) - after
    low, high = 0, (after - before) // _SECOND
    while high - low > 1:
        middle = (low + high) // 2
        moment = before + middle * _SECOND
        low, high = (low, middle) if _wall(moment, zone) - moment == offset else (middle, high)
    return before + high * _SECOND
