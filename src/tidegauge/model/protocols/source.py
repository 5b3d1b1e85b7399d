"""What a source promises: its catalogue, safe bounds, the rows of a batch, and a Delta table's changes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.batch_data import BatchRows
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, Value
from tidegauge.model.spec import TableName, TableOptions
from tidegauge.model.table import Cut, SessionVisibility, SourceTable, Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Source(Protocol):
    """A database's control side: which tables exist, and how far it is safe to read. No Spark."""

    def tables(self) -> tuple[TableName, ...]:
        """Return every base table that this login can see, in name order, without views and system tables."""

    def left_out(self) -> tuple[tuple[TableName, str], ...]:
        """Return what this login can see that is named like a table but is not one, each with its kind (view,
        foreign table), without system objects."""

    def with_column(self, name: str) -> frozenset[TableName]:
        """Return the tables and views that have a column of this name; ignores case if the database does."""

    def with_key(self) -> frozenset[TableName]:
        """Return the tables that have a primary key."""

    def identity(self) -> str:
        """Return what identifies this database: the `source_id` of its tables begins with it and a `#`."""

    def describe(self, table: TableName, options: TableOptions) -> SourceTable:
        """Return columns, cursor and key of one table.

        Raises TableMissing, ColumnMissing, CursorUnsuitable, KeyUnsuitable or TypeNotHeld, each naming
        the table, the column and how to fix it.
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
        """Survey a table without a cursor: `upto` is the source's clock, and the cuts divide all rows, the
        last at `upto`; without a `step` there are no cuts. Raises KeyUnsuitable as `survey` does."""

    def cuts(
        self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition, step: int
    ) -> tuple[Cut, ...]:
        """Cut a window that is known to be safe, as `survey` does; empty when it has no rows."""

    def count(self, source_table: SourceTable, after: RowPosition | None, upto: RowPosition) -> int:
        """Return how many rows lie in `(after, upto]` now."""

    def latest(self, source_table: SourceTable) -> Value | None:
        """Return the highest cursor that is not in the future, as the column writes it; None if not known.

        For timestamps that is the source's clock, for other values the highest in the table.
        """

    def find_settled(self, source_table: SourceTable) -> Value | None:
        """Return the cursor up to which the table is complete now, as the column writes it: all that is
        committed later lies past it. The bound of `survey`, without reading the rows; None if there is none.
        """

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of one SELECT in the database's own SQL. Any thread may call it, one at a time."""

    def outlook(self) -> SessionVisibility:
        """Return the database's clock, and whether this login sees other sessions' transactions."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A database's data side: the rows of its batches."""

    def batch_data(self, source_table: SourceTable, batch: Batch) -> BatchRows:
        """Return exactly the rows of the batch's window, with the columns of the source table.

        Lazy: no row is read until an output takes them. A value that cannot be held exactly fails the write.
        """


class ChangedInput(Protocol):
    """One input of a Delta flow in one batch, on one session. Frames are lazy and have the columns that the
    table has at the window's end, without those of the change feed, unless the input is `raw`."""

    @property
    def has_changes(self) -> bool:
        """Whether the input changed in this batch; False for a pinned input."""

    @property
    def afresh(self) -> bool:
        """Whether it is read whole (`ReadWay.SNAPSHOT`): earlier rows are not known, and `gone` is empty."""

    @property
    def grows(self) -> bool:
        """Whether rows were only added (`ReadWay.FILES`): `gone` is empty."""

    @property
    def unique(self) -> tuple[str, ...]:
        """Columns that every commit of the window keeps unique: if no two rows had the same values at its
        beginning, no two have at its end. Empty: not known."""

    @property
    def held(self) -> bool:
        """Whether the rows of `came` and `gone` are in memory already, so that caching them gains nothing."""

    @property
    def version(self) -> int:
        """The table's version at the window's end."""

    @property
    def moment(self) -> datetime:
        """When that version was committed, according to the table's log, with a zone."""

    def now(self) -> DataFrame:
        """Return the whole table at the window's end."""

    def came(self) -> DataFrame:
        """Return the rows that the window added, net; a row added twice comes twice."""

    def gone(self) -> DataFrame:
        """Return the rows that the window removed, net, likewise."""

    def sides(self, flag: str) -> DataFrame:
        """Return both in one frame; the column `flag` is true for rows that came. Cheaper, because a row that
        was rewritten unchanged may be on both sides."""

    def events(self) -> DataFrame:
        """Return each version's own net effect: rows with `_change_type` (`insert`, `update_preimage`,
        `update_postimage` or `delete`), `_commit_version` and `_commit_timestamp`."""
