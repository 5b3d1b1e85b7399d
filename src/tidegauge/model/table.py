"""A source table as the reader sees it: columns with the way each arrives, the cursor and the key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.epoch_numbers import Epoch
from tidegauge.model.position import RowPosition, Value, ValueKind
from tidegauge.model.spec import TableName, TableOptions

COPY = "snapshot"
"""In place of the kind of a cursor, of a table that has none."""
EVERY_ROW = RowPosition(Value(ValueKind.TEXT, "1970-01-01 00:00:00"))
"""Where all rows of a table without a cursor lie; it was read up to a moment past that."""


@dataclass(frozen=True)
class SourceColumn:
    name: str
    native: str
    """The type as the database names it, with length and precision: `decimal(12,2) unsigned`."""
    arrives: str
    """The Spark SQL type in the output: `decimal(12,2)`, `timestamp_ntz`, `string`."""
    select: str
    """The database's SQL for the value on the wire."""
    wire: str
    """The Spark SQL type of `select` as JDBC hands it over."""
    finish: str
    """Spark SQL from the wire value, written `{}`, to what arrives."""
    guard: str | None = None
    """The database's SQL that is true for a value which cannot be held exactly."""
    inside: str | None = None
    """The database's SQL for the value as its own columns take it; None: only Spark's SQL makes it."""
    mask: str = ""
    """A digest of the way it is masked; empty: it is not."""
    in_process: bool = False
    """Its SQL calls a function that only connections of this process have: no JDBC driver can run it."""
    through: str = ""
    """See `Field.through`."""


@dataclass(frozen=True)
class Field:
    """A column as files hold it and targets declare it."""

    name: str
    type: str
    """In Spark's SQL: `decimal(12,2)`, `timestamp_ntz`, `string`."""
    source_type: str
    """As the database names it, with length and precision."""
    through: str = ""
    """The type that a target of the same engine declares, where Spark has none for it: its text or its bytes
    travel, as `type` says. Empty: the target's own type for `type`."""


@dataclass(frozen=True)
class Layout:
    """What rows look like on their way: all that an output has to know of the table they come from."""

    table: TableName
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    """Empty where the table has none and nobody needs it, and in what versions before 0.3 wrote."""
    cursor: str
    """Its kind: `timestamp` or `value`; or `COPY`, where each batch is the whole table."""
    cursor_column: str | None
    """None where the cursor is an expression."""

    @property
    def fingerprint(self) -> str:
        facts = [_facts(one.name, one.type, one.source_type, one.through) for one in self.fields]
        facts.append(list(self.key))
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class OrderedColumn:
    """A cursor or key column: the SQL that orders it, the SQL that gives its text, and its kind."""

    name: str
    order: str
    """Ordered by and compared with, everywhere the same, so that no two places can disagree."""
    text: str
    """The database's SQL from the ordering value, written `{}`, to its text at full precision."""
    kind: ValueKind
    nullable: bool
    scale: int = 0
    """Digits after the second, for timestamps."""
    epoch: Epoch | None = None
    """Of whole numbers that are moments."""


@dataclass(frozen=True)
class SourceTable:
    """Everything needed to page through one table. Made once per plan, and again when the plan is run."""

    table: TableName
    options: TableOptions
    columns: tuple[SourceColumn, ...]
    cursor: OrderedColumn
    cursor_kind: str
    """`timestamp` or `value`."""
    key: tuple[OrderedColumn, ...]
    key_proven: bool
    """A constraint of the database says the key is unique."""
    source_id: str
    notes: tuple[str, ...] = ()
    unindexed: str = ""
    """The cursor's column, if no index begins with it."""
    only: str = ""
    """SQL that is true for the rows that are wanted, of those in a window; empty: all of them."""
    filter: str = ""
    """SQL that is true for the rows that the flow takes at all (`where:`); empty: all of them."""
    relation: str = ""
    """What FROM names, where that is more than the table; its columns are called as the table's."""
    along: str = ""
    """SQL behind the table's name that makes the database go along an index in the order of cursor and key,
    which finds batch ends quickly; empty where there is none, or where the database finds it by itself."""

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
        """Changes with the columns' names, order or types, and with what orders the table."""
        facts = [_facts(one.name, one.native, one.arrives, one.through) for one in self.columns]
        facts.append([self.cursor.order, *(part.order for part in self.key)])
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Cut:
    """A row position that ends a part of the window, and how many rows the part has."""

    position: RowPosition
    rows: int


@dataclass(frozen=True)
class Survey:
    """What a look at the table found between the watermark and what is safe to read."""

    upto: RowPosition | None
    """The safe upper bound; None when nothing is safe yet."""
    cuts: tuple[Cut, ...] = ()
    """Ends of parts of the asked-for size, in order; the last part ends at the last row found.

    Not at `upto`: what commits later with a cursor between the two is still to be read. Empty when the window
    has no rows.
    """
    rows_null: int = 0
    rows_waiting: int = 0
    """Rows dated past the source's own clock."""
    pending: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outlook:
    """What a database lets us see of itself."""

    clock: datetime
    """Its own, in UTC without a zone."""
    blind: str | None
    """Why open transactions cannot be seen; None where they can."""


def field_of(column: SourceColumn) -> Field:
    return Field(column.name, column.arrives, column.native, column.through)


def _facts(*words: str) -> list[str]:
    """Of a column; an empty word at the end is none, so that what earlier versions kept stays true."""
    return [*words[:-1], *filter(None, words[-1:])]
