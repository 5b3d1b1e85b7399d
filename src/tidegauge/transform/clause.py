"""Small pieces of a query, and the two ways in which a query may not be usable."""

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


class Unclear(Exception):  # a way of evaluating that is not open, never an error of the user's
    """Why a query cannot be evaluated in the way that was tried."""


class Missing(Exception):  # becomes a TransformFailed where the place is known
    """No such column comes out."""

    def __init__(self, column: str, there: Sequence[str | None] | None) -> None:
        super().__init__(column)
        self.column = column
        self.there = [name for name in there or () if name]


def only(node: exp.Expr, *known: str) -> None:
    """Raises Unclear if more is written in it than what is known."""
    for name, part in node.args.items():
        if part and name not in known:
            word = name.rstrip("_")
            shown = f"{part} JOIN" if word == "method" else word.replace("_", " ").upper()
            raise Unclear(_WORDS.get(word, shown))


def own(node: exp.Expr) -> Iterator[exp.Expr]:
    """The node and all below it, except for what belongs to a subquery."""
    return node.walk(prune=lambda each: isinstance(each, exp.Query))


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif not (isinstance(node, exp.Boolean) and node.this):
        yield node


def alternatives(node: exp.Expr) -> list[exp.Expr]:
    """What COALESCE chooses from, or the expression alone."""
    node = node.unnest()
    if not isinstance(node, exp.Coalesce):
        return [node]
    return [inner for each in [node.this, *node.expressions] for inner in alternatives(each)]


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
