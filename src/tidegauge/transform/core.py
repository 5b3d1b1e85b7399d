"""The core of a FROM: its first part, or the first parts that RIGHT and FULL joins connect, taken as one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp

from tidegauge.transform.clause import NotIncremental, alternatives, walk_own_nodes
from tidegauge.transform.scope import JoinKind, Part, Scope

_Column = tuple[str, str]


class JoinCore:
    """The first parts of a FROM, checked: in every row, all parts have the same values in the key's columns.

    Then the rows of a key are made only of the parts' rows with that key. Raises NotIncremental otherwise.
    """

    def __init__(self, scope: Scope, parts: Sequence[Part], keys: Sequence[exp.Expr]) -> None:
        self.parts = list(parts)
        self.aliases = {part.alias for part in parts}
        self.name = parts[0].alias
        self.alone = len(parts) == 1
        self._scope = scope
        self._keys = keys
        if self.alone:
            return
        if any(part.kind is JoinKind.EXISTS for part in parts):
            raise NotIncremental("LEFT SEMI or ANTI beside a FULL or RIGHT join")
        self._equal = [pair for part in self.parts for each in part.on for pair in _find_equal(scope, each)]
        for part in parts:
            self.keys_of(part)

    def keys_of(self, part: Part) -> list[exp.Expr]:
        """The key expressions, written over the columns of one part."""
        return [self._key_of(part, key) for key in self._keys]

    def _key_of(self, part: Part, key: exp.Expr) -> exp.Expr:
        holder = exp.Paren(this=key.copy())
        for node in list(walk_own_nodes(holder)):
            if isinstance(node, exp.Coalesce | exp.Column) and not node.find_ancestor(exp.Coalesce):
                terms = alternatives(node)
                if any(
                    isinstance(one, exp.Literal) and not isinstance(other, exp.Literal)
                    for one, other in pairwise(terms)
                ):
                    raise NotIncremental(f"{node.sql('spark')} prefers a constant to a column")
                fixed = [each.copy() for each in terms if isinstance(each, exp.Literal)]
                found = part.column(
                    self._shared([each for each in terms if not isinstance(each, exp.Literal)])[part.alias]
                )
                node.replace(exp.Coalesce(this=found, expressions=fixed) if fixed else found)
        result: exp.Expr = holder.this
        return result.pop()

    def _shared(self, nodes: Sequence[exp.Expr]) -> dict[str, str]:
        """For each part, its column that equals all of `nodes` in every row that has the part."""
        shown = ", ".join(node.sql("spark") for node in nodes)
        together = self._own_columns(nodes, shown)
        equal = self._all_equal_to(min(together))
        found = dict(equal)
        if not together <= equal or len(found) < len(equal) or set(found) != self.aliases:
            raise NotIncremental(f"a FULL or RIGHT join on other columns than {shown}")
        self._refuse_unlinked(found, shown)
        self._refuse_other_types(found, shown)
        if not all(there & {alias for alias, _ in together} for there in self._patterns()):
            raise NotIncremental(f"{shown} is NULL where an outer join finds no match")
        return found

    def _own_columns(self, nodes: Sequence[exp.Expr], shown: str) -> set[_Column]:
        """The columns of the core that the expressions are. Raises NotIncremental for any other one."""
        terms = [_find_column(self._scope, node) for node in nodes]
        found = {term for term in terms if term is not None}
        if not nodes or None in terms or not {alias for alias, _ in found} <= self.aliases:
            raise NotIncremental(f"{shown} is no column that the parts of a FULL or RIGHT join share")
        return found

    def _all_equal_to(self, column: _Column) -> set[_Column]:
        found = {column}
        while more := {one for pair in self._equal if found & set(pair) for one in pair} - found:
            found |= more
        return found

    def _refuse_other_types(self, found: dict[str, str], shown: str) -> None:
        types = {(self._scope.part(alias).names or {}).get(column) for alias, column in found.items()}
        if None in types or len(types) > 1:
            raise NotIncremental(f"a FULL or RIGHT join on {shown}, whose types differ or are not known")

    def _refuse_unlinked(self, found: dict[str, str], shown: str) -> None:
        before = {self.parts[0].alias}
        for part in self.parts[1:]:
            mine = (part.alias, found[part.alias])
            ties = [pair for each in part.on for pair in _find_equal(self._scope, each) if mine in pair]
            if not any(one[0] in before and found[one[0]] == one[1] for pair in ties for one in pair):
                raise NotIncremental(f"the join of {part.alias} does not compare {shown}")
            before.add(part.alias)

    def _patterns(self) -> set[frozenset[str]]:
        """The sets of parts that can be present together in one row; the other parts are NULL."""
        found = {frozenset({self.parts[0].alias})}
        for part in self.parts[1:]:
            alone = frozenset({part.alias})
            met = {there | alone for there in found}
            if part.kind in (JoinKind.LEFT, JoinKind.FULL):
                met |= found
            if part.kind in (JoinKind.RIGHT, JoinKind.FULL):
                met.add(alone)
            found = met
        return found


def _find_column(scope: Scope, node: exp.Expr) -> _Column | None:
    node = node.unnest()
    if not isinstance(node, exp.Column) or len(node.parts) != 2 or scope.is_ambiguous(node):
        return None
    return next(iter(scope.parts_read(node))), node.name.lower()


def _find_equal(scope: Scope, condition: exp.Expr) -> list[tuple[_Column, _Column]]:
    """The pairs of columns that the condition compares: two for `coalesce(a.k, b.k) = c.k`."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return []
    sides = [
        [_find_column(scope, each) for each in alternatives(side)]
        for side in (condition.this, condition.expression)
    ]
    if any(None in side for side in sides):
        return []
    return [(one, other) for one in sides[0] for other in sides[1] if one and other]
