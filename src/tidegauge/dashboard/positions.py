"""Places of positions on an axis of moments, versions or numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegauge.model.position import (
    FilesPosition,
    Position,
    RowPosition,
    ValueKind,
    VersionPosition,
    to_moment,
)


def place_of(position: Position | None, cursor: str) -> float | None:
    """The position as a number; None for the beginning, and for values that only their database can order."""
    match position:
        case VersionPosition(number) | FilesPosition(number):
            return float(number)
        case RowPosition(cursor=value) if value.kind in (ValueKind.INT, ValueKind.DECIMAL) and (
            cursor != "timestamp"
        ):
            return float(value.text)
        case _:
            moment = to_moment(position, cursor, None)
            return None if moment is None else second_of(moment)


def second_of(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Axis:
    least: float
    most: float

    @property
    def span(self) -> float:
        return max(self.most - self.least, 1e-9)

    def share(self, place: float) -> float:
        """Where the place is on the axis, from 0 at the left end to 1 at the right end."""
        return min(max((place - self.least) / self.span, 0.0), 1.0)


def axis_over(places: Iterable[float], *, margin: float = 0.0) -> Axis | None:
    found = list(places)
    if not found:
        return None
    least, most = min(found), max(found)
    room = (most - least or 1.0) * margin
    return Axis(least - room, most + room)
