"""Proves from Spark's plan how a Python transform can be evaluated.

A function is code; what can be read is the plan of the frame that it returns, down to its inputs' views.
Where the plan has anything that is not known to be harmless, nothing is proven.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegauge.transform.spark_plan import analyzed_plan, each, id_of, ids_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PASS_ROWS = {
    "SubqueryAlias",
    "View",
    "ResolvedHint",
    "Sort",
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "CTERelationDef",
}
"""Plan nodes that pass on the rows of their only child."""
_BY_ROWS = {"MapInPandas", "MapInArrow", "PythonMapInArrow"}


@dataclass(frozen=True)
class Proof:
    against_rows: str | None
    """Why the transform is not proven to go row by row; None: it does."""
    against_keys: str | None
    """Why it is not proven that a change only touches the keys that the transform gives over the changed
    rows; None: it is."""


@dataclass(frozen=True)
class _Part:
    """What is known of a node of the plan with all below it."""

    incremental: frozenset[str] = frozenset()
    """Names of the incremental inputs below it."""
    hidden: frozenset[int] = frozenset()
    """Ids of columns whose value over changed rows alone may differ from the one over all rows."""
    equal: frozenset[frozenset[int]] = frozenset()
    """Pairs of ids of columns that a FULL join compares: equal where both sides have a row."""
    rows: str | None = None
    """As in `Proof`, and so is `keys`."""
    keys: str | None = None


def prove(
    frame: DataFrame, *, inputs: Mapping[str, str], incremental: Collection[str], by: Sequence[str]
) -> Proof:
    """Prove what can be proven about a transform's frame. `inputs` has for each view the name of its input;
    `by` are the key columns."""
    reader = _Reader(inputs, incremental)
    plan = analyzed_plan(frame)
    part = reader.part(plan)
    wanted = {name.casefold() for name in by}
    hidden = [
        one.name()
        for one in each(plan.output())
        if one.name().casefold() in wanted and id_of(one) in part.hidden
    ]
    keys = part.keys or (f"{hidden[0]} comes from an aggregate or an outer join" if hidden else None)
    return Proof(part.rows, keys)


class _Reader:
    def __init__(self, inputs: Mapping[str, str], incremental: Collection[str]) -> None:
        self._inputs, self._incremental = inputs, incremental
        self._shared: dict[int, tuple[Any, _Part]] = {}

    def part(self, plan: Any) -> _Part:
        name = plan.nodeName()
        if name == "SubqueryAlias" and plan.alias() in self._inputs:
            input_ = self._inputs[plan.alias()]
            return _Part(frozenset({input_}) if input_ in self._incremental else frozenset())
        if name == "WithCTE":
            for one in each(plan.cteDefs()):
                self._shared[one.id()] = (one, self.part(one))
            return self.part(plan.plan())
        if name == "CTERelationRef":
            one, part = self._shared[plan.cteId()]
            return replace(part, hidden=_map_hidden(part, one, plan), equal=frozenset())
        below = [self.part(child) for child in each(plan.children())]
        part = self._read_node(name, plan, below)
        if any(self.part(query).incremental for query in each(plan.subqueries())):
            return _add_reason(part, "it has a subquery", both=True)
        return part if part.incremental else _Part()

    def _read_node(self, name: str, plan: Any, below: list[_Part]) -> _Part:
        """What is known of a node, given what is known of the nodes below it."""
        if not any(part.incremental for part in below):
            return _Part()
        if name == "Join":
            return _read_join(plan, *below)
        if name == "Union":
            return _read_union(plan, below)
        if len(below) == 1 and (found := _read_single_child(name, plan, below[0])) is not None:
            return found
        merged = frozenset().union(*(part.incremental for part in below))
        return _add_reason(_Part(merged), f"it has a {_to_words(name)}", both=True)


def _read_single_child(name: str, plan: Any, part: _Part) -> _Part | None:
    """What is known of a node with one child; None for an unknown kind of node."""
    if name in _PASS_ROWS:
        return part
    if name in _BY_ROWS:
        why = "it maps what a join or an aggregate gives"
        found = _add_reason(part, why) if part.hidden else part
        return replace(found, hidden=frozenset(), equal=frozenset())
    match name:
        case "Project":
            return replace(part, hidden=_find_hidden(plan.projectList(), part), equal=frozenset())
        case "Filter":
            return _read_row_choice(plan.condition(), part, "filters")
        case "Generate":
            return _read_row_choice(plan.generator(), part, "explodes")
        case "Aggregate":
            return _read_aggregate(plan, part)
        case "Distinct":
            return _add_reason(part, "it removes duplicates", rows=True)
        case "Deduplicate" if ids_of(plan.keys()) == ids_of(plan.output()):
            return _add_reason(part, "it removes duplicates", rows=True)
        case _:
            return None


def _read_row_choice(expression: Any, part: _Part, does: str) -> _Part:
    """What is known of a node that keeps or repeats rows by an expression, whose value has to be the same
    over changed rows alone."""
    if _is_known(expression, part):
        return part
    return _add_reason(part, f"it {does} by a column that a join or an aggregate gives")


def _read_join(plan: Any, left: _Part, right: _Part) -> _Part:
    kind = plan.joinType().toString()
    part = _Part(
        left.incremental | right.incremental,
        left.hidden | right.hidden,
        rows=left.rows or right.rows,
        keys=left.keys or right.keys,
    )
    if again := left.incremental & right.incremental:
        return _add_reason(part, f"it joins {min(again)} with itself", both=True)
    if left.incremental and right.incremental:
        part = _add_reason(part, "it joins several inputs that change", rows=True)
    conditions = list(each(plan.condition().toList()))
    if not all(_is_known(condition, part) for condition in conditions):
        part = _add_reason(part, "it joins by a column that a join or an aggregate gives")
    if left.incremental and kind in ("RightOuter", "FullOuter"):
        part = _hide_filled(part, plan.left())
    if right.incremental and kind in ("LeftOuter", "FullOuter"):
        part = _hide_filled(part, plan.right())
    return _apply_join_kind(kind, part, conditions, right_changes=bool(right.incremental))


def _hide_filled(part: _Part, side: Any) -> _Part:
    """Hide the columns of the side that an outer join fills with NULLs: changed rows alone do not show where
    it has no match."""
    why = "an outer join can put NULLs in place of an incremental input's rows"
    found = _add_reason(part, why, rows=True)
    return replace(found, hidden=found.hidden | ids_of(side.output()))


def _apply_join_kind(kind: str, part: _Part, conditions: list[Any], *, right_changes: bool) -> _Part:
    match kind:
        case "Inner" | "Cross" | "LeftOuter" | "RightOuter":
            return part
        case "FullOuter":
            return replace(part, equal=frozenset(_find_equal(conditions)))
        case "LeftSemi" if right_changes:
            return _add_reason(part, "it has a semi join with what changes", rows=True)
        case "LeftAnti" if right_changes:
            return _add_reason(part, "it has an anti join with what changes", both=True)
        case "LeftSemi" | "LeftAnti":
            return part
        case _:
            return _add_reason(part, f"it has a {kind} join", both=True)


def _read_union(plan: Any, below: list[_Part]) -> _Part:
    part = _Part(
        frozenset().union(*(one.incremental for one in below)),
        rows=next((one.rows for one in below if one.rows), None),
        keys=next((one.keys for one in below if one.keys), None),
    )
    out = [id_of(one) for one in each(plan.output())]
    hidden: set[int] = set()
    for one, child in zip(below, each(plan.children()), strict=True):
        hidden |= {out[at] for at, column in enumerate(each(child.output())) if id_of(column) in one.hidden}
    return replace(part, hidden=frozenset(hidden))


def _read_aggregate(plan: Any, part: _Part) -> _Part:
    grouped = all(_is_known(one, part) for one in each(plan.groupingExpressions()))
    found = _add_reason(part, "it has an aggregate", rows=True)
    if not grouped:
        found = _add_reason(found, "it groups by a column that a join or an aggregate gives")
    hidden = {
        id_of(one)
        for one in each(plan.aggregateExpressions())
        if not _is_known(one, part) or _contains(one, "AggregateExpression")
    }
    return replace(found, hidden=frozenset(hidden), equal=frozenset())


def _add_reason(part: _Part, why: str, *, rows: bool = False, both: bool = False) -> _Part:
    """Add a reason against `keys`, or with `rows` against rows, or against both; an earlier reason stays."""
    return replace(
        part,
        rows=part.rows or (why if rows or both else None),
        keys=part.keys or (why if not rows else None),
    )


def _find_hidden(expressions: Any, part: _Part) -> frozenset[int]:
    return frozenset(
        id_of(one) for one in each(expressions) if not _is_known(one, part) and not _is_joined(one, part)
    )


def _is_joined(expression: Any, part: _Part) -> bool:
    """Whether the expression is the key of a FULL join, taken from whichever side has it."""
    if expression.nodeName() != "Alias" or expression.child().nodeName() != "Coalesce":
        return False
    columns = list(each(expression.child().children()))
    if len(columns) != 2 or any(one.nodeName() != "AttributeReference" for one in columns):
        return False
    return frozenset(id_of(one) for one in columns) in part.equal


def _find_equal(conditions: Iterable[Any]) -> Iterator[frozenset[int]]:
    for one in conditions:
        match one.nodeName():
            case "And":
                yield from _find_equal([one.left(), one.right()])
            case "EqualTo" | "EqualNullSafe":
                sides = (one.left(), one.right())
                if all(side.nodeName() == "AttributeReference" for side in sides):
                    yield frozenset(id_of(side) for side in sides)
            case _:
                pass


def _is_known(expression: Any, part: _Part) -> bool:
    """Whether the expression has the same value over changed rows alone as over all rows."""
    return not part.hidden or not (ids_of(expression.references().toSeq()) & part.hidden)


def _contains(expression: Any, name: str) -> bool:
    return expression.nodeName() == name or any(_contains(one, name) for one in each(expression.children()))


def _map_hidden(part: _Part, one: Any, other: Any) -> frozenset[int]:
    pairs = zip(each(one.output()), each(other.output()), strict=True)
    return frozenset(id_of(new) for old, new in pairs if id_of(old) in part.hidden)


def _to_words(name: str) -> str:
    """The name of a plan node in words: `GlobalLimit` becomes `global limit`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
