"""Single values of a flow: tables, columns, sizes and where the first run begins."""

from __future__ import annotations

import keyword
from datetime import UTC, datetime
from typing import Any

from tidegauge.config.problems import InvalidValue, quoted
from tidegauge.config.sizes import parse_size
from tidegauge.config.values import some_texts, text, whole
from tidegauge.errors import ConfigError
from tidegauge.model.catalogue_name import find_parts

VERSION, NONE = "version", "none"


def is_dotted(name: str) -> bool:
    """Whether this is a name with dots between Python identifiers, as of a module or a function."""
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def table_name(value: Any) -> str:
    name = text(value)
    parts = find_parts(name, plain=True)
    if "/" in name and (parts is None or parts[0].lower() == "delta"):
        raise InvalidValue(f"{quoted(name)} is a path, not a name of the catalogue", hint="use `path`")
    if parts is None:
        raise InvalidValue(
            f"{quoted(name)} is not a table's name as Spark takes it",
            hint="write `SCHEMA.TABLE`; a part with anything but letters, digits and `_` stands in backticks",
        )
    return name


def columns(value: Any) -> tuple[str, ...]:
    """Names of columns. Two that differ only in case are refused, as Spark takes them for one."""
    found = some_texts(value)
    folded = [name.casefold() for name in found]
    doubled = next((index for index, name in enumerate(folded) if name in folded[:index]), None)
    if doubled is not None:
        raise InvalidValue(f"{quoted(found[doubled])} stands in the list twice", trail=(doubled,))
    return found


def cursor(value: Any) -> str:
    """`version`, `none`, or a column."""
    return text(value).strip()


def initial(value: Any) -> str:
    """`snapshot`, `earliest`, a version in digits, or a moment in ISO format; UTC unless it has an offset."""
    word = text(value).strip()
    if word in {"snapshot", "earliest"}:
        return word
    if word.isascii() and word.isdigit():
        return str(whole(0)(word))
    try:
        moment = datetime.fromisoformat(word)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidValue(
            f"{quoted(word)} is not a place to begin at",
            hint="write `snapshot`, `earliest`, a version, or a moment such as `2025-01-01T00:00:00Z`",
        ) from None
    return moment.isoformat()


def size(value: Any) -> int:
    """A size in bytes, from `64MB`, `1GiB` or a plain number of bytes."""
    try:
        return parse_size(text(value).strip())
    except ConfigError as error:
        raise InvalidValue(error.message, hint=error.hint) from None
