"""Rewrites a row-wise transform so that columns of its moving input come out with its own. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import Unclear, quoted
from tidegauge.transform.linear import row_wise
from tidegauge.transform.parse import DIALECT, RECURSIVE, parse, reads, written_out
from tidegauge.transform.scope import output_name


def carry_columns(text: str, *, moving: str, columns: Sequence[str]) -> str | None:
    """The same query with `columns` of the moving input passed through under their names; None if that cannot
    be done. `SELECT *` carries them already."""
    try:
        query = written_out(parse(text))
        row_wise(query, [moving])
    except (Unclear, TransformFailed):
        return None
    if query.meta.get(RECURSIVE) or not _carry(query, moving, columns):
        return None
    return query.sql(DIALECT)


def _carry(query: exp.Expr, moving: str, columns: Sequence[str]) -> bool:
    while isinstance(query, exp.Subquery):
        query = query.this
    assert isinstance(query, exp.Select)
    relations = [query.args["from_"].this, *(join.this for join in query.args.get("joins") or ())]
    source = next((each for each in relations if reads(each, moving)), None)
    if source is None or (isinstance(source, exp.Subquery) and not _carry(source, moving, columns)):
        return False
    if (named := source.args.get("alias")) and named.args.get("columns"):
        return False
    alias = source.alias_or_name
    if not alias:
        alias = "__tidegauge_source"
        source.set("alias", exp.TableAlias(this=quoted(alias)))
    asked = {column.lower() for column in columns}
    if asked & {output_name(each) for each in query.expressions if not each.is_star}:
        return False
    for each in query.expressions:
        if not each.is_star or (isinstance(each, exp.Column) and each.table.lower() != alias.lower()):
            continue
        star = each.this if isinstance(each, exp.Column) else each
        dropped = {column.name.lower() for column in star.args.get("except_") or ()}
        return not dropped & asked
    for column in columns:
        found = exp.column(quoted(column), quoted(alias))
        query.select(exp.alias_(found, column, quoted=True), copy=False)
    return True
