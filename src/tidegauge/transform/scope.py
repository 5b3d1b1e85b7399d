"""The FROM of one SELECT: its parts in order, how each is joined, and which part a column belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from tidegauge.transform.clause import (
    NotIncremental,
    OutputColumnMissing,
    alternatives,
    conjuncts,
    quoted,
    refuse_other_clauses,
    walk_own_nodes,
)

Columns = Mapping[str, Sequence[str] | Mapping[str, str]]
"""The columns of each known input: their names, or names with Spark types. With types more can be evaluated
by key: FULL joins on columns of equal type."""


class JoinKind(StrEnum):
    FIRST = "first"
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    EXISTS = "exists"
    """LEFT SEMI and LEFT ANTI."""


@dataclass
class Part:
    """A table or subquery of a FROM."""

    alias: str
    node: exp.Table | exp.Subquery
    kind: JoinKind
    seen: frozenset[str]
    """Aliases of the parts that its join condition can read."""
    on: list[exp.Expr] = field(default_factory=list)
    """The conditions that it is joined on, all of which must hold."""
    names: Mapping[str, str | None] | None = None
    """Its columns in order, in lower case, with types where they are known; None: not known."""

    def column(self, name: str) -> exp.Column:
        return exp.column(quoted(name), quoted(self.alias))


class Scope:
    """The parts of one SELECT's FROM. Raises NotIncremental for a FROM that is not understood."""

    def __init__(self, select: exp.Select, columns: Columns) -> None:
        self.select = select
        self.columns = columns
        self.parts: list[Part] = []
        self.merged: dict[str, exp.Expr] = {}
        """For each column of a USING, the expression that its unqualified name means."""
        self.crossed = False
        if (start := select.args.get("from_")) is None:
            raise NotIncremental("a SELECT without FROM")
        self._add(start.this, JoinKind.FIRST)
        for join in select.args.get("joins") or ():
            self._read_join(join)

    def _add(self, node: exp.Expr, kind: JoinKind) -> Part:
        names: Mapping[str, str | None] | None
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            refuse_other_clauses(node, "this", "alias")
            names = _input_columns(self.columns, node.name)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            refuse_other_clauses(node, "this", "alias", "order")
            names = _query_columns(node.this, self.columns)
        else:
            raise NotIncremental(f"{node.sql('spark').split('(')[0].strip() or 'a parenthesis'} in FROM")
        if (alias := node.args.get("alias")) and alias.args.get("columns"):
            raise NotIncremental("column names after an alias in FROM")
        name = node.alias_or_name.lower() or f"__tidegauge_part_{len(self.parts)}"
        if any(part.alias == name for part in self.parts):
            raise NotIncremental(f"{name} stands twice in FROM")
        seen = frozenset({name, *(part.alias for part in self.parts)})
        self.parts.append(Part(name, node, kind, seen, names=names))
        return self.parts[-1]

    def _read_join(self, join: exp.Join) -> None:
        refuse_other_clauses(join, "this", "side", "kind", "on", "using")
        side, kind = join.side, join.kind
        if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
            known = JoinKind.EXISTS
        elif side in ("LEFT", "RIGHT", "FULL") and kind in ("", "OUTER"):
            known = JoinKind(side.lower())
        elif not side and kind in ("", "INNER", "CROSS"):
            known = JoinKind.INNER
        else:
            raise NotIncremental(f"{side} {kind} JOIN".strip())
        self.crossed = self.crossed or kind == "CROSS"
        before = list(self.parts)
        part = self._add(join.this, known)
        if on := join.args.get("on"):
            part.on = [self.qualify(each) for each in conjuncts(on)]
        for column in join.args.get("using") or ():
            self._merge_column(column.name.lower(), before, part)

    def _merge_column(self, name: str, before: Sequence[Part], part: Part) -> None:
        left = self.merged.get(name)
        if left is None:
            owners = [each for each in before if each.names is None or name in each.names]
            owners = [each for each in owners if each.kind is not JoinKind.EXISTS]
            if len(owners) != 1:
                raise NotIncremental(f"USING ({name}) does not say whose column that is")
            left = owners[0].column(name)
        right = part.column(name)
        part.on.append(exp.EQ(this=left.copy(), expression=right.copy()))
        if part.kind is JoinKind.FULL:
            first, *rest = [each.copy() for each in (*alternatives(left), right)]
            self.merged[name] = exp.Coalesce(this=first, expressions=rest)
        else:
            self.merged[name] = right if part.kind is JoinKind.RIGHT else left

    def qualify(self, node: exp.Expr) -> exp.Expr:
        """A copy in which every column that only one part can have is written with that part's name."""
        holder = exp.Paren(this=node.copy())
        for column in [each for each in walk_own_nodes(holder) if isinstance(each, exp.Column)]:
            if isinstance(column.this, exp.Star) or self._qualifier(column) is not None:
                continue
            parts = column.parts
            name = parts[0].name.lower()
            if len(parts) == 1 and name in self.merged:
                column.replace(self.merged[name].copy())
            elif len(owners := self._owners(name)) == 1:
                first, *fields = [part.copy() for part in parts]
                found: exp.Expr = exp.Column(this=first, table=quoted(owners[0].alias))
                for step in fields:
                    found = exp.Dot(this=found, expression=step)
                column.replace(found)
        found = holder.this
        return found.pop()

    def parts_read(self, node: exp.Expr) -> frozenset[str]:
        """The parts that a qualified expression reads; all of them where that is not certain."""
        if self.is_ambiguous(node):
            return frozenset(part.alias for part in self.parts if part.kind is not JoinKind.EXISTS)
        columns = [each for each in walk_own_nodes(node) if isinstance(each, exp.Column)]
        return frozenset(str(self._qualifier(each)) for each in columns)

    def is_ambiguous(self, node: exp.Expr) -> bool:
        """Whether the expression has a column that more than one part may have, or a subquery."""
        return any(
            isinstance(each, exp.Query) or (isinstance(each, exp.Column) and self._qualifier(each) is None)
            for each in walk_own_nodes(node)
        )

    def part(self, alias: str) -> Part:
        return next(part for part in self.parts if part.alias == alias)

    def columns_read(self, alias: str, nodes: Sequence[exp.Expr]) -> list[str]:
        """The columns of a part that qualified expressions read, each once."""
        found = {
            column.parts[1].name.lower(): None
            for node in nodes
            for column in walk_own_nodes(node)
            if isinstance(column, exp.Column) and self._qualifier(column) == alias
        }
        return list(found)

    def _qualifier(self, column: exp.Column) -> str | None:
        if len(column.parts) < 2:
            return None
        name = column.parts[0].name.lower()
        return name if any(part.alias == name for part in self.parts) else None

    def _owners(self, name: str) -> list[Part]:
        seen = [each for each in self.parts if each.kind is not JoinKind.EXISTS or each is self.parts[-1]]
        return [each for each in seen if each.names is None or name in each.names]

    def find_output(self, want: str | int) -> exp.Expr:
        """The expression that the SELECT returns under a name or at an index, qualified. Raises
        OutputColumnMissing if there is none."""
        items = self.select.expressions
        if isinstance(want, int):
            if not any(each.is_star for each in items):
                return self._qualify_item(items[want])
            names = output_names(self.select, self.columns)
            if names is None or (name := names[want]) is None:
                raise NotIncremental("a UNION of SELECT *, whose columns are not known")
            want = name
        for each in items:
            if not each.is_star and output_name(each) == want.lower():
                return self._qualify_item(each)
        if any(makes_columns(each) for each in items) or self.select.args.get("laterals"):
            raise NotIncremental(f"{want} may be a column that a generator makes")
        return self.qualify(self._find_in_star(want))

    def _find_in_star(self, want: str) -> exp.Expr:
        name = want.lower()
        for each in self.select.expressions:
            if not each.is_star:
                continue
            star = each.this if isinstance(each, exp.Column) else each
            refuse_other_clauses(star, "except_")
            if name in _find_excepted(star):
                continue
            if not isinstance(each, exp.Column):
                if name in self.merged or self._owners(name):
                    return exp.column(quoted(want))
                continue
            alias = each.table.lower()
            if each.db or not any(part.alias == alias for part in self.parts):
                raise NotIncremental(f"{each.sql('spark')} of a struct")
            names = self.part(alias).names
            if names is None or name in names:
                return self.part(alias).column(want)
        raise OutputColumnMissing(want, output_names(self.select, self.columns))

    def _qualify_item(self, item: exp.Expr) -> exp.Expr:
        """The expression of a SELECT item, qualified. Raises NotIncremental if it may read an alias of the
        same SELECT, which Spark allows where no part has such a column."""
        others = [
            each for each in self.select.expressions if isinstance(each, exp.Alias) and each is not item
        ]
        aliases = {each.alias.lower() for each in others}
        for column in walk_own_nodes(item):
            if isinstance(column, exp.Column) and self._qualifier(column) is None:
                name = column.parts[0].name.lower()
                if name in aliases and not self._is_column(name):
                    raise NotIncremental(f"{name} may be an alias of the same SELECT")
        return self.qualify(item.unalias())

    def _is_column(self, name: str) -> bool:
        return name in self.merged or any(name in (part.names or ()) for part in self.parts)


