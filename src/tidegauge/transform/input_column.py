"""Finds which result columns of a transform are unchanged columns of its incremental input. No Spark."""

from __future__ import annotations

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import NotIncremental, OutputColumnMissing
from tidegauge.transform.parse import RECURSIVE, inline_ctes, parse
from tidegauge.transform.scope import Columns, Scope


def find_input_column(text: str, name: str, *, incremental: str, columns: Columns) -> str | None:
    """The input column that the SQL returns unchanged as `name`; None where that is not certain."""
    try:
        query = inline_ctes(parse(text))
        return None if query.meta.get(RECURSIVE) else _find_in(query, name, incremental, columns)
    except (NotIncremental, OutputColumnMissing, TransformFailed):
        return None


def _find_in(query: exp.Expr, name: str, incremental: str, columns: Columns) -> str | None:
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    scope = Scope(query, columns)
    found = scope.find_output(name).unnest()
    if not isinstance(found, exp.Column) or len(found.parts) != 2 or scope.is_ambiguous(found):
        return None
    part = scope.part(found.parts[0].name.lower())
    if isinstance(part.node, exp.Subquery):
        return _find_in(part.node, found.name, incremental, columns)
    return found.name if part.node.name.lower() == incremental.lower() else None
