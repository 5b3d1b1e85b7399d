"""A source table: its columns and the type of each in the output, its cursor and its key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.unix_times import UnixUnit

COPY = "snapshot"
"""Stands in place of the cursor's kind for a table that has no cursor."""
EVERY_ROW = RowPosition(Value(ValueKind.TEXT, "1970-01-01 00:00:00"))
"""The position of all rows of a table without a cursor; its windows end at a later moment."""


@dataclass(frozen=True)
class SourceColumn:
    name: str
    native: str
    """The type as the database names it, with length and precision: `decimal(12,2) unsigned`."""
    arrives: str
    """The Spark SQL type in the output: `decimal(12,2)`, `timestamp_ntz`, `string`."""
    select: str
    """The database's SQL for the value that is transferred."""
    wire: str
    """The Spark SQL type that JDBC gives for `select`."""
    finish: str
    """Spark SQL that turns the transferred value, written `{}`, into the type `arrives`."""
    guard: str | None = None
    """SQL of the database that is true for a value that cannot be held exactly; None: all can."""
    inside: str | None = None
    """SQL of the database for the value as its own tables store it; None: only Spark's SQL can make it."""
    mask: str = ""
    """Digest of the column's mask; empty: not masked."""
    in_process: bool = False
    """Whether its SQL calls a function that only this process's connections have: JDBC cannot run it."""
    through: str = ""
    """See `Field.through`."""


@dataclass(frozen=True)
class Field:
    """A column, as it is in files and targets."""

    name: str
    type: str
    """The Spark SQL type: `decimal(12,2)`, `timestamp_ntz`, `string`."""
    source_type: str
    """The type as the source database names it, with length and precision."""
    through: str = ""
    """For a type that Spark does not have: the type that a target of the same engine declares; values are
    transferred as text or bytes, as `type` says. Empty: the target uses its own type for `type`."""


@dataclass(frozen=True)
class Layout:
    """The shape of transferred rows: all that an output needs to know about their source table."""

    table: TableName
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    """Key columns; empty if the table has none and needs none, and in data written by versions before 0.3."""
    cursor: str
    """The cursor's kind, `timestamp` or `value`; or `COPY`, if each batch is the whole table."""
    cursor_column: str | None
    """The cursor's column; None if the cursor is an expression."""

    @property
    def fingerprint(self) -> str:
        facts = [_list_facts(one.name, one.type, one.source_type, one.through) for one in self.fields]
        facts.append(list(self.key))
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class OrderedColumn:
    """A cursor or key column: the SQL that orders it, the SQL that gives its text, and its kind."""

    name: str
    order: str
    """The SQL for ORDER BY and comparisons, used everywhere, so that no two places can disagree."""
    text: str
    """SQL of the database that turns the ordering value, written `{}`, into text at full precision."""
    kind: ValueKind
    nullable: bool
    scale: int = 0
    """Digits after the second, for timestamps."""
    unix_unit: UnixUnit | None = None
    """The unit, for whole numbers that are moments."""


@dataclass(frozen=True)
class SourceTable:
    """Everything needed to read one table in order. Made once per plan, and again when the plan is run."""

    table: TableName
    options: TableOptions
    columns: tuple[SourceColumn, ...]
    cursor: OrderedColumn
    cursor_kind: str
    """`timestamp` or `value`."""
    key: tuple[OrderedColumn, ...]
    key_proven: bool
    """Whether a constraint of the database makes the key unique."""
    source_id: str
    notes: tuple[str, ...] = ()
    unindexed: str = ""
    """The cursor's column, if no index begins with it; else empty."""
    only: str = ""
    """SQL condition for the rows of a window that are wanted; empty: all rows."""
    filter: str = ""
    """SQL condition for the rows that the flow reads at all (`where:`); empty: all rows."""
    relation: str = ""
    """What FROM names instead of the table, with the same column names; empty: the table."""
    along: str = ""
    """SQL after the table's name that makes the database use an index in the order of cursor and key, which
    finds batch ends quickly; empty if there is none, or if the database uses it by itself."""

    @property
    def layout(self) -> Layout:
        names = {column.name for column in self.columns}
        return Layout(
            table=self.table,
            fields=tuple(field_of(column) for column in self.columns),
            key=tuple(part.name for part in self.key),
            cursor=COPY if self.options.snapshot else self.cursor_kind,
            cursor_column=self.cursor.name if self.cursor.name in names else None,
        )

    @property
    def fingerprint(self) -> str:
        """Digest of the columns' names, order and types, and of what orders the table."""
        facts = [_list_facts(one.name, one.native, one.arrives, one.through) for one in self.columns]
        facts.append([self.cursor.order, *(part.order for part in self.key)])
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Cut:
    """A row position that ends a part of the window, and how many rows the part has."""

    position: RowPosition
    rows: int


@dataclass(frozen=True)
class Survey:
    """What was found in a table between the watermark and the safe upper bound."""

    upto: RowPosition | None
    """The safe upper bound; None when nothing is safe yet."""
    cuts: tuple[Cut, ...] = ()
    """Ends of parts of the requested size, in order; the last part ends at the last row found.

    It does not end at `upto`: rows that commit later between the two still have to be read. Empty if the
    window has no rows.
    """
    rows_null: int = 0
    rows_waiting: int = 0
    """Number of rows dated past the source's own clock."""
    pending: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionVisibility:
    """What a database shows this login about itself."""

    clock: datetime
    """The database's time, in UTC without a zone."""
    blind: str | None
    """Why open transactions cannot be seen; None if they can."""
    replica: bool = False
    """Whether it only follows another server, so that no privilege would show them."""


def field_of(column: SourceColumn) -> Field:
    return Field(column.name, column.arrives, column.native, column.through)


def _list_facts(*words: str) -> list[str]:
    """List a column's facts; omits an empty last one, to keep fingerprints of earlier versions valid."""
    return [*words[:-1], *filter(None, words[-1:])]
