"""Filter a source's rows by its flow's expectations, to know which rows the target should have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.model.expectation import Action, Expectation, ForeignKey
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.protocols.output import TargetTable
from tidegauge.model.row_text import write_rows
from tidegauge.model.table import Layout
from tidegauge.transform.mark import Marker

if TYPE_CHECKING:
    import pyarrow as pa


class QuarantineFilter:
    """Separates rows that pass a flow's expectations from rows that the flow set aside.

    Foreign keys are not looked up again, because the other table may have changed. Instead, a row counts as
    set aside if exactly this row is in quarantine for a foreign key.
    """

    def __init__(self, expect: Sequence[Expectation], layout: Layout, table: TargetTable) -> None:
        self._marks = FailedCheckBits.of(expect)
        self.sets_aside = self._marks.sets_aside
        self._marker = Marker(layout, self._marks) if self.sets_aside else None
        points = {
            one.name for one in expect if isinstance(one.rule, ForeignKey) and one.action is Action.QUARANTINE
        }
        self._aside = frozenset(table.find_aside(points)) if points else frozenset()

    def close(self) -> None:
        if self._marker is not None:
            self._marker.close()

    def pick(self, batch: pa.RecordBatch, *, passing: bool = True) -> pa.RecordBatch:
        """The rows of a batch that pass; with `passing=False` the others."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._marker is None:
            return batch
        kept = pc.less(self._marker.find_failed(batch), self._marks.dropped_from)
        if self._aside:
            known = pa.array([text not in self._aside for text in write_rows(batch)], pa.bool_())
            kept = pc.and_(kept, known)
        return batch.filter(kept if passing else pc.invert(kept))
