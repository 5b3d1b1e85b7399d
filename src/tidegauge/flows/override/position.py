"""Parse a position as a person writes it into the kind of value that the flow's cursor holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tidegauge.errors import ConfigError, PositionError
from tidegauge.model.position import Position, RowPosition, Value, ValueKind
from tidegauge.model.table import OrderedColumn, SourceTable
from tidegauge.model.unix_times import number_of

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d(?:([ T])\d\d:\d\d(:\d\d)?(?:\.(\d+))?)?(Z|\+00:00)?", re.ASCII)


def from_timestamp(source_table: SourceTable, text: str, like: Value | None) -> RowPosition:
    """The position that has read everything up to a timestamp.

    `like`: a value of the cursor, which shows how a text column writes timestamps. Raises ConfigError if the
    cursor holds no timestamps, or the text is none.
    """
    if source_table.cursor_kind != "timestamp":
        raise ConfigError(
            f"{source_table.table}: its cursor {source_table.cursor.name} is a"
            f" {source_table.cursor.kind.value}, not a timestamp",
            hint="give the value with --position",
        )
    return RowPosition(_moment(source_table, text, like))


def from_text(source_table: SourceTable, text: str, like: Value | None) -> RowPosition | None:
    """Parse a plain value, or `{"cursor": …, "key": […]}` as `--json` shows it. `null` is the beginning."""
    try:
        body = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except ValueError:
        body = text  # a bare word, date or timestamp
    if body is None:
        return None
    cursor, key = (body.get("cursor"), body.get("key", [])) if isinstance(body, dict) else (body, [])
    if isinstance(body, dict) and set(body) - {"cursor", "key"}:
        raise _no_position_error(source_table, text)
    if not isinstance(cursor, str) or not isinstance(key, list):
        raise _no_position_error(source_table, text)
    if key and len(key) != len(source_table.key):
        names = ", ".join(part.name for part in source_table.key)
        raise ConfigError(
            f"{source_table.table}: the key has {len(source_table.key)} columns ({names}), and {text}"
            f" gives {len(key)}",
            hint="give all of them in this order, or none: then every row with the cursor's value is meant",
        )
    moment = source_table.cursor_kind == "timestamp"
    value = (
        _moment(source_table, cursor, like) if moment else _value(source_table, source_table.cursor, cursor)
    )
    return RowPosition(
        value,
        tuple(_value(source_table, part, one) for part, one in zip(source_table.key, key, strict=bool(key))),
    )


def check_fits(source_table: SourceTable, position: Position | None, source: str) -> RowPosition | None:
    """Refuse a position from elsewhere that does not fit the table. `source`: what errors call it."""
    if position is None:
        return None
    if not isinstance(position, RowPosition):
        raise ConfigError(
            f"{source_table.table}: {source} is no position in a table", hint="copy between tables"
        )
    kinds = [source_table.cursor.kind, *(part.kind for part in source_table.key if position.key)]
    found = [position.cursor.kind, *(value.kind for value in position.key)]
    if kinds != found:
        names = ", ".join(
            f"{part.name} {part.kind.value}" for part in (source_table.cursor, *source_table.key)
        )
        shown = ", ".join(kind.value for kind in found)
        raise ConfigError(
            f"{source_table.table}: its cursor and key are ({names}), and {source} is a position in"
            f" ({shown})",
            hint="a position means something only in the same order of the same columns",
        )
    return position


def _moment(source_table: SourceTable, text: str, like: Value | None) -> Value:
    cursor = source_table.cursor
    if cursor.unix_unit is not None and text.strip().lstrip("-").isdigit():
        return _value(source_table, cursor, text.strip())
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise _wrong_value_error(source_table, cursor, text)
    day, minute, second, fraction, zone = match.groups("")
    if zone and cursor.kind in (ValueKind.TIMESTAMP, ValueKind.DATE):
        _read_moment(day, minute, second, "", lambda: _wrong_value_error(source_table, cursor, text))
        raise ConfigError(
            f"{source_table.table}: its cursor {cursor.name} is a {cursor.kind.value} without a zone, and"
            f" '{text}' names one",
            hint="write the digits as the column holds them, without a zone",
        )
    whole = _read_moment(day, minute, second, zone, lambda: _wrong_value_error(source_table, cursor, text))
    if cursor.unix_unit is not None:
        exact = whole.replace(microsecond=int(fraction[:6].ljust(6, "0")))
        return Value(ValueKind.INT, str(number_of(exact, cursor.unix_unit)))
    if cursor.kind is ValueKind.DATE:
        if whole.time().isoformat() != "00:00:00" or fraction.strip("0"):
            raise _wrong_value_error(source_table, cursor, text)
        return Value(ValueKind.DATE, whole.date().isoformat())
    if cursor.kind is ValueKind.TEXT:
        return Value(ValueKind.TEXT, _write_like(whole, fraction, like, text))
    # Digits that the column cannot hold are cut off: no row lies between the two values.
    digits = fraction[: cursor.scale]
    return Value(cursor.kind, whole.isoformat(sep=" ") + (f".{digits}" if digits else ""))


def _read_moment(day: str, minute: str, second: str, zone: str, unfit: Callable[[], ConfigError]) -> datetime:
    """Parse a time to the second, turned into UTC if it has a zone. Raises the error that `unfit` makes."""
    try:
        whole = datetime.fromisoformat(f"{day} {minute or '00:00'}{second or ':00'}")
        if not zone:
            return whole
        offset = datetime.fromisoformat(f"2000-01-01T00:00:00{zone.replace('Z', '+00:00')}").tzinfo
        return whole.replace(tzinfo=offset).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise unfit() from None


def _write_like(whole: datetime, fraction: str, like: Value | None, text: str) -> str:
    """Write a time in the notation of `like`; as it was given (`text`) if there is no such notation."""
    match = _WRITTEN.fullmatch(like.text) if like else None
    if match is None:
        return text
    between, seconds, digits, zone = match.groups()
    if between is None:
        return whole.date().isoformat() + (zone or "")
    clock = whole.isoformat(sep=between, timespec="seconds" if seconds else "minutes")
    tail = f".{fraction[: len(digits)].ljust(len(digits), '0')}" if digits else ""
    return clock + tail + (zone or "")


def _value(source_table: SourceTable, part: OrderedColumn, given: Any) -> Value:
    if not isinstance(given, str):
        raise _wrong_value_error(source_table, part, given)
    try:
        return Value(part.kind, given)
    except PositionError:
        raise _wrong_value_error(source_table, part, given) from None


def _wrong_value_error(source_table: SourceTable, part: OrderedColumn, given: object) -> ConfigError:
    kind = (
        "timestamp"
        if part is source_table.cursor and source_table.cursor_kind == "timestamp"
        else part.kind.value
    )
    if part.kind is ValueKind.DATE:
        kind = "date"
    examples = {
        "timestamp": "2025-08-01 00:00:00",
        "date": "2025-08-01",
        "int": "1042",
        "decimal": "10.50",
        "bytes": "00ff, in lower-case hexadecimal",
    }
    example = examples.get(kind, "as the database shows it")
    return ConfigError(
        f"{source_table.table}: {part.name} is a {kind}, and {str(given)!r} is not one",
        hint=f"write it as: {example}",
    )


def _no_position_error(source_table: SourceTable, text: str) -> ConfigError:
    return ConfigError(
        f"{source_table.table}: {text} is not a position",
        hint="""give one value, or {"cursor": "…", "key": ["…"]} as `watermark get --json` shows it""",
    )
