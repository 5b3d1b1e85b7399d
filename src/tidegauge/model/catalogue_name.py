"""The name of a table, view or schema in Spark's catalogue: `schema.table`, each part in backticks or not."""

from __future__ import annotations

import re

from tidegauge.errors import ConfigError
from tidegauge.model.types import quote

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_PLAIN_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


def find_parts(name: str, *, plain: bool = False) -> tuple[str, ...] | None:
    """The parts of a name without backticks; None if it is no such name. `plain`: only letters, digits and
    `_` may stand outside of backticks."""
    parts, at = [], 0
    while match := (_PLAIN_PART if plain else _PART).match(name, at):
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        at = match.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            return None
        at += 1
    return None


def parse_name(name: str) -> tuple[str, ...]:
    """The parts of a name without backticks. Raises ConfigError."""
    parts = find_parts(name)
    if parts is None:
        raise ConfigError(f"{name!r} is not the name of a table", hint="write it as schema.table")
    return parts


def quote_name(name: str) -> str:
    """A name with each of its parts in backticks, as SQL takes it. Raises ConfigError."""
    return ".".join(map(quote, parse_name(name)))
