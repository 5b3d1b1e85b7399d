"""Parse the text of a transform into one query over its inputs, with CTEs inlined where they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tidegauge.errors import Place, TransformFailed
from tidegauge.model.sql_error import describe_sql_error

DIALECT = "spark"
RECURSIVE = "tidegauge_recursive"
"""Key in a query's `meta`: a CTE is recursive or names its columns, so no CTE was inlined."""


def parse_transform(text: str, *, inputs: Sequence[str], place: Path | None = None) -> exp.Query:
    """Parse a transform and inline its CTEs. Raises TransformFailed for anything but one query that reads
    only inputs."""
    query = parse(text, place)
    query = inline_ctes(query)
    known = {name.lower() for name in inputs}
    named = [table for table in query.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in named:
        plain = not table.db and not table.catalog
        if not plain or (table.name.lower() not in known and table.name.lower() not in own):
            shown = ".".join(part.name for part in table.parts)
            fail(
                f"the SQL reads {shown}, which is no input of this flow",
                f"name it under `inputs`; those there are: {', '.join(inputs)}",
                text,
                table.parts[0].meta.get("start"),
                place,
            )
    if not named:
        fail("the SQL reads no input", f"the inputs are views: {', '.join(inputs)}", text, None, place)
    return query


def is_readable(text: str) -> bool:
    """Whether sqlglot can parse the text. Spark may accept SQL that sqlglot does not know."""
    try:
        sqlglot.parse(text, dialect=DIALECT)
    except (ParseError, TokenError):
        return False
    return True


def count_reads(node: exp.Expr, name: str) -> int:
    """How often the node reads a table of this name."""
    return sum(
        isinstance(table.this, exp.Identifier) and table.name.lower() == name.lower()
        for table in node.find_all(exp.Table)
    )


def parse(text: str, place: Path | None = None) -> exp.Query:
    """Parse a query and keep its CTEs. Raises TransformFailed for anything but one query."""
    try:
        statements = [each for each in sqlglot.parse(text, dialect=DIALECT) if each is not None]
    except (ParseError, TokenError) as error:
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        start = None
        if first.get("line"):
            before = "\n".join(text.split("\n")[: first["line"] - 1])
            start = len(before) + bool(before) + first["col"] - len(first.get("highlight") or "")
        fail(
            f"the SQL cannot be read: {describe_sql_error(error)}",
            "if Spark does take it, say `evaluate: whole`: then it is left to Spark",
            text,
            start,
            place,
            error,
        )
    statements = [each for each in statements if not isinstance(each, exp.Semicolon)]
    if len(statements) > 1:
        fail("the SQL has several statements", "a transform is one SELECT", text, None, place)
    if not statements:
        fail("the SQL is empty", "a transform is one SELECT", text, None, place)
    found = statements[0]
    if not isinstance(found, exp.Query):
        fail(f"the SQL is {_article(found.key)} and no query", "a transform is one SELECT", text, None, place)
    return found


def inline_ctes(query: exp.Query) -> exp.Query:
    if any(part.args.get("recursive") for part in query.find_all(exp.With)) or any(
        cte.args["alias"].args.get("columns") for cte in query.find_all(exp.CTE)
    ):
        query.meta[RECURSIVE] = True
        return query
    holder = exp.Subquery(this=query)
    _inline(holder, {})
    found = holder.this
    assert isinstance(found, exp.Query)
    return found.pop()


def _inline(node: exp.Expr, ctes: Mapping[str, exp.Query]) -> None:
    if isinstance(node, exp.Query) and (part := node.args.get("with_")):
        part.pop()
        for cte in part.expressions:
            holder = exp.Subquery(this=cte.this)
            _inline(holder, ctes)
            ctes = {**ctes, cte.alias.lower(): holder.this}
    for child in list(node.iter_expressions()):
        _inline(child, ctes)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.db:
        found = ctes.get(node.name.lower())
        if found is not None:
            alias = node.args.get("alias") or exp.TableAlias(this=node.this.copy())
            kept = {name: part for name, part in node.args.items() if part and name not in ("this", "alias")}
            node.replace(exp.Subquery(this=found.copy(), alias=alias.copy(), **kept))


def _article(key: str) -> str:
    return f"{'an' if key[:1] in 'aeiou' else 'a'} {key.upper()}"


def fail(
    cause: str, hint: str, text: str, start: int | None, place: Path | None, error: Exception | None = None
) -> NoReturn:
    cause, where = place_in(cause, text, start, place)
    raise TransformFailed(cause, hint=hint, place=where) from error


def place_in(cause: str, text: str, start: int | None, file: Path | None) -> tuple[str, Place | None]:
    """The cause, and the place in the file of the character `start` of the text; without a file the cause
    itself says line and column."""
    line = text.count("\n", 0, start) + 1 if start is not None else 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1 if start is not None else 1
    if file is not None:
        return cause, Place(str(file), line, column)
    return (cause if start is None else f"{cause} (line {line}, column {column})"), None
