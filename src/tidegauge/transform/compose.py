"""Builds rewritten SQL from its pieces."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from tidegauge.transform.clause import quoted
from tidegauge.transform.scope import JoinKind
from tidegauge.transform.view_names import all_name, delta_name

Want = str | int
"""An output column, by its name or its index."""


def label(want: Want) -> str:
    return want if isinstance(want, str) else f"c{want}"


def select_keys(keys: Sequence[exp.Expr], want: Sequence[Want]) -> exp.Select:
    pairs = zip(keys, want, strict=True)
    return exp.Select(
        expressions=[exp.Alias(this=key.copy(), alias=quoted(label(each))) for key, each in pairs]
    )


def attach(query: exp.Select, kind: JoinKind, relation: exp.Expr, on: Sequence[exp.Expr]) -> None:
    """Add a relation to a query: the first one as FROM, others as joins."""
    if kind is JoinKind.FIRST:
        query.set("from_", exp.From(this=relation))
        return
    join = exp.Join(this=relation)
    if kind in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL):
        join.set("side", kind.value.upper())
    if on:
        join.set("on", exp.and_(*[each.copy() for each in on], copy=False))
    elif kind is JoinKind.INNER:
        join.set("kind", "CROSS")
    else:
        join.set("on", exp.true())
    query.append("joins", join)


def unite(found: Sequence[exp.Select]) -> exp.Query:
    """The union of the SELECTs, each row once."""
    query: exp.Query = found[0].distinct(copy=False)
    for each in found[1:]:
        query = exp.Union(this=query, expression=each.distinct(copy=False), distinct=True)
    return query


def rename_inputs(node: exp.Expr, incremental: Collection[str], changed: str | None, alias: str) -> exp.Expr:
    """A copy of a relation, under an alias, that reads views instead of incremental inputs: the changed rows
    of the input `changed`, and all rows of the others, before and after."""
    known = {name.lower(): name for name in incremental}
    holder = exp.Paren(this=node.copy())
    for table in list(holder.find_all(exp.Table)):
        name = known.get(table.name.lower()) if isinstance(table.this, exp.Identifier) else None
        if name is None:
            continue
        changes = changed is not None and name.lower() == changed.lower()
        shown = table.args.get("alias") or exp.TableAlias(this=quoted(table.name))
        view = quoted(delta_name(name) if changes else all_name(name))
        table.replace(exp.Table(this=view, alias=shown.copy()))
    found: exp.Expr = holder.this
    found.set("alias", exp.TableAlias(this=quoted(alias)))
    return found.pop()
