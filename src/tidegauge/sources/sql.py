"""The SQL that is the same on every engine: windows over `(cursor, key)`, and looking at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import TableName
from tidegauge.model.table import OrderedColumn, SourceTable
from tidegauge.sources.dialect import MARK

Literal = Callable[[Value], str]


def relation(source_table: SourceTable, name: Callable[[TableName], str]) -> str:
    """What FROM names for the table."""
    return source_table.relation or name(source_table.table)


def after(source_table: SourceTable, position: RowPosition | None, literal: Literal) -> str:
    """True for rows past the position; for every row with a cursor where there is none."""
    cursor = source_table.cursor.order
    if position is None:
        return _taken(source_table, f"{cursor} IS NOT NULL")
    value = literal(position.cursor)
    if not position.key:
        return _taken(source_table, f"{cursor} > {value}")
    key = _beyond(source_table.key, position.key, literal, ">", ">")
    past = f"{cursor} >= {value} AND ({cursor} > {value} OR ({cursor} = {value} AND {key}))"
    return _taken(source_table, past)


def _taken(source_table: SourceTable, condition: str) -> str:
    """The condition, for the rows that the flow takes at all."""
    return f"{condition} AND {source_table.filter}" if source_table.filter else condition


def upto(source_table: SourceTable, position: RowPosition, literal: Literal) -> str:
    """True for rows up to the position, the row at it included."""
    cursor, value = source_table.cursor.order, literal(position.cursor)
    if not position.key:
        return f"{cursor} <= {value}"
    key = _beyond(source_table.key, position.key, literal, "<", "<=")
    return f"{cursor} <= {value} AND ({cursor} < {value} OR ({cursor} = {value} AND {key}))"


def _beyond(
    key: Sequence[OrderedColumn], values: Sequence[Value], literal: Literal, inner: str, last: str
) -> str:
    """`k1 > b1 OR (k1 = b1 AND (k2 > b2 OR …))`: the order of tuples, in words that use an index."""
    column, value = key[0].order, literal(values[0])
    if len(key) == 1:
        return f"{column} {last} {value}"
    rest = _beyond(key[1:], values[1:], literal, inner, last)
    return f"({column} {inner} {value} OR ({column} = {value} AND {rest}))"


def between(
    source_table: SourceTable, lower: RowPosition | None, upper: RowPosition, literal: Literal
) -> str:
    return f"{after(source_table, lower, literal)} AND {upto(source_table, upper, literal)}"


def splits(source_table: SourceTable, batch: Batch, literal: Literal) -> list[str]:
    """The predicates of a batch's parallel readers; neighbours share their end, so nothing falls between."""
    only = f" AND {source_table.only}" if source_table.only else ""
    if batch.empty:
        return ["1 = 0"]
    if batch.nulls:
        return [_taken(source_table, f"{source_table.cursor.order} IS NULL") + only]
    (window,) = batch.windows
    points = [window.after, *batch.splits, window.upto]
    made = []
    for lower, upper in pairwise(points):
        assert lower is None or isinstance(lower, RowPosition)
        assert isinstance(upper, RowPosition)
        made.append(between(source_table, lower, upper, literal) + only)
    return made


def cuts(source_table: SourceTable, table: str, where: str, step: int) -> str:
    """Every `step`-th row of the window and the last: number, and the texts of cursor and key."""
    parts = (source_table.cursor, *source_table.key)
    # Names of ours and of the user's never meet in one SELECT that sorts: a column may be called n, or o0.
    names = ", ".join(f"o{i}" for i in range(len(parts)))
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(parts))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(parts))
    return (
        f"SELECT {MARK} n, {texts} FROM (SELECT ROW_NUMBER() OVER (ORDER BY {names}) AS n,"
        f" COUNT(*) OVER () AS total, {names} FROM (SELECT {raw} FROM {table} WHERE {where}) AS r) AS w"
        f" WHERE n % {step} = 0 OR n = total ORDER BY n"
    )


def nth_row(source_table: SourceTable, table: str, where: str, step: int) -> str:
    """The texts of cursor and key of the `step`-th row; no row where there are fewer."""
    return _one_row(source_table, table, where, "", f" OFFSET {step - 1}")


