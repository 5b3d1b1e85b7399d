"""What the readers ask of a database engine, and the values that it answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

from tidegauge.errors import ColumnMissing, SourceError
from tidegauge.model.position import MOMENTS, Value, ValueKind
from tidegauge.model.spec import TableName
from tidegauge.model.table import OrderedColumn, SourceColumn, SourceTable
from tidegauge.sources.notation import Notation
from tidegauge.sources.types import CatalogueColumn, TypeRules

COMMENT = "/* tidegauge */"
"""A comment in each of our own statements, so that we do not wait for our own sessions."""
READER = "tidegauge-reader"
"""The application name of every session that only reads."""


@dataclass(frozen=True)
class UniqueKey:
    """A constraint: no two rows have the same values in all of these columns."""

    columns: tuple[str, ...]
    primary: bool


@dataclass(frozen=True)
class TableDescription:
    """What a database says about one table."""

    columns: tuple[CatalogueColumn, ...]
    uniques: tuple[UniqueKey, ...]
    """Only constraints that hold for every row (no partial index), on columns that cannot be NULL."""
    indexed: frozenset[str]
    """Columns that are the first of an index."""
    identity: str
    """Identifies the server, and the table on it."""
    key_hint: tuple[str, ...] = ()
    """Columns of the primary key, also if it proves nothing (SQLite lets it be NULL)."""
    orders: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Columns by which an index sorts the rows → SQL that makes the database use that index."""
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> CatalogueColumn | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class OpenWork:
    """A transaction, or a statement, that has not ended."""

    started: datetime
    """When it began, in UTC without a zone; never later than the server says."""
    who: str
    """Connection, user, state and the head of the statement."""
    prepared: bool = False
    """A prepared transaction: `started` is when it was prepared, and when it began is not known."""
    connection: str = ""
    """The connection's number; empty for a transaction that no connection holds any more."""
    transaction: str = ""
    """The start of the transaction as the server writes it; empty while the server knows of none."""
    number: str = ""
    """The transaction's number, once it has one."""
    statement: str = ""
    """Distinguishes the running statement from the connection's next one; empty while none runs."""


@dataclass(frozen=True)
class ClockReading:
    """The source's clock, and the work that was open just after the clock was read."""

    clock: datetime
    """The source's time, in UTC without a zone; of a replica, the primary's time of what it last applied."""
    open: tuple[OpenWork, ...] = ()
    blind: str | None = None
    """Why other sessions cannot be seen; None if they can."""
    lowest_offset: timedelta = timedelta(0)
    """The lowest offset of the server's own zone from UTC within a year; 0 if it is never below UTC."""
    highest_offset: timedelta = timedelta(0)
    zone: str = "UTC"
    sure: bool = True
    """Open work stamps no row earlier than its `started`. If it may (MySQL: a statement takes its time before
    it waits for a lock, and its transaction begins after), the bound has to wait until the work has ended."""
    replica: bool = False
    """Whether the server only follows another one, where the rows are written."""
    behind: timedelta = timedelta(0)
    """How far `clock` is before the replica's own clock."""

    @property
    def now(self) -> datetime:
        """The server's own time."""
        return self.clock + self.behind


class Dialect(Protocol):
    """One connection to one database. Everything it raises is a `TidegaugeError`."""

    rules: TypeRules
    folds_case: bool
    """Two columns of a table never differ by case alone."""

    def held(self) -> AbstractContextManager[None]:
        """A context for queries that belong together: what has to be opened for them is opened once."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one SELECT and give all its rows."""

    def stream(self, sql: str, size: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """The rows of one SELECT in blocks of up to `size`, as the server sends them; no block is empty.

        Until the last block the session runs no other query; a caller that stops half-way closes the dialect.
        """

    def quote(self, name: str) -> str:
        """An identifier in the database's own quotes. Raises SourceError if no quotes can hold it."""

    def name(self, table: TableName) -> str:
        """The table in FROM, quoted."""

    def literal(self, value: Value) -> str:
        """SQL that means exactly this value, wherever a column of its kind is compared with it."""

    def tables(self) -> tuple[TableName, ...]:
        """Every table that this login can see."""

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        """Relations that are not tables, each with what it is: a view, a foreign table."""

    def with_column(self, name: str) -> frozenset[TableName]:
        """See `Source.with_column`."""

    def with_key(self) -> frozenset[TableName]:
        """See `Source.with_key`."""

    def row_hash(self, columns: Sequence[SourceColumn]) -> str | None:
        """SQL for a hash of 60 bits of a row's values: equal rows have the same, and other rows hardly ever;
        None if the engine has no hash."""

    def identity(self) -> str:
        """Identifies the server; the same whichever address is used, if the server has an identifier."""

    def catalogue(self, table: TableName) -> TableDescription:
        """What the database says about a table. Raises TableMissing."""

    def expression(self, table: TableName, sql: str) -> CatalogueColumn:
        """The type of an expression over the table, as the database sees it.

        Raises ColumnMissing or CursorUnsuitable.
        """

    def ordered(self, table: TableName, native: CatalogueColumn, sql: str) -> OrderedColumn | None:
        """How a column or expression is ordered; None if it cannot be ordered safely (floats)."""

    def cursor_kind(self, table: TableName, native: CatalogueColumn, ordered: OrderedColumn) -> str | None:
        """`timestamp`, `value`, or None if it cannot be a cursor."""

    def notation(self, source_table: SourceTable, where: str) -> Notation | None:
        """Check the rows that fulfil `where` for values that have no order with the others.

        Gives the notation of a cursor of timestamps that are kept as text; None if no row shows one, or for
        any other cursor. Raises CursorUnsuitable or KeyUnsuitable for a mixture.
        """

    def read_clock(self, *, fresh: bool) -> ClockReading:
        """The clock and the open work; unless `fresh`, perhaps as they were a second ago.

        For timestamps an older moment gives a lower bound, which is as safe. For values the clock has to be
        read after the value.
        """

    def close(self) -> None: ...


def kind_of_cursor(ordered: OrderedColumn, *, grows_as_text: bool) -> str | None:
    """The kind of cursor that a typed column can be: see `Dialect.cursor_kind`."""
    if ordered.kind in MOMENTS:
        return "timestamp"
    return "value" if ordered.kind in (ValueKind.INT, ValueKind.DECIMAL) or grows_as_text else None


def suggest_names(name: str, known: tuple[str, ...]) -> str:
    """A hint with the known names that look most like `name`."""
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
