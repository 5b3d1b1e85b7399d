"""Which columns of a row-wise transform are columns of its moving input, just as they are. No Spark."""

from __future__ import annotations

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import Missing, Unclear
from tidegauge.transform.parse import RECURSIVE, parse, written_out
from tidegauge.transform.scope import Columns, Scope


def passed(text: str, name: str, *, moving: str, columns: Columns) -> str | None:
    """The input's column that comes out under this name; None where it is no such column, or may not be."""
    try:
        query = written_out(parse(text))
        return None if query.meta.get(RECURSIVE) else _source(query, name, moving, columns)
    except (Unclear, Missing, TransformFailed):
        return None


def _source(query: exp.Expr, name: str, moving: str, columns: Columns) -> str | None:
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    scope = Scope(query, columns)
    found = scope.wanted(name).unnest()
    if not isinstance(found, exp.Column) or len(found.parts) != 2 or scope.doubtful(found):
        return None
    part = scope.part(found.parts[0].name.lower())
    if isinstance(part.node, exp.Subquery):
        return _source(part.node, found.name, moving, columns)
    return found.name if part.node.name.lower() == moving.lower() else None
