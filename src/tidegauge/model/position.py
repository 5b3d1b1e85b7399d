"""Points in the order of a cursor: typed, at full precision, lossless as text.

A value keeps the database's own text and its kind. Numbers, dates and timestamps can be ordered here; text
and bytes cannot, because their order is the database's collation, and a comparison in Python could silently
give another result.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from tidegauge.errors import PositionError
from tidegauge.model.unix_times import moment_of


class ValueKind(StrEnum):
    INT = "int"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """Without a zone: wall-clock time, compared as written."""
    TIMESTAMPTZ = "timestamptz"
    """An instant; its text is always in UTC, without an offset."""
    TEXT = "text"
    BYTES = "bytes"
    """Its text is lower-case hexadecimal."""


MOMENTS = frozenset({ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ})
ORDERED = frozenset(
    {ValueKind.INT, ValueKind.DECIMAL, ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ}
)

# ASCII only: `\d` would also match the digits of other alphabets.
_INT = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_DATE = re.compile(r"\d{4,6}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)
_NOTATION = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_HEX = re.compile(r"([0-9a-f]{2})*")

# One encoder for all calls: json.dumps would create one for each call.
_to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Value:
    kind: ValueKind
    text: str

    def __post_init__(self) -> None:
        if not _is_well_formed(self.kind, self.text):
            raise PositionError(f"{self.text!r} is not a {self.kind.value}")

    def __lt__(self, other: Value) -> bool:
        return bool(self._order(other) < other._order(self))

    def __le__(self, other: Value) -> bool:
        return not other < self

    def same_point(self, other: Value) -> bool:
        """Whether both are equal in the cursor's order, even if written differently (`1.0` and `1.00`)."""
        return bool(self._order(other) == other._order(self))

    def _order(self, other: Value) -> Any:
        if self.kind is not other.kind:
            raise PositionError(f"a {self.kind.value} cannot be compared with a {other.kind.value}")
        match self.kind:
            case ValueKind.INT:
                return int(self.text)
            case ValueKind.DECIMAL:
                return Decimal(self.text)
            case ValueKind.DATE:
                year, rest = self.text.split("-", 1)
                return (int(year), rest)
            case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
                match = _TIMESTAMP.fullmatch(self.text)
                assert match
                *whole, fraction = match.groups()
                return (*map(int, whole), (fraction or "").ljust(9, "0"))
            case ValueKind.TEXT | ValueKind.BYTES:
                raise PositionError(
                    f"{self.kind.value} is compared in the database only, by the column's own collation"
                )


def _is_well_formed(kind: ValueKind, text: str) -> bool:
    match kind:
        case ValueKind.INT:
            return _INT.fullmatch(text) is not None and text != "-0"
        case ValueKind.DECIMAL:
            return _DECIMAL.fullmatch(text) is not None
        case ValueKind.DATE:
            return _DATE.fullmatch(text) is not None
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
            return _TIMESTAMP.fullmatch(text) is not None
        case ValueKind.BYTES:
            return _HEX.fullmatch(text) is not None
        case ValueKind.TEXT:
            return True


@dataclass(frozen=True)
class RowPosition:
    """The point after the row with this cursor and key; an empty key: after every row with this cursor."""

    cursor: Value
    key: tuple[Value, ...] = ()

    def __lt__(self, other: RowPosition) -> bool:
        if not self.cursor.same_point(other.cursor):
            return self.cursor < other.cursor
        if not self.key or not other.key:
            return bool(self.key) and not other.key
        if len(self.key) != len(other.key):
            raise PositionError("positions with keys of different lengths cannot be compared")
        for mine, theirs in zip(self.key, other.key, strict=True):
            if not mine.same_point(theirs):
                return mine < theirs
        return False

    def __le__(self, other: RowPosition) -> bool:
        return not other < self


@dataclass(frozen=True, order=True)
class VersionPosition:
    """The point after this version of a Delta table."""

    version: int


@dataclass(frozen=True, order=True)
class FilesPosition:
    """The point after the lake's manifest with this sequence number."""

    sequence: int


def compare(one: RowPosition | None, other: RowPosition | None, *, moments: bool) -> int | None:
    """Return -1, 0 or 1; None if only the database can compare them.

    `moments`: text of this cursor is timestamps in a single notation, which can be compared as text.
    """
    if one == other:
        return 0
    if one is None or other is None:
        return -1 if one is None else 1
    if one.cursor.kind is not other.cursor.kind:
        return None
    if moments and one.cursor.kind is ValueKind.TEXT:
        if one.cursor.text != other.cursor.text:
            return -1 if one.cursor.text < other.cursor.text else 1
        # The moments are equal, so the keys decide.
        same = Value(ValueKind.INT, "0")
        one, other = RowPosition(same, one.key), RowPosition(same, other.key)
    try:
        return -1 if one < other else 1 if other < one else 0
    except PositionError:
        return None


Position = RowPosition | VersionPosition | FilesPosition
"""Where a position is optional, None is the beginning, before all rows."""


@dataclass(frozen=True)
class Window:
    """`(after, upto]`: excludes `after`, includes `upto`. If both are None, it holds no row with a cursor."""

    after: Position | None
    upto: Position | None

    def to_json(self) -> dict[str, Any]:
        return {"after": to_json(self.after), "upto": to_json(self.upto)}


