"""What an output promises: `stage`, then `commit`, and `receipt` to ask whether a batch is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.batch_data import BatchData, RowsQuery
from tidegauge.model.engines import Engine
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class TargetTable(Protocol):
    """A target that is a table of a database: it has column types of its own, and its rows can be read."""

    @property
    def loose_keys(self) -> bool:
        """Whether the target may treat keys as equal that differ in case, accents or trailing blanks."""

    def named(self, name: str) -> str:
        """Return a column's name for comparisons: in lower case, if the target ignores case."""

    def written(self) -> frozenset[str]:
        """Return the columns of the target that this flow is known to have written."""

    def fit(self, held: Field, field: Field, *, key: bool) -> str:
        """Return how an existing column fits the values: a word of `outputs.warehouse.fit.FitVerdict`."""

    def count(self) -> int:
        """Return the number of all rows, including those marked as deleted and old versions."""

    def rows(self, layout: Layout, *, only: str = "") -> Iterator[pa.RecordBatch]:
        """Yield the target's rows, with those columns of the layout that it has, typed by `schema_of`.

        Rows that are marked as deleted, and versions that are not current, are left out. `only`: a condition
        in the target's SQL on the rows.
        """

    def find_aside(self, checks: Collection[str]) -> Iterator[str]:
        """Yield the quarantined rows that failed one of these checks, as JSON."""


class SqlTable(Protocol):
    """A target that can run SELECTs in its own SQL."""

    @property
    def engine(self) -> Engine: ...

    def value(self, field: Field) -> str:
        """Return SQL for a column's value in the form in which it travels."""

    def shown(self) -> tuple[str, str]:
        """Return the table for FROM, and the condition for the rows that `TargetTable.rows` shows; an empty
        condition: all rows."""

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of one SELECT, which reads a consistent snapshot of the table."""


class InsideDatabase(Protocol):
    """A target that its database can fill from another table of the same database, by `BatchRows.inside`."""

    def check_readable(self, rows: RowsQuery) -> None:
        """Raise OutputError if the output's login may not read the table, with the GRANT that it needs."""


@dataclass(frozen=True)
class Capabilities:
    """What an output can do beyond the promises of `Output`."""

    takes_tasks: bool = False
    """Whether tasks write splits in parallel, if there are many rows."""
    table: TargetTable | None = None
    """The target as a table of a database; None if it is not one."""
    sql: SqlTable | None = None
    """The same target, if it also answers SQL."""
    inside: InsideDatabase | None = None
    """The same target, if it also accepts rows of its own database as a query."""


class Output(Protocol):
    """One table's place in a lake or a warehouse. A batch is there if, and only if, its tag is there."""

    @property
    def place(self) -> str:
        """The place's name, for messages."""

    @property
    def capabilities(self) -> Capabilities: ...

    def prepare(self) -> None:
        """Prove that the place can be reached and keeps the promises below; a second call costs nothing.

        Raises OutputUnreachable or OutputUnsafe.
        """

    def is_empty(self) -> bool:
        """Whether it has no batch of any epoch and no foreign rows; ignores leftovers of dead attempts."""

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        """Whether batches of this epoch may be committed; epoch 0 is open from the start.

        `kept`: raise OutputDisagrees for a place that has the tags but not what was committed with them: its
        table was dropped, emptied, or filled in another mode.
        """

    def open_epoch(
        self,
        pipeline: str,
        flow: str,
        epoch: int,
        continues: tuple[int, int] | None,
        reason: str,
        *,
        empty: bool = False,
    ) -> None:
        """Open the table's next epoch. Repeating the same call changes nothing.

        `empty`: the first batch of the epoch removes all earlier rows (see `shows_earlier_rows`). Otherwise a
        warehouse keeps its rows, and a lake shows just what the epoch continues.

        Once the epoch is open, nothing that an earlier epoch commits is ever seen: a lake's readers follow
        `continues` (epoch, last batch) and no further, a warehouse refuses the commit. Raises OutputDisagrees
        if the epoch was opened with other arguments, or if what it continues is not there.
        """

    def shows_earlier_rows(self, epoch: int) -> bool:
        """Whether readers still see rows of earlier epochs that the first batch of this epoch will remove."""

    def lacks(self, continues: tuple[int, int]) -> str | None:
        """Describe what is missing for a new epoch that continues this (epoch, last batch); None: nothing."""

    def receipt(self, tag: Tag, *, like: Batch | None = None) -> Receipt | None:
        """Return the receipt of the batch with this tag; None: not committed. OutputUnreachable: not known.

        Raises OutputDisagrees if a later epoch is open, whether the batch is there or not: a receipt
        promises that at some moment during this call the batch was part of what readers see. `like`: raises
        OutputDisagrees too where the batch has other windows than this one, or is of another kind.
        """

    def layout(self) -> tuple[Field, ...] | None:
        """Return the columns that the place has now; None while it has none."""

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        """Prepare everything for the commit, where no reader sees it.

        The rows are durable when this returns; an output that does not stage rows, as a Delta table, keeps
        the change in memory, for the same object to commit. Creates the target, or adds columns and widens
        types, if needed, without losing existing data. `spark` starts Spark when first called; not every
        output calls it.
        """

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        """Make what was staged visible under the tag, all or nothing, unless the tag is there already.

        Returns the receipt of whoever committed the tag first; a second commit changes nothing.
        After an error the batch may or may not be committed: ask `receipt`. Raises OutputDisagrees if a later
        epoch is open.
        """

    def discard(self, staged: Staged) -> None:
        """Remove what was staged and is no longer needed, as far as possible; never raises."""
