"""A cron schedule of five fields, and its translation to Quartz."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time

from tidegauge.errors import ConfigError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ITEM = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?", re.ASCII)


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    """Names for the numbers, starting at `least`."""

    @property
    def whole(self) -> frozenset[int]:
        return frozenset(range(self.least, self.most + 1))


_MINUTE, _HOUR = _Field("minute", 0, 59), _Field("hour", 0, 23)
_DAY, _MONTH = _Field("day of the month", 1, 31), _Field("month", 1, 12, _MONTHS)
# Both 0 and 7 are Sunday.
_WEEKDAY = _Field("day of the week", 0, 7, _DAYS)
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True)
class Cron:
    """When something is due. As in cron, a day counts if it matches the day of the month or the weekday."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""

    @property
    def every_hour(self) -> bool:
        return self.hours == _HOUR.whole

    def times_on(self, day: date) -> list[datetime]:
        """Return the times of one day, in local time."""
        if day.month not in self.months or not self._has_day(day):
            return []
        return [
            datetime.combine(day, time(hour, minute))
            for hour in sorted(self.hours)
            for minute in sorted(self.minutes)
        ]

    def _has_day(self, day: date) -> bool:
        by_month, by_week = day.day in self.days, day.isoweekday() % len(_DAYS) in self.weekdays
        if self.days == _DAY.whole or len(self.weekdays) == len(_DAYS):
            return by_month and by_week
        return by_month or by_week

    def to_quartz(self) -> str:
        """Return the schedule for Quartz: seconds first, and `?` for the day of the month or the weekday.

        Raises ConfigError if both kinds of day are restricted, which no Quartz expression can express.
        """
        any_day, any_weekday = self.days == _DAY.whole, len(self.weekdays) == len(_DAYS)
        if not any_day and not any_weekday:
            raise ConfigError(
                f"the schedule `{self.text}` names days of the month and days of the week,"
                " which Quartz cannot express",
                hint="name one kind of day and leave `*` for the other",
            )
        weekdays = "?" if any_weekday else ",".join(_DAYS[day] for day in sorted(self.weekdays))
        days = _format_values(self.days, _DAY) if any_weekday else "?"
        times = [_format_values(self.minutes, _MINUTE), _format_values(self.hours, _HOUR)]
        return " ".join(["0", *times, days, _format_values(self.months, _MONTH), weekdays])


def parse_cron(text: str) -> Cron:
    """Parse five fields. Raises ConfigError if they are invalid or would never be due."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise _make_error(text, f"it has {len(parts)} fields, not five")
    minutes, hours, days, months, weekdays = (
        _parse_values(text, part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    weekdays = frozenset(day % len(_DAYS) for day in weekdays)
    if len(weekdays) == len(_DAYS) and not any(min(days) <= _LONGEST[month - 1] for month in months):
        raise _make_error(text, "no such month has such a day, so that it would never be due")
    return Cron(" ".join(parts), minutes, hours, days, months, weekdays)


def _parse_values(text: str, part: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for item in part.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _make_error(text, f"`{item}` is no {field.name}")
        star, first, last, step = match.groups()
        if step is not None and (int(step) == 0 or (last is None and not star)):
            raise _make_error(
                text, f"the step in `{item}` is wrong: it goes behind `*` or a range, from 1 on"
            )
        if star:
            # In `*`, Sunday is only 0 and not also 7.
            values = range(field.least, (6 if field is _WEEKDAY else field.most) + 1)
        else:
            start = _parse_number(text, first, field)
            values = range(start, (start if last is None else _parse_number(text, last, field)) + 1)
        if not values:
            raise _make_error(text, f"the range `{item}` runs backwards")
        found |= set(values[:: int(step or 1)])
    return frozenset(found)


def _parse_number(text: str, word: str, field: _Field) -> int:
    if word.upper() in field.names:
        return field.least + field.names.index(word.upper())
    if not word.isdigit() or not field.least <= int(word) <= field.most:
        raise _make_error(text, f"`{word}` is no {field.name} from {field.least} to {field.most}")
    return int(word)


def _make_error(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"`{text[:60]}` is not a schedule: {why}",
        hint="write five fields, such as `30 5 * * *`: minute, hour, day of the month, month, weekday",
    )


def _format_values(values: frozenset[int], field: _Field) -> str:
    if values == field.whole:
        return "*"
    ordered = sorted(values)
    step = ordered[1] - ordered[0] if len(ordered) > 2 else 0
    if step > 1 and ordered == list(range(ordered[0], field.most + 1, step)):
        return f"{ordered[0]}/{step}"
    return ",".join(_format_span(run) for run in _runs(ordered))


def _runs(ordered: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in ordered:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _format_span(run: Sequence[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))