def encode(position: Position | None) -> str:
    """Return the ledger's text for a position; `decode` returns exactly the same position."""
    # Formatted by hand for speed: a thousand plans have ten thousand positions.
    if isinstance(position, RowPosition):
        cursor, *keys = [_encode_value(value) for value in (position.cursor, *position.key)]
        return f'{{"cursor":{cursor},"key":[{",".join(keys)}]}}'
    return _to_text(to_body(position))


def _encode_value(value: Value) -> str:
    return f'["{value.kind}",{encode_basestring(value.text)}]'


# Cached because a run reads the same watermarks several times: for status, plan and advance.
@lru_cache(maxsize=8192)
def decode(text: str) -> Position | None:
    try:
        return from_body(json.loads(text))
    except ValueError as error:
        raise PositionError(f"not a position: {text!r} ({error})") from error


def to_body(position: Position | None) -> Any:
    """Return the same as `encode` before it becomes text, for use in a larger document."""
    match position:
        case None:
            return None
        case RowPosition(cursor, key):
            # The enum's plain text, because JSON encodes text faster than an enum.
            return {
                "cursor": [cursor.kind.value, cursor.text],
                "key": [[value.kind.value, value.text] for value in key],
            }
        case VersionPosition(version):
            return {"version": version}
        case FilesPosition(sequence):
            return {"files": sequence}


def from_body(body: Any) -> Position | None:
    try:
        match body:
            case None:
                return None
            case {"cursor": [kind, value], "key": [*key]}:
                return RowPosition(
                    Value(ValueKind(kind), value), tuple(Value(ValueKind(k), v) for k, v in key)
                )
            case {"version": int(version)}:
                return VersionPosition(version)
            case {"files": int(sequence)}:
                return FilesPosition(sequence)
            case _:
                raise PositionError(f"not a position: {body!r}")
    except (ValueError, TypeError) as error:
        raise PositionError(f"not a position: {body!r} ({error})") from error


def to_json(position: Position | None) -> Any:
    """Return a position as `--json` shows it: values without their kinds."""
    match position:
        case None:
            return None
        case RowPosition(cursor, key):
            return {"cursor": cursor.text, "key": [value.text for value in key]}
        case VersionPosition(version):
            return version
        case FilesPosition(sequence):
            return sequence


def to_text(position: Position | None) -> str:
    """Return a position as tables for people show it."""
    match position:
        case None:
            return "the beginning"
        case RowPosition(cursor, key):
            return cursor.text + (f" · {', '.join(value.text for value in key)}" if key else "")
        case VersionPosition(version):
            return f"version {version}"
        case FilesPosition(sequence):
            return f"batch {sequence}"


def to_moment(position: Position | None, cursor: str, stamp: str | None) -> datetime | None:
    """Return the time of a position: in UTC, or wall-clock time of a column without a zone; None if unknown.

    A row's time is its cursor; `cursor`, the cursor's kind, says if text or a number is a time. The time of
    a version or of a batch of files is `stamp`, which its source reported.
    """
    match position:
        case RowPosition(Value(ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ | ValueKind.DATE, text), _):
            return _moment(text)
        case RowPosition(Value(ValueKind.TEXT, text), _) if cursor == "timestamp":
            return _moment(text)
        case RowPosition(Value(ValueKind.INT, text), _) if cursor == "timestamp":
            return moment_of(text)
        case VersionPosition() | FilesPosition():
            return _moment(stamp or "")
        case _:
            return None


def _moment(text: str) -> datetime | None:
    """Parse any notation in which timestamps are read, or ISO 8601, to the microsecond. None: not a time."""
    parts = _NOTATION.fullmatch(text)
    if parts is None:
        return None
    day, clock, fraction, zone = parts.groups()
    try:
        found = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(fraction or '')[:7]}{zone or ''}")
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except (ValueError, OverflowError):
        return None  # an invalid day, or a year that Python's datetime does not support


def step_down(value: Value, scale: int) -> Value:
    """Return the largest value of this kind below `value`, with `scale` digits after the second.

    A value just below a moment is not safe at the column's own precision: a row stamped 10:00:00.9 is
    stored as 10:00:00 in a column without fractions. So a timestamp is first cut to the scale and then
    reduced by one unit.
    """
    try:
        return _step_down(value, scale)
    except (ValueError, OverflowError) as error:
        raise PositionError(
            f"there is no next lower {value.kind.value} than '{value.text}' within the years 1 to 9999"
        ) from error


def _step_down(value: Value, scale: int) -> Value:
    match value.kind:
        case ValueKind.INT:
            return Value(ValueKind.INT, str(int(value.text) - 1))
        case ValueKind.DATE:
            return Value(ValueKind.DATE, (date.fromisoformat(value.text) - timedelta(days=1)).isoformat())
        case ValueKind.TIMESTAMP | ValueKind.TIMESTAMPTZ:
            whole, _, fraction = value.text.partition(".")
            units = int(fraction.ljust(9, "0")[:scale]) if scale and fraction else 0
            second = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S")
            if units:
                units -= 1
            else:
                second -= timedelta(seconds=1)
                units = 10**scale - 1
            text = second.isoformat(sep=" ") + (f".{units:0{scale}d}" if scale else "")
            return Value(value.kind, text)
        case _:
            raise PositionError(f"there is no next lower {value.kind.value}")
