"""The SQL that finds the keys which a change of one input touches. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegauge.errors import TransformFailed
from tidegauge.transform.clause import Missing, Unclear, quoted
from tidegauge.transform.compose import attach, rename_inputs, select_keys, unite
from tidegauge.transform.find import Finder
from tidegauge.transform.parse import DIALECT, parse_transform
from tidegauge.transform.row_wise import check_row_wise
from tidegauge.transform.scope import Columns, JoinKind
from tidegauge.transform.view_names import all_name, delta_name

__all__ = ["all_name", "delta_name", "find_touched"]


def find_touched(
    text: str,
    *,
    inputs: Sequence[str],
    moving: Sequence[str],
    by: Sequence[str],
    changed: str,
    columns: Columns | None = None,
) -> str:
    """SQL giving the distinct `by` columns, under these names, of all that rows of `changed` take part in.

    It reads the view `delta_name(changed)`, of other moving inputs `all_name(input)`, and snapshot inputs
    under their own names. Its types are those of the expressions there: cast them to the transform's own
    before comparing. May give keys that nothing came of, and never too few. Raises TransformFailed for a text
    that `read_sql` finds neither `rows` nor `keys`, given the same `columns`.
    """
    query = parse_transform(text, inputs=inputs)
    try:
        found = Finder(moving, columns or {}).find(query, list(by), changed)
    except (Unclear, Missing) as unclear:
        found = _query_itself(query, moving, by, changed, unclear)
    if not found:
        return str(select_keys([exp.null() for _ in by], by).where(exp.false()).sql(DIALECT))
    return unite(found).sql(DIALECT)


def _query_itself(
    query: exp.Query, moving: Sequence[str], by: Sequence[str], changed: str, unclear: Exception
) -> list[exp.Select]:
    """A row-wise query gives the keys of changed rows itself."""
    try:
        check_row_wise(query, moving)
    except Unclear:
        raise TransformFailed(
            f"the keys that a change of {changed} touches cannot be found: {unclear}",
            hint="use `evaluate: whole`, or `auto`",
        ) from unclear
    found = select_keys([exp.column(quoted(each), quoted("t")) for each in by], by)
    attach(found, JoinKind.FIRST, rename_inputs(exp.Subquery(this=query), moving, changed, "t"), ())
    return [found]
