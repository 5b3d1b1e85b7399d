"""The rows of a source that its flow's expectations let through: what the target has to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegauge.model.expectation import Action, Expectation, ForeignKey
from tidegauge.model.marks import Marks
from tidegauge.model.protocols.output import TargetTable
from tidegauge.model.row_text import write_rows
from tidegauge.model.table import Layout
from tidegauge.transform.mark import Marker

if TYPE_CHECKING:
    import pyarrow as pa


class Sieve:
    """A foreign key is not looked up again, for the other table moves on: a row that is in quarantine for
    one, just as the source has it, was set aside, and any other was let through."""

    def __init__(self, expect: Sequence[Expectation], layout: Layout, table: TargetTable) -> None:
        self._marks = Marks.of(expect)
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
        """The rows that are let through, or all the others."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._marker is None:
            return batch
        kept = pc.less(self._marker.find_failed(batch), self._marks.dropped_from)
        if self._aside:
            known = pa.array([text not in self._aside for text in write_rows(batch)], pa.bool_())
            kept = pc.and_(kept, known)
        return batch.filter(kept if passing else pc.invert(kept))
