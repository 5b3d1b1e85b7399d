"""What an output promises: `stage`, then `commit`, and `receipt` to ask whether a batch is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidegauge.model.batch_data import BatchData, RowsInside
from tidegauge.model.engines import Engine
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class TargetTable(Protocol):
    """A target that is a table of a database: its columns have types of its own, and its rows can be read."""

    @property
    def loose_keys(self) -> bool:
        """Whether keys may be one to it that differ in case, accents or blanks at the end."""

    def named(self, name: str) -> str:
        """A column's name as it is compared: in small letters, where their case does not count."""

    def written(self) -> frozenset[str]:
        """Columns of the target that this flow is known to have written."""

    def fit(self, held: Field, field: Field, *, key: bool) -> str:
        """Whether a column that is there holds what comes: a word of `outputs.warehouse.fit.Verdict`."""

    def count(self) -> int:
        """How many rows there are, of whatever kind."""

    def rows(self, layout: Layout, *, only: str = "") -> Iterator[pa.RecordBatch]:
        """What the target shows of a layout's columns, as `schema_of` says of those that it has.

        Rows that are marked as deleted, and versions that are not current, are left out. `only`: SQL of the
        target's that is true for the rows that are wanted.
        """

    def find_aside(self, checks: Collection[str]) -> Iterator[str]:
        """The rows in quarantine that fail one of these checks, as JSON."""


class SqlTable(Protocol):
    """A target that answers SELECTs in its own SQL."""

    @property
    def engine(self) -> Engine: ...

    def value(self, field: Field) -> str:
        """SQL of a column's value, as it travels."""

    def shown(self) -> tuple[str, str]:
        """What FROM names it, and the condition for the rows that it shows, as in `TargetTable.rows`; empty:
        none."""

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT, which sees one moment of the table."""


class InsideDatabase(Protocol):
    """A target whose database can fill it from another of its own tables: it takes `BatchRows.inside`."""

    def check_readable(self, rows: RowsInside) -> None:
        """Raises OutputError where the output's login may not read the table, with what to grant it."""


@dataclass(frozen=True)
class Capabilities:
    """What an output can do beyond the promises of `Output`. The configuration refuses what it lacks."""

    stages_rows: bool = True
    """`stage` writes the rows. False: it prepares the change, and `commit` computes and writes its rows."""
    deletes_keys: bool = False
    """It takes `KeysToDelete`."""
    takes_tasks: bool = False
    """Many rows that come in splits are brought by tasks, which write side by side."""
    table: TargetTable | None = None
    """The target as a table of a database, where it is one."""
    sql: SqlTable | None = None
    """The same, where it also answers SQL."""
    inside: InsideDatabase | None = None
    """The same, where it also takes rows of its own database as a query."""


class Output(Protocol):
    """One table's place in a lake or a warehouse. A batch is there when its tag is there, and only then."""

    @property
    def place(self) -> str:
        """As messages name it."""

    @property
    def capabilities(self) -> Capabilities: ...

    def prepare(self) -> None:
        """Prove that the place can be reached and keeps the promises below; costs nothing the second time.

        Raises OutputUnreachable or OutputUnsafe.
        """

    def is_empty(self) -> bool:
        """No batch of any epoch, and no rows of anybody else's. Leftovers of dead attempts do not count."""

    def is_open(self, epoch: int, *, kept: bool = False) -> bool:
        """Whether batches of this epoch may be committed; epoch 0 is open from the start.

        `kept`: refuse, by OutputDisagrees, a place that has its tags and not what was committed with them: a
        table that was dropped, emptied, or filled in another mode.
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
        """Begin the table's next epoch. Can be repeated: the same again changes nothing.

        `empty`: with no row in it, once its first batch is there (`is_pending`). Else a warehouse keeps its
        rows, and a lake shows just what it continues.

        From the moment it is open, what an earlier epoch commits is never seen: a lake's readers follow
        `continues` (epoch, last batch) and no further, a warehouse refuses it. Raises OutputDisagrees when
        the epoch was opened with another meaning, or what it continues is not there.
        """

    def is_pending(self, epoch: int) -> bool:
        """Whether readers still see what earlier epochs wrote, and the first batch of this one takes away."""

    def lacks(self, continues: tuple[int, int]) -> str | None:
        """What a new epoch that continues this one (up to a batch) would miss; None: it is all there."""

    def receipt(self, tag: Tag) -> Receipt | None:
        """The committed batch with this tag. Raises OutputUnreachable when that cannot be known.

        Raises OutputDisagrees once a later epoch is open, whether the batch is there or not: a receipt
        promises that at some moment during this call the batch was part of what readers see.
        """

    def layout(self) -> tuple[Field, ...] | None:
        """The columns it holds now; None while there are none."""

    def stage(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        """Make everything ready for the commit, where nobody sees it.

        The rows are durable when this returns; an output that does not stage rows (see `Capabilities`) keeps
        the change in memory, for the same object to commit. Makes the target, or room in it for new columns
        and wider types, where that is needed: nothing that is there already is lost by it. Spark is started
        when it is first asked for, and not by every output.
        """

    def commit(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        """Make what was staged visible under the tag, all or nothing, unless the tag is there already.

        Returns the receipt of whoever committed the tag first; a second commit changes nothing.
        An error proves nothing: ask `receipt`. Raises OutputDisagrees when a later epoch is open.
        """

    def discard(self, staged: Staged) -> None:
        """Remove what was staged and is not needed any more, as far as that can be done; never raises."""
