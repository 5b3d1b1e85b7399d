"""SQL that is the same on every engine: conditions and queries for windows over `(cursor, key)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import TableName
from tidegauge.model.table import OrderedColumn, SourceTable
from tidegauge.sources.dialect import COMMENT

Literal = Callable[[Value], str]


def relation(source_table: SourceTable, name: Callable[[TableName], str]) -> str:
    """What FROM names: the table, or the subquery that stands for it."""
    return source_table.relation or name(source_table.table)


def after(source_table: SourceTable, position: RowPosition | None, literal: Literal) -> str:
    """SQL that is true for rows past the position; without a position, for every row with a cursor."""
    cursor = source_table.cursor.order
    if position is None:
        return _add_filter(source_table, f"{cursor} IS NOT NULL")
    value = literal(position.cursor)
    if not position.key:
        return _add_filter(source_table, f"{cursor} > {value}")
    key = _compare_keys(source_table.key, position.key, literal, ">", ">")
    past = f"{cursor} >= {value} AND ({cursor} > {value} OR ({cursor} = {value} AND {key}))"
    return _add_filter(source_table, past)


def _add_filter(source_table: SourceTable, condition: str) -> str:
    """The condition together with the flow's own filter (`where:`)."""
    return f"{condition} AND {source_table.filter}" if source_table.filter else condition


def upto(source_table: SourceTable, position: RowPosition, literal: Literal) -> str:
    """SQL that is true for rows up to the position, including the row at it."""
    cursor, value = source_table.cursor.order, literal(position.cursor)
    if not position.key:
        return f"{cursor} <= {value}"
    key = _compare_keys(source_table.key, position.key, literal, "<", "<=")
    return f"{cursor} <= {value} AND ({cursor} < {value} OR ({cursor} = {value} AND {key}))"


def _compare_keys(
    key: Sequence[OrderedColumn], values: Sequence[Value], literal: Literal, inner: str, last: str
) -> str:
    """`k1 > b1 OR (k1 = b1 AND (k2 > b2 OR …))`: compares tuples, in a form that can use an index."""
    column, value = key[0].order, literal(values[0])
    if len(key) == 1:
        return f"{column} {last} {value}"
    rest = _compare_keys(key[1:], values[1:], literal, inner, last)
    return f"({column} {inner} {value} OR ({column} = {value} AND {rest}))"


def between(
    source_table: SourceTable, lower: RowPosition | None, upper: RowPosition, literal: Literal
) -> str:
    return f"{after(source_table, lower, literal)} AND {upto(source_table, upper, literal)}"


def splits(source_table: SourceTable, batch: Batch, literal: Literal) -> list[str]:
    """The conditions of a batch's parallel readers; each begins where the last ends, so no row is missed."""
    only = f" AND {source_table.only}" if source_table.only else ""
    if batch.creates_output:
        return ["1 = 0"]
    if batch.nulls:
        return [_add_filter(source_table, f"{source_table.cursor.order} IS NULL") + only]
    (window,) = batch.windows
    points = [window.after, *batch.split_points, window.upto]
    made = []
    for lower, upper in pairwise(points):
        assert lower is None or isinstance(lower, RowPosition)
        assert isinstance(upper, RowPosition)
        made.append(between(source_table, lower, upper, literal) + only)
    return made


def cuts(source_table: SourceTable, table: str, where: str, step: int) -> str:
    """A query for every `step`-th row of the window and the last: its number, cursor and key as text."""
    parts = (source_table.cursor, *source_table.key)
    # Names of ours and of the user's never meet in one SELECT that sorts: a column may be called n, or o0.
    names = ", ".join(f"o{i}" for i in range(len(parts)))
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(parts))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(parts))
    return (
        f"SELECT {COMMENT} n, {texts} FROM (SELECT ROW_NUMBER() OVER (ORDER BY {names}) AS n,"
        f" COUNT(*) OVER () AS total, {names} FROM (SELECT {raw} FROM {table} WHERE {where}) AS r) AS w"
        f" WHERE n % {step} = 0 OR n = total ORDER BY n"
    )