def last_row(source_table: SourceTable, table: str, where: str) -> str:
    """The texts of cursor and key of the last row; no row where there is none."""
    return _one_row(source_table, table, where, " DESC", "")


def _one_row(source_table: SourceTable, table: str, where: str, direction: str, offset: str) -> str:
    parts = (source_table.cursor, *source_table.key)
    # By our names, which ORDER BY takes before those of columns: the user's may be called o0.
    order = ", ".join(f"o{i}{direction}" for i in range(len(parts)))
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(parts))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(parts))
    return (
        f"SELECT {MARK} {texts} FROM (SELECT {raw} FROM {table}{source_table.along} WHERE {where}"
        f" ORDER BY {order} LIMIT 1{offset}) AS w"
    )


def count(source_table: SourceTable, table: str, where: str) -> str:
    return f"SELECT {MARK} COUNT(*) FROM {table}{source_table.along} WHERE {where}"


def highest(source_table: SourceTable, table: str, where: str, rows: int = 1) -> str:
    """The texts of the highest cursor values, found without MAX so that their type and collation stay."""
    text = source_table.cursor.text.replace("{}", "o0")
    # By `w.o0`: PostgreSQL names the text o0 too, and would sort 9 before 10.
    return (
        f"SELECT {MARK} {text} FROM (SELECT {source_table.cursor.order} AS o0 FROM {table} WHERE {where}"
        f" ORDER BY o0 DESC LIMIT {rows}) AS w ORDER BY w.o0 DESC"
    )


def around(source_table: SourceTable, table: str, literal: str) -> str:
    """The texts of three cursor values: the lowest, the last up to this one, and the first past it."""
    cursor, text = source_table.cursor.order, source_table.cursor.text
    ends = (
        (f"MIN({cursor})", f"{cursor} IS NOT NULL"),
        (f"MAX({cursor})", f"{cursor} <= {literal}"),
        (f"MIN({cursor})", f"{cursor} > {literal}"),
    )
    found = ", ".join(
        f"(SELECT {text.replace('{}', 'o0')} FROM (SELECT {end} AS o0 FROM {table}"
        f" WHERE {_taken(source_table, where)}) AS w{i})"
        for i, (end, where) in enumerate(ends)
    )
    return f"SELECT {MARK} {found}"


def counts(source_table: SourceTable, table: str, waiting: str | None, young: str | None) -> str:
    """How many cursors are NULL, how many lie past the clock, how many are too young: two ends of an
    index, or one scan."""
    null = f"{source_table.cursor.order} IS NULL" if source_table.cursor.nullable else "1 = 0"
    which = (null, waiting or "1 = 0", young or "1 = 0")
    counted = ", ".join(f"COUNT(CASE WHEN {one} THEN 1 END)" for one in which)
    any_of = _taken(source_table, f"({' OR '.join(which)})")
    return f"SELECT {MARK} {counted} FROM {table} WHERE {any_of}"


def find_repeated(source_table: SourceTable, table: str, where: str | None) -> str:
    """One key that more than one row has."""
    keys = ", ".join(part.order for part in source_table.key)
    raw = ", ".join(f"{part.order} AS o{i}" for i, part in enumerate(source_table.key))
    texts = ", ".join(part.text.replace("{}", f"o{i}") for i, part in enumerate(source_table.key))
    scope = where or source_table.filter
    condition = f" WHERE {scope}" if scope else ""
    return (
        f"SELECT {MARK} {texts}, n FROM (SELECT {raw}, COUNT(*) AS n FROM {table}{condition}"
        f" GROUP BY {keys} HAVING COUNT(*) > 1 LIMIT 1) AS w"
    )


def null_keys(source_table: SourceTable, table: str, where: str | None) -> str:
    """How many rows lack a part of the key."""
    lacking = " OR ".join(f"{part.order} IS NULL" for part in source_table.key)
    scope = where or source_table.filter
    condition = f"({lacking}) AND {scope}" if scope else lacking
    return f"SELECT {MARK} COUNT(*) FROM {table} WHERE {condition}"
