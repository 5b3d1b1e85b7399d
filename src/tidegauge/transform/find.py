"""Rewrites a query so that it gives every key that a change of one input can touch, and perhaps more keys.

A SELECT joins its parts one after another. Let S be the parts that the key is made of, together with the
parts that their join conditions read; no outer join may leave out a part of S. Take a row of S whose results
before and after the change differ. Either a row of S itself has changed, or there is a first join where the
results differ, although everything up to there was the same before and after: then a changed row of that
join's part matches. So for each part that changes, the query reads S, the part's changed rows joined INNER,
and between them only the parts that its condition reads, each with its rows from before and after. A part
without a match before and after has no match in both together either, so outer joins on the way stay.

Conditions over S alone may stay; others are dropped, which finds more keys. A FULL or RIGHT join is
understood where all its parts are joined on the key: then only changed rows with a key touch that key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegauge.transform.clause import NotIncremental, OutputColumnMissing, quoted, refuse_other_clauses
from tidegauge.transform.compose import Want, label
from tidegauge.transform.joined import SelectDecomposition
from tidegauge.transform.parse import RECURSIVE
from tidegauge.transform.row_wise import incremental_tables
from tidegauge.transform.scope import Columns, output_names


@dataclass(frozen=True)
class TouchedKeysFinder:
    incremental: Collection[str]
    columns: Columns

    def find(
        self, query: exp.Expr, want: Sequence[Want], changed: str | None, *, top: bool = True
    ) -> list[exp.Select]:
        """SELECTs whose union has the wanted columns of every result row that a change of the input `changed`
        touches; for None, of every row before and after. Raises NotIncremental or OutputColumnMissing."""
        if query.meta.get(RECURSIVE):
            raise NotIncremental("a CTE that is recursive, or names its columns")
        if isinstance(query, exp.Subquery):
            refuse_other_clauses(query, "this", "alias", "order")
            return self.find(query.this, want, changed, top=top)
        if isinstance(query, exp.Union):
            return self._find_in_union(query, want, changed, top)
        if not isinstance(query, exp.Select):
            raise NotIncremental(query.key.upper())
        if changed is not None and not incremental_tables(query, [changed]):
            return []
        joined = SelectDecomposition(self, query, want)
        if top and query.args.get("distinct"):
            _refuse_uncovered("DISTINCT", output_names(query, self.columns), want)
        return joined.find(changed)

    def _find_in_union(
        self, query: exp.Union, want: Sequence[Want], changed: str | None, top: bool
    ) -> list[exp.Select]:
        refuse_other_clauses(query, "this", "expression", "order", "distinct", "by_name")
        names = output_names(query, self.columns)
        if query.args.get("distinct") and top:
            _refuse_uncovered("UNION", names, want)
        asked = list(want) if query.args.get("by_name") else [_find_index(each, names) for each in want]
        sides = (query.this, query.expression)
        found = [each for side in sides for each in self.find(side, asked, changed, top=False)]
        for each in found:
            for name, item in zip(want, each.expressions, strict=True):
                item.set("alias", quoted(label(name)))
        return found


def _find_index(want: Want, names: Sequence[str | None] | None) -> Want:
    if isinstance(want, int):
        return want
    if names is None:
        raise NotIncremental("a UNION of SELECT *, whose columns are not known")
    if want.lower() not in names:
        raise OutputColumnMissing(want, names)
    return list(names).index(want.lower())


def _refuse_uncovered(word: str, names: Sequence[str | None] | None, want: Sequence[Want]) -> None:
    asked = {each.lower() for each in want if isinstance(each, str)}
    if names is None or not set(names) <= asked:
        raise NotIncremental(f"{word} over more columns than the key")