def output_name(item: exp.Expr) -> str | None:
    """The name of a SELECT item in lower case; None for an expression that only Spark names."""
    if isinstance(item, exp.Alias):
        return item.alias.lower()
    return item.name.lower() if isinstance(item, exp.Column | exp.Dot) else None


def output_names(query: exp.Expr, columns: Columns) -> list[str | None] | None:
    """The names of a query's columns in lower case, None for one without; None if they are not known."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return None if query.args.get("by_name") else output_names(query.this, columns)
    if not isinstance(query, exp.Select) or any(makes_columns(each) for each in query.expressions):
        return None
    found: list[str | None] = []
    for each in query.expressions:
        if each.is_star:
            names = _expand_star(query, each, columns)
            if names is None:
                return None
            found += names
        else:
            found.append(output_name(each))
    return found


def _expand_star(select: exp.Select, item: exp.Expr, columns: Columns) -> list[str] | None:
    """The names that a star stands for; None if they are not known."""
    try:
        scope = Scope(select, columns)
    except NotIncremental:
        return None
    parts = _parts_of_star(scope, item)
    if not parts or select.args.get("laterals") or (scope.merged and len(parts) > 1):
        return None
    dropped = _find_excepted(item.this if isinstance(item, exp.Column) else item)
    found: list[str] = []
    for part in parts:
        if part.names is None:
            return None
        found += [name for name in part.names if name not in dropped]
    return found


def _parts_of_star(scope: Scope, item: exp.Expr) -> list[Part]:
    parts = [part for part in scope.parts if part.kind is not JoinKind.EXISTS]
    if not isinstance(item, exp.Column):
        return parts
    return [part for part in parts if part.alias == item.table.lower() and not item.db]


def _find_excepted(star: exp.Expr) -> set[str]:
    """The columns that `* EXCEPT (…)` leaves out."""
    return {column.name.lower() for column in star.args.get("except_") or ()}


def _input_columns(columns: Columns, table: str) -> dict[str, str | None] | None:
    for name, found in columns.items():
        if name.lower() == table.lower():
            if isinstance(found, Mapping):
                return {column.lower(): kind.lower() for column, kind in found.items()}
            return {column.lower(): None for column in found}
    return None


def _query_columns(query: exp.Expr, columns: Columns) -> dict[str, str | None] | None:
    """A query's columns, with types for those that it passes on unchanged; None if they are not known."""
    names = output_names(query, columns)
    if names is None or not all(names):
        return None
    found: dict[str, str | None] = {str(name): None for name in names}
    select = query.unnest()
    if isinstance(select, exp.Select):
        with suppress(NotIncremental, OutputColumnMissing):
            scope = Scope(select, columns)
            for name in found:
                column = scope.find_output(name)
                if isinstance(column, exp.Column) and len(tables := scope.parts_read(column)) == 1:
                    found[name] = (scope.part(*tables).names or {}).get(column.name.lower())
    return found


def makes_columns(item: exp.Expr) -> bool:
    """Whether the item is a generator that makes columns whose names the SELECT does not show."""
    if isinstance(item, exp.Anonymous):
        return item.name.lower() in ("inline_outer", "json_tuple")
    return isinstance(item, exp.Aliases | exp.Explode | exp.Inline | exp.QueryTransform | exp.Stack)
