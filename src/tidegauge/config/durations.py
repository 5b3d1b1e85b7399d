"""Lengths of time as people write them: `30s`, `1h30m`, `0`."""

from __future__ import annotations

import re
from datetime import timedelta

from tidegauge.errors import ConfigError

_FORM = re.compile(
    r"(?:(?P<days>\d{1,5})d)?(?:(?P<hours>\d{1,7})h)?(?:(?P<minutes>\d{1,8})m)?"
    r"(?:(?P<seconds>\d{1,9})s)?(?:(?P<milliseconds>\d{1,12})ms)?",
    re.ASCII,
)
_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `1h30m`: whole numbers with units, the largest first. Raises ConfigError."""
    if text == "0":
        return timedelta(0)
    match = _FORM.fullmatch(text)
    if not match or not text:
        raise ConfigError(
            f"`{text[:60]}` is not a duration",
            hint="write it as `30s`, `5m`, `1h`, `7d`, `500ms`, `1h30m` or `0`",
        )
    return timedelta(**{unit: int(number) for unit, number in match.groupdict(default="0").items()})


def show_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as the same value, to the millisecond."""
    parts = []
    for unit, length in _UNITS:
        count, value = divmod(value, length)
        if count:
            parts.append(f"{count}{unit}")
    seconds, rest = divmod(value, timedelta(seconds=1))
    if seconds:
        parts.append(f"{seconds}s")
    if rest:
        parts.append(f"{rest // timedelta(milliseconds=1)}ms")
    return "".join(parts) or "0s"
