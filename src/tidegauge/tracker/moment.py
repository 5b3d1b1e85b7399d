"""Points in time as callers write them, and as positions keep them.

A time with a zone is an instant, and comes back in UTC with its zone. A time without one is read as UTC and
comes back without one, so that naive times stay naive. A pipeline's first value decides which of the two it
keeps.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from tidegauge.errors import ConfigError
from tidegauge.model.position import Position, RowPosition, Value, ValueKind

TimeLike = datetime | date | str


def read_moment(given: TimeLike, *, what: str) -> datetime:
    """Read a datetime, a date (its midnight) or ISO 8601 text. Raises ConfigError, naming `what`, for
    anything else."""
    if isinstance(given, str):
        return _parse(given, what)
    if isinstance(given, datetime):
        return given
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day)
    raise ConfigError(
        f"{what} is not a point in time: {type(given).__name__}",
        hint="give a datetime, a date or ISO text",
    )


def _parse(text: str, what: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"{what} is not a point in time: {text[:60]!r}",
            hint="write it as 2025-08-14 15:30:22.123456, with an offset or Z if it is not UTC",
        ) from None


def to_position(moment: datetime, *, like: Position | None = None) -> RowPosition:
    """The position of a moment: with or without a zone as `like` has it, or as the moment itself has it where
    there is no `like`."""
    kind = ValueKind.TIMESTAMP if moment.tzinfo is None else ValueKind.TIMESTAMPTZ
    if isinstance(like, RowPosition) and like.cursor.kind in (ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ):
        kind = like.cursor.kind
    text = to_utc(moment).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return RowPosition(Value(kind, text))


def from_position(position: Position | None) -> datetime | None:
    if position is None:
        return None
    assert isinstance(position, RowPosition)
    moment = datetime.fromisoformat(position.cursor.text)
    return moment.replace(tzinfo=UTC) if position.cursor.kind is ValueKind.TIMESTAMPTZ else moment


def to_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def future_error(
    what: str, moment: datetime, now: datetime, *, tolerated: timedelta, way_out: str
) -> ConfigError | None:
    """The error for a moment that lies in the future of the ledger's clock; None if it does not."""
    if to_utc(moment) <= now + tolerated:
        return None
    naive = "; a time without a zone counts as UTC" if moment.tzinfo is None else ""
    return ConfigError(
        f"{what} is in the future of the ledger's clock ({now:%Y-%m-%d %H:%M:%S} UTC)",
        hint=f"rows that come later would be passed over; if that is meant, give {way_out}{naive}",
    )


def with_utc(moment: datetime) -> datetime:
    """Add the zone to a time of the ledger, which keeps UTC without a zone."""
    return moment.replace(tzinfo=UTC)
