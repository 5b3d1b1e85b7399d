"""Finds how a transform's SQL can be evaluated, from its text alone. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp

from tidegauge.errors import Place, TransformFailed
from tidegauge.model.delta_flow import Evaluate
from tidegauge.transform.clause import NotIncremental, OutputColumnMissing
from tidegauge.transform.find import TouchedKeysFinder
from tidegauge.transform.parse import parse_transform
from tidegauge.transform.row_wise import check_row_wise, incremental_tables
from tidegauge.transform.scope import Columns, Scope, output_name, output_names

__all__ = ["Columns", "Evaluation", "read_sql"]


@dataclass(frozen=True)
class Evaluation:
    evaluate: Evaluate
    """`rows`, `keys` or `whole`, and never `auto`."""
    why: str
    """The reason as one clause, such as `window function ROW_NUMBER` or `self-join of orders`."""


def read_sql(
    text: str,
    *,
    inputs: Sequence[str],
    incremental: Sequence[str],
    by: Sequence[str],
    place: Path | None = None,
    columns: Columns | None = None,
    kind: str = "key",
) -> Evaluation:
    """Find how the SQL can be evaluated. `by` are the output's key or partition columns, which the SQL has to
    return; `kind` names them in messages: `key` or `partition`.

    Raises TransformFailed, with the place in the text, for SQL that does not parse, is no query or several
    statements, reads no input or a table that is no input, or drops a column of `by`.
    """
    query = parse_transform(text, inputs=inputs, place=place)
    _refuse_dropped(query, by, columns or {}, place, kind)
    return _find_best(query, incremental, by, columns or {})


def _find_best(
    query: exp.Query, incremental: Sequence[str], by: Sequence[str], columns: Columns
) -> Evaluation:
    names = list(dict.fromkeys(incremental_tables(query, incremental)))
    if not names:
        return Evaluation(Evaluate.ROWS, "reads no incremental input")
    try:
        check_row_wise(query, incremental)
        return Evaluation(Evaluate.ROWS, f"row by row over {names[0]}")
    except NotIncremental as unclear:
        first = str(unclear)
    if not by:
        return Evaluation(Evaluate.WHOLE, first)
    try:
        for name in names:
            TouchedKeysFinder(incremental, columns).find(query, list(by), name)
    except (NotIncremental, OutputColumnMissing) as unclear:
        return Evaluation(Evaluate.WHOLE, str(unclear))
    grouped = any(each.args.get("group") for each in query.find_all(exp.Select))
    covers = "the key covers the grouping" if grouped else "the key tells what a change touches"
    if isinstance(query, exp.Union):
        first = "UNION" if query.args.get("distinct") else "UNION ALL"
    elif len(names) > 1:
        first = f"joins {len(names)} inputs"
    return Evaluation(Evaluate.KEYS, f"{first}; {covers}")


def _refuse_dropped(
    query: exp.Query, by: Sequence[str], columns: Columns, place: Path | None, kind: str
) -> None:
    first: exp.Expr = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if not isinstance(first, exp.Select):
        return
    scope = None
    with suppress(NotIncremental):  # without a scope the SELECT alone shows its columns, unless it has a star
        scope = Scope(first, columns)
    for column in by:
        try:
            if scope is not None:
                scope.find_output(column)
            elif not any(each.is_star or output_name(each) == column.lower() for each in first.expressions):
                raise OutputColumnMissing(column, output_names(first, columns))
        except OutputColumnMissing as missing:
            there = ", ".join(missing.there) or "not named"
            raise TransformFailed(
                f"the SQL drops the {kind} column {column}",
                hint=f"what comes out is {there}: add {column} to the SELECT, or name other columns under "
                "`key` or `partition_by`",
                place=Place(str(place), 1, 1) if place else None,
            ) from None
        except NotIncremental:
            continue
