"""Turns a pandera schema into entries of `expect:`, without importing pandera.

The schema's types, `coerce`, `strict` and column order are ignored: the flow decides on its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidegauge.config.problems import InvalidValue
from tidegauge.model.types import quote

_Stats = Mapping[str, Any]
_ANY = r"[\s\S]*"


def is_pandera(value: Any) -> bool:
    return hasattr(value, "to_schema") or (hasattr(value, "columns") and hasattr(value, "checks"))


def read_pandera(value: Any) -> dict[str, Any]:
    """The schema as entries of `expect:`. Raises InvalidValue for a check that cannot be taken over."""
    schema = value.to_schema() if isinstance(value, type) and hasattr(value, "to_schema") else value
    if schema.checks or schema.unique:
        raise InvalidValue(
            "the pandera schema has checks on several columns, which cannot be taken over",
            hint="write them as predicates under `expect:`",
        )
    found: dict[str, Any] = {}
    for name, column in schema.columns.items():
        found |= _read_column(name, column)
    return found


def _read_column(name: str, column: Any) -> dict[str, Any]:
    """Entries of `expect:` for one column: its rules under its name, each predicate under its own name."""
    if column.regex or not column.required:
        what = "stands for many by a pattern" if column.regex else "may be missing"
        raise InvalidValue(
            f"the column {name} of the pandera schema {what}, which cannot be taken over",
            hint="name each column that is there",
        )
    found: dict[str, Any] = {}
    rules: list[Any] = [] if column.nullable else ["not_null"]
    rules += ["unique"] if column.unique else []
    for check in column.checks:
        how = {"action": "warn"} if check.raise_warning else {}
        stats: _Stats = check.statistics or {}
        if (rule := _RULES.get(check.name)) is not None:
            rules.append({**rule(stats), **how})
        elif (predicate := _PREDICATES.get(check.name)) is not None:
            found[f"{name}: {check.name}"] = {"check": predicate(quote(name), stats), **how}
        else:
            raise InvalidValue(
                f"the check {check.name} of the column {name} is none that can be taken over from pandera",
                hint="write it as a predicate under `expect:`; known are"
                f" {', '.join((*_RULES, *_PREDICATES))}",
            )
    return {**found, **({name: rules} if rules else {})}


def _between(column: str, stats: _Stats) -> str:
    least = ">=" if stats["include_min"] else ">"
    greatest = "<=" if stats["include_max"] else "<"
    return (
        f"{column} {least} {_literal(stats['min_value'])}"
        f" AND {column} {greatest} {_literal(stats['max_value'])}"
    )


def _length(column: str, stats: _Stats) -> str:
    signs = {"min_value": ">=", "max_value": "<=", "exact_value": "="}
    given = ((sign, stats.get(key)) for key, sign in signs.items())
    return " AND ".join(f"length({column}) {sign} {int(end)}" for sign, end in given if end is not None)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float() | Decimal():
            return str(value)
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case _:
            text = str(value).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{text}'"


_RULES: dict[str, Callable[[_Stats], dict[str, Any]]] = {
    "isin": lambda stats: {"accepted": [str(one) for one in stats["allowed_values"]]},
    "equal_to": lambda stats: {"accepted": [str(stats["value"])]},
    "greater_than_or_equal_to": lambda stats: {"range": {"min": str(stats["min_value"])}},
    "less_than_or_equal_to": lambda stats: {"range": {"max": str(stats["max_value"])}},
    # pandera matches the pattern at the beginning of a value, and `matches` the whole value.
    "str_matches": lambda stats: {"matches": f"(?:{stats['pattern']}){_ANY}"},
    "str_contains": lambda stats: {"matches": f"{_ANY}(?:{stats['pattern']}){_ANY}"},
}
_PREDICATES: dict[str, Callable[[str, _Stats], str]] = {
    "in_range": _between,
    "greater_than": lambda column, stats: f"{column} > {_literal(stats['min_value'])}",
    "less_than": lambda column, stats: f"{column} < {_literal(stats['max_value'])}",
    "not_equal_to": lambda column, stats: f"{column} <> {_literal(stats['value'])}",
    "notin": lambda column, stats: f"{column} NOT IN ({', '.join(map(_literal, stats['forbidden_values']))})",
    "str_length": _length,
    "str_startswith": lambda column, stats: f"startswith({column}, {_literal(stats['string'])})",
    "str_endswith": lambda column, stats: f"endswith({column}, {_literal(stats['string'])})",
}
