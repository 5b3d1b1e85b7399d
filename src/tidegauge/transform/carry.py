"""Rewrites a row-wise transform so that it also returns given columns of its incremental input. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import NotIncremental, quoted
from tidegauge.transform.parse import DIALECT, RECURSIVE, count_reads, inline_ctes, parse
from tidegauge.transform.row_wise import check_row_wise
from tidegauge.transform.scope import output_name


def carry_columns(text: str, *, incremental: str, columns: Sequence[str]) -> str | None:
    """The query with `columns` of the incremental input added under their names; None if that cannot be done.
    A `SELECT *` returns them already."""
    try:
        query = inline_ctes(parse(text))
        check_row_wise(query, [incremental])
    except (NotIncremental, TransformFailed):
        return None
    if query.meta.get(RECURSIVE) or not _carry(query, incremental, columns):
        return None
    return query.sql(DIALECT)


def _carry(query: exp.Expr, incremental: str, columns: Sequence[str]) -> bool:
    while isinstance(query, exp.Subquery):
        query = query.this
    assert isinstance(query, exp.Select)
    alias = _find_alias(query, incremental, columns)
    if alias is None:
        return False
    asked = {column.lower() for column in columns}
    if asked & {output_name(each) for each in query.expressions if not each.is_star}:
        return False
    star = _find_star(query, alias)
    if star is not None:
        dropped = {column.name.lower() for column in star.args.get("except_") or ()}
        return not dropped & asked
    for column in columns:
        found = exp.column(quoted(column), quoted(alias))
        query.select(exp.alias_(found, column, quoted=True), copy=False)
    return True


def _find_alias(query: exp.Select, incremental: str, columns: Sequence[str]) -> str | None:
    """The name in FROM under which the incremental input can be read, with the columns; None: by no name."""
    relations = [query.args["from_"].this, *(join.this for join in query.args.get("joins") or ())]
    source = next((each for each in relations if count_reads(each, incremental)), None)
    if source is None or (isinstance(source, exp.Subquery) and not _carry(source, incremental, columns)):
        return None
    if (named := source.args.get("alias")) and named.args.get("columns"):
        return None
    alias = str(source.alias_or_name)
    if not alias:
        alias = "__tidegauge_source"
        source.set("alias", exp.TableAlias(this=quoted(alias)))
    return alias


def _find_star(query: exp.Select, alias: str) -> exp.Expr | None:
    """The first star of the SELECT that includes the columns of this part of FROM."""
    for each in query.expressions:
        if each.is_star and not (isinstance(each, exp.Column) and each.table.lower() != alias.lower()):
            found: exp.Expr = each.this if isinstance(each, exp.Column) else each
            return found
    return None
