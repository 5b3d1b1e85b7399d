"""Numbers that are moments (Unix times): seconds, milliseconds or microseconds since 1970, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = 10**8
"""In seconds, March 1973. From there to the year 5138 no number is a valid moment in two of the units."""


class UnixUnit(StrEnum):
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=1) / self.each

    @property
    def each(self) -> int:
        """How many of this unit make a second."""
        return {UnixUnit.SECONDS: 1, UnixUnit.MILLISECONDS: 10**3, UnixUnit.MICROSECONDS: 10**6}[self]


def number_of(moment: datetime, unit: UnixUnit) -> int:
    """Return a moment (UTC, without a zone) as a number of this unit, rounded down."""
    return (moment.replace(tzinfo=UTC) - _BEGIN) // unit.step


def unit_of(number: int) -> UnixUnit | None:
    """Return the unit in which the number is a moment between 1973 and 5138; None if it is so in no unit."""
    return next((unit for unit in UnixUnit if _FIRST <= number // unit.each < _FIRST * 1000), None)


def moment_of(text: str) -> datetime | None:
    """Parse a moment, in UTC without a zone; the size of the number decides the unit. None: not a moment."""
    if not (text.isascii() and text.isdigit()):
        return None
    unit = unit_of(int(text))
    try:
        return None if unit is None else (_BEGIN + int(text) * unit.step).replace(tzinfo=None)
    except OverflowError:
        return None
