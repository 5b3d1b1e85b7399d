"""Writes SQL that finds the keys that a change of one input touches. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import NotIncremental, OutputColumnMissing, quoted
from tidegauge.transform.compose import attach, rename_inputs, select_keys, unite
from tidegauge.transform.find import TouchedKeysFinder
from tidegauge.transform.parse import DIALECT, parse_transform
from tidegauge.transform.row_wise import check_row_wise
from tidegauge.transform.scope import Columns, JoinKind
from tidegauge.transform.view_names import all_name, delta_name

__all__ = ["all_name", "delta_name", "find_touched"]


def find_touched(
    text: str,
    *,
    inputs: Sequence[str],
    incremental: Sequence[str],
    by: Sequence[str],
    changed: str,
    columns: Columns | None = None,
) -> str:
    """SQL for the distinct `by` columns of all result rows that rows of the input `changed` take part in.

    It reads the view `delta_name(changed)`, for other incremental inputs the view `all_name(input)`, and
    snapshot inputs by their own names. Cast its columns to the types of the transform's result before
    comparing. It may give keys that no result row has, but misses none. Raises TransformFailed for SQL that
    `read_sql` finds neither `rows` nor `keys`, given the same `columns`.
    """
    query = parse_transform(text, inputs=inputs)
    try:
        found = TouchedKeysFinder(incremental, columns or {}).find(query, list(by), changed)
    except (NotIncremental, OutputColumnMissing) as unclear:
        found = _query_changed_rows(query, incremental, by, changed, unclear)
    if not found:
        return str(select_keys([exp.null() for _ in by], by).where(exp.false()).sql(DIALECT))
    return unite(found).sql(DIALECT)


def _query_changed_rows(
    query: exp.Query, incremental: Sequence[str], by: Sequence[str], changed: str, unclear: Exception
) -> list[exp.Select]:
    """The transform itself over the changed rows, which gives their keys because it is row-wise. Raises
    TransformFailed where it is not."""
    try:
        check_row_wise(query, incremental)
    except NotIncremental:
        raise TransformFailed(
            f"the keys that a change of {changed} touches cannot be found: {unclear}",
            hint="use `evaluate: whole`, or `auto`",
        ) from unclear
    found = select_keys([exp.column(quoted(each), quoted("t")) for each in by], by)
    attach(found, JoinKind.FIRST, rename_inputs(exp.Subquery(this=query), incremental, changed, "t"), ())
    return [found]
