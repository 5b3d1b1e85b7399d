"""What an output promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidegauge.model.batch_data import BatchData
from tidegauge.model.plan import Batch, Receipt, Tag
from tidegauge.model.staged import Staged
from tidegauge.model.table import Field, Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Output(Protocol):
    """One table's place in a lake or a warehouse. A batch is there when its tag is there, and only then."""

    @property
    def place(self) -> str:
        """As messages name it."""

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
        """Begin the table's next life. Can be repeated: the same again changes nothing.

        `empty`: with no row in it, once its first batch is there (`is_pending`). Else a warehouse keeps its
        rows, and a lake shows just what it continues.

        From the moment it is open, what an earlier life commits is never seen: a lake's readers follow
        `continues` (epoch, last batch) and no further, a warehouse refuses it. Raises OutputDisagrees when
        the epoch was opened with another meaning, or what it continues is not there.
        """

    def is_pending(self, epoch: int) -> bool:
        """Whether readers still see what earlier lives wrote, which the first batch of this one ends."""

    def lacks(self, continues: tuple[int, int]) -> str | None:
        """What a new epoch that continues this one (up to a batch) would miss; None: it is all there."""

    def receipt(self, tag: Tag) -> Receipt | None:
        """The committed batch with this tag. Raises OutputUnreachable when that cannot be known.

        Raises OutputDisagrees once a later epoch is open, whether the batch is there or not: a receipt
        promises that at some moment during this call the batch was part of what readers see.
        """

    def layout(self) -> tuple[Field, ...] | None:
        """The columns it holds now; None while there are none."""

    def write(self, batch_data: BatchData, spark: Callable[[], SparkSession]) -> Staged:
        """Write the rows where nobody sees them, durable when this returns.

        Makes the target, or room in it for new columns and wider types, where that is needed: nothing that is
        there already is lost by it. Spark is started when it is first asked for, and not by every output.
        """

    def publish(self, tag: Tag, batch: Batch, staged: Staged, *, layout: Layout, run_id: str) -> Receipt:
        """Make what was written visible under the tag, all or nothing, unless the tag is there already.

        Returns the receipt of whoever committed the tag first; a second publish changes nothing.
        An error proves nothing: ask `receipt`. Raises OutputDisagrees when a later epoch is open.
        """

    def discard(self, staged: Staged) -> None:
        """Remove what was written and will not be published, as far as that can be done; never raises."""