def nth_row(source_table: SourceTable, table: str, where: str, step: int) -> str:
    """A query for cursor and key of the `step`-th row, as text; it finds nothing if there are fewer rows."""
    return _one_row(source_table, table, where, "", f" OFFSET {step - 1}")


def last_row(source_table: SourceTable, table: str, where: str) -> str:
    """A query for cursor and key of the last row, as text; it finds nothing if there is no row."""
    return _one_row(source_table, table, where, " DESC", "")


def _one_row(source_table: SourceTable, table: str, where: str, direction: str, offset: str) -> str:
    parts = (source_table.cursor, *source_table.key)
    # By our aliases, which ORDER BY prefers to column names: a column of the user's may be called o0.
    order = ", ".join(f"o{i}{direction}" for i in range(len(parts)))
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(parts))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(parts))
    return (
        f"SELECT {COMMENT} {texts} FROM (SELECT {raw} FROM {table}{source_table.along} WHERE {where}"
        f" ORDER BY {order} LIMIT 1{offset}) AS w"
    )


def count(source_table: SourceTable, table: str, where: str) -> str:
    return f"SELECT {COMMENT} COUNT(*) FROM {table}{source_table.along} WHERE {where}"


def highest(source_table: SourceTable, table: str, where: str, rows: int = 1) -> str:
    """A query for the highest cursor values, as text; without MAX, so that their type and collation stay."""
    text = source_table.cursor.text.replace("{}", "o0")
    # By `w.o0`: PostgreSQL names the text o0 too, and would sort 9 before 10.
    return (
        f"SELECT {COMMENT} {text} FROM (SELECT {source_table.cursor.order} AS o0 FROM {table} WHERE {where}"
        f" ORDER BY o0 DESC LIMIT {rows}) AS w ORDER BY w.o0 DESC"
    )


def around(source_table: SourceTable, table: str, literal: str) -> str:
    """A query for three cursor values as text: the lowest, the last up to `literal`, the first past it."""
    cursor, text = source_table.cursor.order, source_table.cursor.text
    ends = (
        (f"MIN({cursor})", f"{cursor} IS NOT NULL"),
        (f"MAX({cursor})", f"{cursor} <= {literal}"),
        (f"MIN({cursor})", f"{cursor} > {literal}"),
    )
    found = ", ".join(
        f"(SELECT {text.replace('{}', 'o0')} FROM (SELECT {end} AS o0 FROM {table}"
        f" WHERE {_add_filter(source_table, where)}) AS w{i})"
        for i, (end, where) in enumerate(ends)
    )
    return f"SELECT {COMMENT} {found}"


def counts(source_table: SourceTable, table: str, waiting: str | None, young: str | None) -> str:
    """A query that counts cursors that are NULL, past the clock, and too young. It reads the two ends of an
    index, or scans the table once."""
    null = f"{source_table.cursor.order} IS NULL" if source_table.cursor.nullable else "1 = 0"
    which = (null, waiting or "1 = 0", young or "1 = 0")
    counted = ", ".join(f"COUNT(CASE WHEN {one} THEN 1 END)" for one in which)
    any_of = _add_filter(source_table, f"({' OR '.join(which)})")
    return f"SELECT {COMMENT} {counted} FROM {table} WHERE {any_of}"


def find_repeated(source_table: SourceTable, table: str, where: str | None) -> str:
    """A query for one key that several rows have, and how many."""
    keys = ", ".join(part.order for part in source_table.key)
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(source_table.key))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(source_table.key))
    scope = where or source_table.filter
    condition = f" WHERE {scope}" if scope else ""
    return (
        f"SELECT {COMMENT} {texts}, n FROM (SELECT {raw}, COUNT(*) AS n FROM {table}{condition}"
        f" GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 1) AS w"
    )


def null_keys(source_table: SourceTable, table: str, where: str | None) -> str:
    """A query that counts rows in which a part of the key is NULL."""
    lacking = " OR ".join(f"{part.order} IS NULL" for part in source_table.key)
    scope = where or source_table.filter
    condition = f"({lacking}) AND {scope}" if scope else lacking
    return f"SELECT {COMMENT} COUNT(*) FROM {table} WHERE {condition}"
