"""Helpers for the clauses of a query, and the two errors for a query that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

_WORDS = {
    "fetch": "LIMIT",
    "laterals": "LATERAL VIEW",
    "match": "MATCH_RECOGNIZE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "with": "WITH inside a subquery",
}


class NotIncremental(
    Exception
):  # another way of evaluating is tried then: it is never an error of the user's
    """Why a query cannot be evaluated in the way that was tried."""


class OutputColumnMissing(Exception):  # becomes a TransformFailed where the place is known
    """The query does not return this column."""

    def __init__(self, column: str, there: Sequence[str | None] | None) -> None:
        super().__init__(column)
        self.column = column
        self.there = [name for name in there or () if name]


def refuse_other_clauses(node: exp.Expr, *known: str) -> None:
    """Raises NotIncremental if the node has another clause than the `known` ones."""
    for name, part in node.args.items():
        if part and name not in known:
            word = name.rstrip("_")
            shown = f"{part} JOIN" if word == "method" else word.replace("_", " ").upper()
            raise NotIncremental(_WORDS.get(word, shown))


def walk_own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and all nodes below it, without the inside of subqueries."""
    return node.walk(prune=lambda each: isinstance(each, exp.Query))


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif not (isinstance(node, exp.Boolean) and node.this):
        yield node


def alternatives(node: exp.Expr) -> list[exp.Expr]:
    """The expressions that a COALESCE chooses from, or the expression alone."""
    node = node.unnest()
    if not isinstance(node, exp.Coalesce):
        return [node]
    return [inner for each in [node.this, *node.expressions] for inner in alternatives(each)]


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
