"""Takes one SELECT apart, and puts it together again around the changed rows of one of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegauge.transform.clause import (
    NotIncremental,
    conjuncts,
    quoted,
    refuse_other_clauses,
    walk_own_nodes,
)
from tidegauge.transform.compose import Want, attach, label, rename_inputs, select_keys, unite
from tidegauge.transform.core import JoinCore
from tidegauge.transform.row_wise import (
    check_row_wise,
    incremental_tables,
    refuse_beyond_rows,
    refuse_hidden_total,
)
from tidegauge.transform.scope import JoinKind, Part, Scope
from tidegauge.transform.spark_functions import find_aggregate, find_unknown_function

if TYPE_CHECKING:
    from tidegauge.transform.find import TouchedKeysFinder

_SELECT = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "hint", "sort")


class SelectDecomposition:
    """One SELECT, ready to find the wanted columns that a change touches; the module `find` has the proof.

    Raises NotIncremental if changes cannot be followed to these columns.
    """

    def __init__(self, finder: TouchedKeysFinder, select: exp.Select, want: Sequence[Want]) -> None:
        self.finder = finder
        refuse_beyond_rows(select, finder.incremental)
        refuse_other_clauses(select, *_SELECT, "cluster", "distribute")
        if distinct := select.args.get("distinct"):
            refuse_other_clauses(distinct)
        self.scope = Scope(select, finder.columns)
        self.want = list(want)
        self.keys = [self.scope.find_output(each) for each in want]
        self._refuse_grouping(select)
        self._refuse_self_join()
        self._refuse_ambiguous()
        self.core, self.later = self._split_core()
        self.filters = self._spread_where(select)
        self.start = self._find_parts(self.keys)
        self.spine = self._follow_conditions(self.start)
        if not self.core.alone and self.spine != {self.core.name}:
            raise NotIncremental("the key reaches beyond a FULL or RIGHT join")
        self.optional = self._find_optional()

    def _refuse_grouping(self, select: exp.Select) -> None:
        group = select.args.get("group")
        if group is None:
            if select.args.get("having"):
                raise NotIncremental("HAVING without GROUP BY")
            return refuse_hidden_total(select)
        if group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
            raise NotIncremental("GROUPING SETS, CUBE or ROLLUP")
        refuse_other_clauses(group, "expressions", "all")
        grouped = {self.scope.qualify(each).sql("spark").lower() for each in group.expressions}
        for asked, key in zip(self.want, self.keys, strict=True):
            # Beside aggregates Spark only accepts expressions that the grouping determines.
            if name := find_aggregate(key):
                raise NotIncremental(
                    f"{label(asked)} is computed by {name}, so the key does not cover the grouping"
                )
            if (name := find_unknown_function(key)) and key.sql("spark").lower() not in grouped:
                raise NotIncremental(f"{label(asked)} is computed by {name}, which may be an aggregate")
        return None

    def _refuse_self_join(self) -> None:
        seen: set[str] = set()
        for part in self.scope.parts:
            names = set(incremental_tables(part.node, self.finder.incremental))
            if again := sorted(seen & names):
                raise NotIncremental(f"self-join of {again[0]}")
            seen |= names

    def _refuse_ambiguous(self) -> None:
        outer = not all(
            part.kind in (JoinKind.FIRST, JoinKind.INNER, JoinKind.EXISTS) for part in self.scope.parts
        )
        rest = [each for part in self.scope.parts for each in part.on]
        for each, is_key in [*((key, True) for key in self.keys), *((on, False) for on in rest)]:
            if self.scope.is_ambiguous(each) and (
                (is_key and outer) or not all(self._is_exact(part) for part in self.scope.parts)
            ):
                raise NotIncremental(f"{each.sql('spark')} does not say whose column it reads")

    def _split_core(self) -> tuple[JoinCore, list[Part]]:
        """The core and the parts after it, in order. `a RIGHT JOIN b` becomes `b LEFT JOIN a`; other RIGHT
        and FULL joins make a core of several parts."""
        parts = list(self.scope.parts)
        outer = [place for place, part in enumerate(parts) if part.kind in (JoinKind.RIGHT, JoinKind.FULL)]
        if outer and self.scope.crossed:  # a comma binds looser than JOIN, and looks like CROSS JOIN here
            raise NotIncremental("a RIGHT or FULL join beside a comma or CROSS JOIN")
        if outer == [1] and parts[1].kind is JoinKind.RIGHT:
            left, right = parts[:2]
            parts[:2] = [
                Part(right.alias, right.node, JoinKind.FIRST, right.seen, names=right.names),
                Part(left.alias, left.node, JoinKind.LEFT, right.seen, right.on, left.names),
            ]
            outer = []
        width = outer[-1] + 1 if outer else 1
        return JoinCore(self.scope, parts[:width], self.keys), parts[width:]

    def _spread_where(self, select: exp.Select) -> list[exp.Expr]:
        """The WHERE conditions over the core. Others move to the first join that has all their parts, or are
        dropped where an outer join is in their way."""
        found = []
        where = select.args.get("where")
        for condition in [self.scope.qualify(each) for each in conjuncts(where.this)] if where else ():
            tables = self._find_parts([condition])
            if self.scope.is_ambiguous(condition):
                continue
            if tables <= {self.core.name}:
                found.append(condition)
            elif self._always_there(tables) and (self.core.alone or self.core.name not in tables):
                [part for part in self.later if part.alias in tables][-1].on.append(condition)
        return found

    def _find_optional(self) -> Part | None:
        """The only part of the key that an outer join can leave out, if any: every change of that part also
        touches the key with NULL for its columns. Raises NotIncremental for two such parts, because not
        all of their combinations would be found, and for one that a LEFT join does not join exactly."""
        found = [part for part in self.later if part.alias in self.spine and part.kind is not JoinKind.INNER]
        for part in found:
            if len(found) > 1 or part.kind is not JoinKind.LEFT or not self._is_exact(part):
                raise NotIncremental(
                    f"the key takes a column of {part.alias}, which an outer join can leave out"
                )
        return found[0] if found else None

    def part(self, alias: str) -> Part:
        return next(part for part in [*self.core.parts, *self.later] if part.alias == alias)

    def _find_parts(self, nodes: Sequence[exp.Expr], part: Part | None = None) -> set[str]:
        """Aliases of the parts that expressions read, of those that the condition of `part` can read. The
        core counts as one part."""
        found = {alias for node in nodes for alias in self.scope.parts_read(node)}
        if part is not None:
            found &= part.seen
        return {self.core.name if alias in self.core.aliases else alias for alias in found}

    def _always_there(self, tables: set[str]) -> bool:
        return all(alias == self.core.name or self.part(alias).kind is JoinKind.INNER for alias in tables)

    def _is_pinned(self, alias: str) -> bool:
        parts = self.core.parts if alias == self.core.name else [self.part(alias)]
        return not any(incremental_tables(part.node, self.finder.incremental) for part in parts)

    def _find_usable(self, part: Part) -> list[exp.Expr]:
        """The join conditions of a key part that may stay. They read no part that an outer join can leave
        out; and no pinned one if the key comes from this part alone, because another version may have been
        pinned before."""
        if part.kind is not JoinKind.INNER:
            return part.on
        found = []
        for condition in part.on:
            others = self._find_parts([condition], part) - {part.alias}
            pinned = self.start == {part.alias} and any(self._is_pinned(other) for other in others)
            if self._always_there(others) and not pinned and not self._is_hidden(condition):
                found.append(condition)
        return found

    def _follow_conditions(self, start: set[str], *, spine: bool = True) -> set[str]:
        """These parts with all parts that their join conditions read in turn; with `spine`, only conditions
        that may stay count."""
        found, left = set(start), list(start)
        while left:
            alias = left.pop()
            if alias == self.core.name:
                continue
            part = self.part(alias)
            for other in self._find_parts(self._find_usable(part) if spine else part.on, part) - found:
                found.add(other)
                left.append(other)
        return found

    def find(self, changed: str | None) -> list[exp.Select]:
        """SELECTs of the wanted columns that a change of the input `changed` touches; for None, of every row
        before and after."""
        if changed is None:
            return [self._query(None, None)]
        target = next(
            part for part in [*self.core.parts, *self.later] if incremental_tables(part.node, [changed])
        )
        if target.alias in self.core.aliases and not self.core.alone:
            keys = self.core.keys_of(target)
            query = select_keys(keys, self.want)
            attach(query, JoinKind.FIRST, self._make_relation(target, changed, keys), ())
            return [query]
        query = self._query(target, changed)
        return [query, self._replace_by_null(target, query)] if target is self.optional else [query]

    def _replace_by_null(self, part: Part, query: exp.Select) -> exp.Select:
        """The query with NULL in place of the part's columns."""
        query = query.copy()
        for item in query.expressions:
            for column in [each for each in walk_own_nodes(item) if isinstance(each, exp.Column)]:
                if self.scope.parts_read(column) == {part.alias}:
                    column.replace(exp.null())
        return query

    def _query(self, target: Part | None, changed: str | None) -> exp.Select:
        """A SELECT of the keys over the needed parts, with only the changed rows of `target`."""
        needed, order = self._find_needed(target)
        first = None if self.core.name in needed else order[0]
        conditions = {part.alias: self._find_conditions(part, target, needed, first) for part in order}
        used = [*self.keys, *(each for found in conditions.values() for each in found)]
        query = select_keys(self.keys, self.want)
        if first is None:
            where = [each for each in self.filters if not self._is_hidden(each)]
            used += [*where, *(each for part in self.core.parts for each in part.on)]
            self._attach_core(query, target, changed, used)
        else:
            where = conditions[first.alias]
        for part in order:
            delta = changed if part is target else None
            inner = part is target or part.kind is JoinKind.INNER
            relation = self._make_relation(part, delta, used, exact=not inner)
            attach(query, _choose_kind(part is first, inner), relation, conditions[part.alias])
        return query.where(*[each.copy() for each in where], copy=False) if where else query

    def _attach_core(
        self, query: exp.Select, target: Part | None, changed: str | None, used: Sequence[exp.Expr]
    ) -> None:
        for part in self.core.parts:
            delta = changed if part is target else None
            attach(
                query, part.kind, self._make_relation(part, delta, used, exact=not self.core.alone), part.on
            )

    def _find_needed(self, target: Part | None) -> tuple[set[str], list[Part]]:
        """Aliases of the parts that the query has to read, and those parts after the core in their order."""
        needed = set(self.spine)
        if target is not None and target.alias not in needed:
            needed |= self._follow_conditions({target.alias}, spine=False)
        order = [part for part in self.later if part.alias in needed]
        if not order or (order[0].kind is not JoinKind.INNER and order[0] is not target):
            needed.add(self.core.name)
        return needed, order

    def _find_conditions(
        self, part: Part, target: Part | None, needed: set[str], first: Part | None
    ) -> list[exp.Expr]:
        """The conditions that a part is joined on. Raises NotIncremental where none of them leads back to the
        key."""
        found = self._find_usable(part) if part.alias in self.spine else self._find_visible(part, target)
        kept = [each for each in found if self._find_parts([each], part) <= needed]
        linked = [each for each in part.on if len(self._find_parts([each], part)) > 1]
        if linked and part is not first and target is not None and not any(each in kept for each in linked):
            raise NotIncremental(f"the join of {part.alias} cannot be followed back to the key")
        return kept

    def _find_visible(self, part: Part, target: Part | None) -> list[exp.Expr]:
        """The join conditions of a part outside the key that can be evaluated for changed rows. Raises
        NotIncremental for an outer join on the way that would lose one."""
        found = [each for each in part.on if not self._is_hidden(each)]
        if len(found) < len(part.on) and part is not target and part.kind is not JoinKind.INNER:
            raise NotIncremental(f"the join of {part.alias} reads what a subquery computes")
        return found

    def _is_exact(self, part: Part) -> bool:
        """Whether the part, over all rows of its input before and after, gives exactly its own rows before
        and after: a table, a row-wise subquery, or one without incremental inputs."""
        if isinstance(part.node, exp.Table) or not incremental_tables(part.node, self.finder.incremental):
            return True
        try:
            check_row_wise(part.node.this, self.finder.incremental)
        except NotIncremental:
            return False
        return True

    def _is_hidden(self, condition: exp.Expr) -> bool:
        """Whether the condition reads a column of a subquery that cannot be computed for changed rows, such
        as a sum."""
        for alias in self.scope.parts_read(condition):
            part = self.part(alias)
            if not self._is_exact(part):
                try:
                    self.finder.find(
                        part.node.this, self.scope.columns_read(alias, [condition]), None, top=False
                    )
                except NotIncremental:
                    return True
        return False

    def _make_relation(
        self, part: Part, changed: str | None, used: Sequence[exp.Expr], *, exact: bool = False
    ) -> exp.Expr:
        """The part under its alias, with at least the columns that `used` reads: its changed rows, or all
        rows before and after. Raises NotIncremental where these must be `exact` and cannot be."""
        if self._is_exact(part):
            return rename_inputs(part.node, self.finder.incremental, changed, part.alias)
        if exact:
            raise NotIncremental(f"the subquery {part.alias} in an outer join that others build on")
        names = self.scope.columns_read(part.alias, used)
        found = self.finder.find(part.node.this, names or [0], changed, top=False)
        return exp.Subquery(this=unite(found), alias=exp.TableAlias(this=quoted(part.alias)))


def _choose_kind(first: bool, inner: bool) -> JoinKind:
    if first:
        return JoinKind.FIRST
    return JoinKind.INNER if inner else JoinKind.LEFT
