"""The key `schedule` of the whole file, a sync or a flow: when flows are due."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegauge.config import values
from tidegauge.config.durations import parse_duration
from tidegauge.config.forms import DocumentedDefault, ValueParser
from tidegauge.config.problems import InvalidValue, below, quoted, suggest
from tidegauge.errors import ConfigError
from tidegauge.model.cron import Cron, parse_cron
from tidegauge.model.schedule import CatchUp, Every, FlowSchedule

_T = TypeVar("_T")

NONE = "none"
_FORM = 'write `every 5 minutes`, or `{cron: "30 5 * * *", timezone: Europe/Berlin}`'
_EVERY = re.compile(r"every\s+(.+)", re.IGNORECASE | re.ASCII)
_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d"}
_COUNTED = re.compile(rf"(?:(\d{{1,9}})\s*)?({'|'.join(_UNITS)})s?", re.IGNORECASE | re.ASCII)
_LEAST, _MOST = timedelta(seconds=1), timedelta(days=366)


def cron(value: Any) -> Cron:
    try:
        return parse_cron(values.text(value))
    except ConfigError as error:
        raise InvalidValue(error.message, hint=error.hint) from None


def timezone(value: Any) -> str:
    name = values.text(value)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidValue(
            f"{quoted(name)} is not a time zone", hint="write it as `UTC` or `Europe/Berlin`"
        ) from None
    return name


def schedule(value: Any) -> FlowSchedule | None:
    """The schedule; None for the word `none`, which means that flows are started only by hand."""
    if not isinstance(value, dict):
        text = values.text(value)
        return None if text == NONE else _parse_every(text, CatchUp.ONE)
    parse: dict[str, Callable[[Any], Any]] = {
        "every": values.text,
        "cron": cron,
        "timezone": timezone,
        "catch_up": values.choice(CatchUp),
    }
    found: dict[str, Any] = {}
    for key, part in value.items():
        if key not in parse:
            raise InvalidValue(
                f"unknown key {quoted(key)}", hint=suggest(key, list(parse)), trail=(key,), at_key=True
            )
        if part is not None:
            found[key] = _read_part(parse[key], part, key)
    if ("every" in found) == ("cron" in found):
        raise InvalidValue("a schedule has either `cron` or `every`", hint=_FORM)
    catch_up = CatchUp(found.get("catch_up", CatchUp.ONE))
    if "cron" in found:
        return FlowSchedule(found["cron"], found["cron"].text, found.get("timezone", "UTC"), catch_up)
    if "timezone" in found:
        raise InvalidValue(
            "`timezone` belongs to `cron`: a length of time is the same everywhere",
            hint="leave it out",
            trail=("timezone",),
            at_key=True,
        )
    return _read_part(lambda text: _parse_every(f"every {text}", catch_up), found["every"], "every")


def _read_part(parse: Callable[[Any], _T], value: Any, key: str) -> _T:
    with below(key):
        return parse(value)


def _parse_every(text: str, catch_up: CatchUp) -> FlowSchedule:
    match = _EVERY.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"{quoted(text)} is not a schedule", hint=_FORM)
    length = _length(match[1].strip(), text)
    if not _LEAST <= length <= _MOST:
        raise InvalidValue(f"{quoted(text)} is not between a second and a year", hint=_FORM)
    return FlowSchedule(Every(length), _shown(length), catch_up=catch_up)


def _length(words: str, text: str) -> timedelta:
    counted = _COUNTED.fullmatch(words)
    if counted is not None:
        words = f"{counted[1] or 1}{_UNITS[counted[2].lower()]}"
    try:
        return parse_duration(words)
    except (ConfigError, OverflowError):
        raise InvalidValue(f"{quoted(text)} is not a schedule", hint=_FORM) from None


def _shown(length: timedelta) -> str:
    """One text for each length, however the user wrote it: the ledger finds a schedule by this text."""
    for unit, size in reversed([(unit, parse_duration(f"1{short}")) for unit, short in _UNITS.items()]):
        count, rest = divmod(length, size)
        if count and not rest:
            return f"every {count} {unit}{'' if count == 1 else 's'}"
    return f"every {length / timedelta(seconds=1):g} seconds"


Scheduled = Annotated[
    FlowSchedule | None,
    ValueParser(schedule, "`every 5 minutes`, `{cron: …, timezone: …, catch_up: one | all | none}`, `none`"),
    DocumentedDefault("by hand"),
]
"""The key at the top of the file."""
ScheduledHere = Annotated[
    FlowSchedule | None,
    ValueParser(schedule, "as at the top"),
    DocumentedDefault("the file's"),
]
"""The key of a sync or a flow."""
