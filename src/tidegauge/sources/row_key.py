"""A key for tables that have none: a hash of the row, and the number of the copy among rows with that hash.

Different rows with the same hash get different numbers, in any order: they may swap numbers later, but no row
is lost or doubled by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.errors import KeyUnsuitable
from tidegauge.model.position import ValueKind
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import OrderedColumn, SourceColumn
from tidegauge.sources.dialect import Dialect

ROW, COPY = "_tidegauge_row", "_tidegauge_copy"


def needs_row_key(options: TableOptions) -> bool:
    """Whether rows of a table without a key have to be told apart."""
    return options.snapshot and not options.mode.facts.replaces_all


def add_row_key(
    dialect: Dialect,
    table: TableName,
    columns: tuple[SourceColumn, ...],
    every: Sequence[str],
    wanted: str,
) -> tuple[tuple[SourceColumn, ...], tuple[OrderedColumn, ...], str]:
    """The columns with two more, the key of these two, and the subquery that FROM has to name for them.

    `every`: all columns of the table. `wanted`: the condition that rows have to fulfil; empty for all."""
    row = dialect.row_hash(columns)
    if row is None:
        raise KeyUnsuitable(
            f"{table}: the table has no key, and its database has no hash to tell its rows apart by",
            hint="name the columns that identify a row with `key: [a, b]`, or use `mode: overwrite`",
        )
    hashed, copy = dialect.quote(ROW), dialect.quote(COPY)
    names = ", ".join(map(dialect.quote, every))
    where = f" WHERE {wanted}" if wanted else ""
    inner = f"SELECT {names}, {row} AS {hashed} FROM {dialect.name(table)}{where}"
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {hashed} ORDER BY {hashed}) AS {copy}"
    relation = f"(SELECT {names}, {hashed}, {numbered} FROM ({inner}) AS i) AS t"
    more = tuple(
        SourceColumn(name, "bigint", "bigint", quoted, "bigint", "{}", inside=quoted)
        for name, quoted in ((ROW, hashed), (COPY, copy))
    )
    key = tuple(
        OrderedColumn(column.name, column.select, "{}", ValueKind.INT, nullable=False) for column in more
    )
    return (*columns, *more), key, relation
