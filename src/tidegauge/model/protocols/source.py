"""What a source promises: its catalogue and safe bounds, the rows of a batch, a Delta table's changes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import Cut, Outlook, SourceTable, Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Source(Protocol):
    """A database's control side: what is there, and how far it is safe to read. No Spark."""

    def tables(self) -> tuple[TableName, ...]:
        """Every base table this login can see, in name order; views and the engine's own tables left out."""

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        """What this login can see by a name like a table's, and which is none: each with what it is (view,
        foreign table). Not the engine's own."""

    def with_column(self, name: str) -> frozenset[TableName]:
        """Which tables and views have a column of this name, in whatever case where that does not count."""

    def with_key(self) -> frozenset[TableName]:
        """Which tables have a primary key."""

    def identity(self) -> str:
        """Which database this is: the `source_id` of its tables begins with it, and a `#`."""

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:
        """Columns, cursor and key of one table.

        Raises TableMissing, ColumnMissing, CursorUnsuitable, KeyUnsuitable or TypeNotHeld, each naming
        the table, the column and the way out.
        """

    def survey(
        self, source_table: SourceTable, after: RowPosition | None, step: int, pending: str | None
    ) -> Survey:
        """Find the safe upper bound, then cut `(after, bound]` every `step` rows, in one pass.

        The bound comes from the source's clock and its open transactions, never from MAX of a timestamp or
        from this machine's clock. Raises CursorUnsuitable for NULL cursors under `fail`, KeyUnsuitable for
        repeated or NULL keys.
        """

    def survey_whole(self, source_table: SourceTable, step: int | None) -> Survey:
        """Of a table without a cursor: `upto` is the source's clock, and the cuts are of all its rows, the
        last at `upto`; none without a `step`. Raises KeyUnsuitable likewise."""

    def cuts(
        self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition, step: int
    ) -> tuple[Cut, ...]:
        """Cut a window that is known to be safe, as `survey` does; empty when it has no rows."""

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:
        """How many rows lie in `(after, upto]` now."""

    def latest(self, source_table: SourceTable) -> Value | None:
        """The highest cursor that lies in no future, as the column writes it; None where that is not known.

        For timestamps that is the source's clock, for values the highest that is there.
        """

    def find_settled(self, source_table: SourceTable) -> Value | None:
        """The cursor up to which the table is complete now, as the column writes it: whatever is committed
        later lies past it. As `survey` finds it, without a look at the rows; None where nothing is yet.
        """

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT in the database's own SQL. Any thread may ask, one after the other."""

    def outlook(self) -> Outlook:
        """Its clock, and whether this login sees other sessions' transactions."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A database's data side."""

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        """The rows of a batch, exactly those of its window, with the columns of the source table.

        Lazy: no row is read until an output takes them. A value that cannot be held exactly fails the write.
        """


class ChangedInput(Protocol):
    """One input of a Delta flow in one batch, on one session. Frames are lazy, and have the columns that the
    table has at the window's end: none of the feed's, unless the input is `raw`."""

    @property
    def moves(self) -> bool:
        """Whether anything of it changed in this batch; False for a pinned one."""

    @property
    def afresh(self) -> bool:
        """Read as a whole (`ReadWay.SNAPSHOT`): what was there before is not known, and `gone` is empty."""

    @property
    def grows(self) -> bool:
        """Whole new rows are all that came (`ReadWay.FILES`): `gone` is empty."""

    @property
    def unique(self) -> tuple[str, ...]:
        """Columns of which no two rows have the same values, if none had at the window's beginning: so say
        all commits of the window. Empty: that is not known."""

    @property
    def held(self) -> bool:
        """Whether what came and what is gone is in memory, and need not be kept to be read again."""

    @property
    def version(self) -> int:
        """Of the table at the window's end."""

    @property
    def moment(self) -> datetime:
        """When that version was committed, as its log says; with a zone."""

    def now(self) -> DataFrame:
        """The whole table at the window's end."""

    def came(self) -> DataFrame:
        """Rows that are there at the end and were not before, each as often as that is so: the net effect."""

    def gone(self) -> DataFrame:
        """Rows that were there before and are not at the end, likewise."""

    def sides(self, flag: str) -> DataFrame:
        """Both in one frame; a column of this name is true for what came. It is cheaper to read, because a
        row that was written again unchanged may be on both sides."""

    def events(self) -> DataFrame:
        """Each version's own net effect: the rows with `_change_type` (`insert`, `update_preimage`,
        `update_postimage` or `delete`), `_commit_version` and `_commit_timestamp`."""
