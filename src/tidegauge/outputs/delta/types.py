"""Spark's types as a Delta log writes them: compared, shown as SQL, and which holds all that another does."""

from __future__ import annotations

import re
from typing import Any

_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_WHOLE = ["byte", "short", "integer", "long"]
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Before the point, that Delta asks of a decimal which a whole number is widened to."""
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(?:char|varchar)\(\d+\)|string.*")


def bare(part: Any) -> Any:
    """Without nullability and metadata."""
    match part:
        case {"type": "struct", "fields": fields}:
            return {"struct": [[one["name"], bare(one["type"])] for one in fields]}
        case {"type": "array", "elementType": element}:
            return {"array": bare(element)}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {"map": [bare(key), bare(value)]}
        case str() if _TEXT.fullmatch(part):
            return "string"
        case _:
            return part


def as_sql(part: Any) -> str:
    """Of a bare type."""
    match part:
        case {"struct": fields}:
            return f"struct<{','.join(f'{quoted(name)}:{as_sql(type_)}' for name, type_ in fields)}>"
        case {"array": element}:
            return f"array<{as_sql(element)}>"
        case {"map": [key, value]}:
            return f"map<{as_sql(key)},{as_sql(value)}>"
        case _:
            return _SQL.get(str(part), str(part))


def holds(wide: Any, narrow: Any) -> bool:
    """Whether every value of one type is a value of the other, and Delta can widen the one to the other."""
    if wide == narrow:
        return True
    if not isinstance(wide, str) or not isinstance(narrow, str):
        return False
    decimal = _DECIMAL.fullmatch(wide)
    if narrow in _WHOLE:
        if wide in _WHOLE:
            return _WHOLE.index(wide) > _WHOLE.index(narrow)
        if wide == "double":
            return narrow != "long"
        return decimal is not None and int(decimal[1]) - int(decimal[2]) >= _DIGITS[narrow]
    if (less := _DECIMAL.fullmatch(narrow)) and decimal:
        grown, finer = int(decimal[1]) - int(less[1]), int(decimal[2]) - int(less[2])
        return 0 <= finer <= grown
    return (wide, narrow) in {("double", "float"), ("timestamp_ntz", "date")}


def has_map(part: Any) -> bool:
    """Spark compares everything but maps, and variants."""
    match part:
        case {"struct": fields}:
            return any(has_map(type_) for _, type_ in fields)
        case {"array": element}:
            return has_map(element)
        case {"map": _}:
            return True
        case _:
            return bool(part == "variant")


def names_in(part: Any) -> list[str]:
    """Of all fields inside a bare type."""
    match part:
        case {"struct": fields}:
            return [found for name, type_ in fields for found in (name, *names_in(type_))]
        case {"array": element}:
            return names_in(element)
        case {"map": [key, value]}:
            return names_in(key) + names_in(value)
        case _:
            return []


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def table_name(name: str) -> str:
    """A name of the catalogue with every part of it quoted; what is quoted already is taken apart first."""
    parts = re.findall(r"`(?:[^`]|``)*`|[^.`]+", name)
    return ".".join(
        part if part.startswith("`") and part.endswith("`") and len(part) > 1 else quoted(part)
        for part in parts
    )


def literal(value: str | None, type_: str) -> str:
    """A value, given as Spark casts it to text in UTC, as an expression of exactly this type.

    `type_` is a bare type that can be a partition column's. Raises ValueError for another.
    """
    if value is None:
        return f"CAST(NULL AS {as_sql(type_)})"
    text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    match type_:
        case "string":
            return text
        case "boolean":
            return value
        case "byte" | "short" | "integer" | "long":
            return f"{value}{ {'byte': 'Y', 'short': 'S', 'integer': '', 'long': 'L'}[type_] }"
        case "date":
            return f"DATE{text}"
        case "timestamp":
            return f"TIMESTAMP{text[:-1]} UTC'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ{text}"
        case "float" | "double" | "binary":
            return f"CAST({text} AS {as_sql(type_)})"
        case _ if _DECIMAL.fullmatch(type_):
            return f"CAST({text} AS {type_})"
    raise ValueError(type_)
