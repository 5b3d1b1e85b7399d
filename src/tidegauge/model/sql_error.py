"""Says what is wrong with SQL that cannot be parsed, for the person who wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.errors import SqlglotError


def describe_sql_error(error: SqlglotError) -> str:
    """What the parser says and where, without the names of its own classes and tokens."""
    first: dict[str, Any] = next(iter(getattr(error, "errors", ())), {})
    said = first.get("description") or str(error).splitlines()[0]
    if said.startswith("Required keyword"):
        cause = "an expression is missing"
    else:
        cause = said.partition(" but got ")[0].rstrip(".")
    return f"{cause} near {first['highlight']}" if first.get("highlight") else cause
