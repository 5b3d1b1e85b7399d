"""What the reader asks of a database engine, and the values it answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

from tidegauge.errors import ColumnMissing, SourceError
from tidegauge.model.position import Value, ValueKind
from tidegauge.model.spec import TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.sources.notation import Notation
from tidegauge.sources.types import Native, Rules

MARK = "/* tidegauge */"
"""In every statement of ours, so that we do not wait for ourselves."""
READER = "tidegauge-reader"
"""The application name of every session that only reads."""


@dataclass(frozen=True)
class Unique:
    """A constraint: no two rows have the same values in all of these columns."""

    columns: tuple[str, ...]
    primary: bool


@dataclass(frozen=True)
class Catalogue:
    """What a database says of one table."""

    columns: tuple[Native, ...]
    uniques: tuple[Unique, ...]
    """Only those that hold for every row: whole-table, and none of the columns can be NULL."""
    indexed: frozenset[str]
    """Columns with which an index begins."""
    identity: str
    """Which server, and which table there."""
    key_hint: tuple[str, ...] = ()
    """The primary key, also where it proves nothing (SQLite lets it be NULL)."""
    orders: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Columns in whose order an index has the rows → SQL that makes the database use it."""
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> Native | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class OpenWork:
    """A transaction, or a statement, that has not ended."""

    started: datetime
    """In UTC without a zone; never later than the server says."""
    who: str
    """Connection, user, state and the head of the statement."""
    prepared: bool = False
    """Waits for its second phase: `started` is when that began, and its own start is not to be known."""
    connection: str = ""
    """Its number; empty for a transaction that no connection holds any more."""
    transaction: str = ""
    """What the server says of its beginning; empty while the server knows of no transaction."""
    number: str = ""
    """The transaction's own, once it has one."""
    statement: str = ""
    """What distinguishes the running statement from the connection's next; empty while none runs."""


@dataclass(frozen=True)
class Moment:
    """The source's clock, and what was open when it was looked at, just afterwards."""

    clock: datetime
    """In UTC without a zone."""
    open: tuple[OpenWork, ...] = ()
    blind: str | None = None
    """Why other sessions cannot be seen; None where they can."""
    serial: bool = False
    """One writer at a time: what is committed is never followed by something earlier."""
    lowest_offset: timedelta = timedelta(0)
    """Of the server's own zone from UTC, the lowest in a year; 0 where it is never below."""
    highest_offset: timedelta = timedelta(0)
    zone: str = "UTC"
    sure: bool = True
    """What is open stamps no row earlier than its `started`. Where it may (MySQL: a statement has its time
    before it waits for a lock, its transaction begins after), its end has to be waited for."""


class Dialect(Protocol):
    """One connection to one database. Everything it raises is an error of ours."""

    rules: Rules
    folds_case: bool
    """Column names differ by more than case."""

    def held(self) -> AbstractContextManager[None]:
        """Around questions that belong together: what has to be opened for them is opened once."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one SELECT of ours."""

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """The rows of one SELECT, a block at a time, as the server hands them out; no block is empty.

        Nothing else is asked of the session meanwhile; a caller that stops half-way closes it.
        """

    def quote(self, name: str) -> str:
        """An identifier in the database's own quotes. Refuses what no quotes can hold."""

    def name(self, table: TableName) -> str:
        """The table in FROM, quoted."""

    def literal(self, value: Value) -> str:
        """SQL that means exactly this value, wherever a column of its kind is compared with it."""

    def tables(self) -> tuple[TableName, ...]:
        """Every table that this login can see."""

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        """What is named like a table and is none, each with what it is: a view, a foreign table."""

    def with_column(self, name: str) -> frozenset[TableName]:
        """See `Source.with_column`."""

    def with_key(self) -> frozenset[TableName]:
        """See `Source.with_key`."""

    def row_hash(self, columns: Sequence[SourceColumn]) -> str | None:
        """SQL of a number of 60 bits that two rows share if they have the same values, and else by a rare
        chance; None where there is none."""

    def identity(self) -> str:
        """Which server this is; the same however it is reached, where the server says so."""

    def catalogue(self, table: TableName) -> Catalogue:
        """Raises TableMissing."""

    def expression(self, table: TableName, sql: str) -> Native:
        """The type of an expression over the table, as the database sees it.

        Raises ColumnMissing or CursorUnsuitable.
        """

    def ordered(self, table: TableName, native: Native, sql: str) -> OrderedColumn | None:
        """How a column or expression is ordered; None where it cannot be, safely (floats)."""

    def cursor_kind(self, table: TableName, native: Native, ordered: OrderedColumn) -> str | None:
        """`timestamp`, `value`, or None for what is no cursor."""

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:
        """Look at the rows past the watermark for values that do not fit the cursor's order.

        Gives the notation of timestamps that are kept as text, None where there are none to look at.
        Raises CursorUnsuitable or KeyUnsuitable for a mixture.
        """

    def moment(self, *, fresh: bool) -> Moment:
        """The clock and what is open; unless `fresh`, perhaps as they were a second ago.

        For timestamps an older moment gives a lower bound, which is as safe. For values the clock must have
        been read after the value.
        """

    def close(self) -> None: ...


def kind_of_cursor(ordered: OrderedColumn, *, grows_as_text: bool) -> str | None:
    """What a cursor of a typed column is: see `Dialect.cursor_kind`."""
    if ordered.kind in (ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.TIMESTAMPTZ):
        return "timestamp"
    return "value" if ordered.kind in (ValueKind.INT, ValueKind.DECIMAL) or grows_as_text else None


def suggest_names(name: str, known: tuple[str, ...]) -> str:
    """A hint with the names that look most like the one that was meant."""
    close = get_close_matches(name.lower(), [other.lower() for other in known], n=3, cutoff=0.5)
    named = [other for other in known if other.lower() in close]
    if named:
        return "did you mean " + " or ".join(named) + "?"
    return "the columns are: " + ", ".join(known[:20]) + (", …" if len(known) > 20 else "")


def column_missing(table: TableName, role: str, name: str, known: tuple[str, ...]) -> ColumnMissing:
    return ColumnMissing(
        f"{table}: there is no column '{name}', which is to be the {role}", hint=suggest_names(name, known)
    )


def refuse_nul(name: str) -> str:
    if "\0" in name:
        raise SourceError(
            f"the name {name!r} holds a NUL character, which no database allows", hint="mend the name"
        )
    return name
