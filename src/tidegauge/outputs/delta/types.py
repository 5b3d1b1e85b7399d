"""Spark's types as a Delta log writes them: how they compare, their SQL, and which can widen to which."""

from __future__ import annotations

import re
from typing import Any

from tidegauge.delta_log import widening
from tidegauge.model.types import holds, parse_decimal, quote

_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_TEXT = re.compile(r"(?:char|varchar)\(\d+\)|string.*")


def bare(part: Any) -> Any:
    """A type of the log's JSON without nullability and metadata; all kinds of text become string."""
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
    """The SQL of a bare type."""
    match part:
        case {"struct": fields}:
            return f"struct<{','.join(f'{quote(name)}:{as_sql(type_)}' for name, type_ in fields)}>"
        case {"array": element}:
            return f"array<{as_sql(element)}>"
        case {"map": [key, value]}:
            return f"map<{as_sql(key)},{as_sql(value)}>"
        case _:
            return _SQL.get(str(part), str(part))


def fits(held: Any, brought: Any) -> bool:
    """Whether a column of one bare type takes every value of another as it is."""
    both_plain = isinstance(held, str) and isinstance(brought, str)
    return can_widen(held, brought) or (both_plain and holds(as_sql(held), as_sql(brought)))


def can_widen(wide: Any, narrow: Any) -> bool:
    """Whether Delta can change a column of the narrow bare type to the wide one, or they are equal."""
    if wide == narrow:
        return True
    both_plain = isinstance(wide, str) and isinstance(narrow, str)
    return both_plain and widening.can_widen(as_sql(wide), as_sql(narrow))


def find_new_fields(held: Any, brought: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The fields, by path and type, that the brought struct, or a struct inside it, has at its end and the
    held one lacks. Empty where anything else differs."""
    match held, brought:
        case {"struct": old}, {"struct": new} if len(new) >= len(old):
            found: list[tuple[tuple[str, ...], Any]] = []
            for (name, type_), (other, other_type) in zip(old, new, strict=False):
                inside = find_new_fields(type_, other_type)
                if name != other or (type_ != other_type and not inside):
                    return []
                found += [((name, *path), new_type) for path, new_type in inside]
            return found + [((name,), type_) for name, type_ in new[len(old) :]]
    return []


def has_map(part: Any) -> bool:
    """Whether a bare type has a map or a variant in it, which Spark cannot compare."""
    match part:
        case {"struct": fields}:
            return any(has_map(type_) for _, type_ in fields)
        case {"array": element}:
            return has_map(element)
        case {"map": _}:
            return True
        case _:
            return bool(part == "variant")


def has_float(part: Any) -> bool:
    """Whether a bare type has a float in it. Spark's `<=>` takes 0.0 and -0.0 for equal, but a row that
    changes from one to the other has to be written."""
    match part:
        case {"struct": fields}:
            return any(has_float(type_) for _, type_ in fields)
        case {"array": element}:
            return has_float(element)
        case _:
            return part in ("float", "double")


def names_in(part: Any) -> list[str]:
    """The names of all fields inside a bare type."""
    match part:
        case {"struct": fields}:
            return [found for name, type_ in fields for found in (name, *names_in(type_))]
        case {"array": element}:
            return names_in(element)
        case {"map": [key, value]}:
            return names_in(key) + names_in(value)
        case _:
            return []


def literal(value: str | None, type_: str) -> str:
    """A SQL expression of exactly this type for a value, given as the text that Spark casts it to in UTC.

    `type_` is a bare type that a partition column can have. Raises ValueError for any other type.
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
        case _ if parse_decimal(type_):
            return f"CAST({text} AS {type_})"
        case _:
            raise ValueError(type_)
