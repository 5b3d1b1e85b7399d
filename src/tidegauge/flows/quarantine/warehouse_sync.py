"""Show, discard and replay the rows that a sync into a warehouse has in quarantine.

A target with one row for each key, or with a history, gets the rows from the source again: the watermark is
set back to where the first of their batches began. A target that only grows gets the quarantined rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegauge.flows.override.preview import Import, Imported, OverrideRequest, Reset, SetTo
from tidegauge.flows.quarantine.summary import QuarantineSummary
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.plan import Tag
from tidegauge.model.position import FilesPosition, Position, RowPosition, compare
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Layout
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.warehouse.output import WarehouseOutput
from tidegauge.outputs.warehouse.quarantine import AT, REASONS, ROW_COLUMN
from tidegauge.outputs.warehouse.replay import replay_rows
from tidegauge.transform.mark import MARK_FIELDS, Marker

if TYPE_CHECKING:
    import pyarrow as pa


class SyncQuarantine:
    """The quarantine of a sync into a warehouse. Implements `ReplayableQuarantine`."""

    def __init__(self, flow: TableFlow) -> None:
        self.flow = flow
        self._output = WarehouseOutput(flow)
        self._target = self._output.target

    def show(self, examples: int) -> QuarantineSummary:
        """Count the quarantined rows; none if there is no table. `examples`: how many rows to show."""
        target, quarantine = self._target, self._target.quarantine
        place = f"{target.warehouse.place}: {quarantine.table}"
        if not target.warehouse.is_there():
            return QuarantineSummary(self.flow.name, place, 0, {})
        with target.session() as session:
            if not quarantine.is_there(session):
                return QuarantineSummary(self.flow.name, place, 0, {})
            found = quarantine.select(session, ROW_COLUMN, REASONS, AT)
        reasons: dict[str, int] = {}
        for _, why, _ in found:
            for name in json.loads(why):
                reasons[name] = reasons.get(name, 0) + 1
        times = sorted(str(at) for _, _, at in found)
        first, last = (times[0], times[-1]) if times else (None, None)
        texts = tuple(str(row) for row, _, _ in found[:examples])
        return QuarantineSummary(
            self.flow.name, place, len(found), dict(sorted(reasons.items())), first, last, texts
        )

    def discard(self, reason: str, *, before_epoch: int | None = None) -> None:  # noqa: ARG002 - the history has it
        """Delete all quarantined rows, or only those of earlier epochs."""
        with self._target.session() as session:
            self._target.quarantine.delete(session, before_epoch=before_epoch)
            session.commit()

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        """The override after which the flow reads each row again; None if its target only grows."""
        if self.flow.options.mode.facts.only_adds:
            return None
        mark = marks.get(self.flow.input)
        if mark is None or self.flow.options.mode.facts.replaces_all:
            return Reset()
        return set_back_to(self.flow, self._find_batch_beginnings(mark.epoch))

    def append(self, reason: str) -> int:  # noqa: ARG002 - the history has it
        """Move the rows that meet today's expectations from the quarantine to the target; return how many."""
        written, fields = self._output.written(), self._output.layout() or ()
        kept = tuple(field for field in fields if field.name in written)
        return replay_rows(self._target, kept or fields, self._mark, MARK_FIELDS, uuid.uuid4().hex)

    def _mark(self, batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
        marker = Marker(layout, FailedCheckBits.of(self.flow.options.expect))
        try:
            return marker.mark(batch)
        finally:
            marker.close()

    def _find_batch_beginnings(self, epoch: int) -> list[Position | None]:
        """The position after which each batch with a quarantined row began.

        None for a batch of another epoch, one that began at the beginning, or one that is not known any more.
        """
        target = self._target
        with target.session() as session:
            target.commits.is_there(session)
            tags = {
                Tag(self.flow.pipeline, self.flow.name, int(of), int(seq))
                for of, seq in target.quarantine.select(session, "_epoch", "_seq")
            }
            found = [target.commits.find(session, tag) if tag.epoch == epoch else None for tag in tags]
        return [one[0].windows[0].after if one else None for one in found]


def set_back_to(flow: TableFlow, begins: Iterable[Position | None]) -> OverrideRequest:
    """The override that sets a flow back to the earliest of these positions.

    It is a reset if one of them is None, or they cannot be compared.
    """
    known = list(begins)
    if all(isinstance(one, FilesPosition) for one in known):
        return SetTo(position=str(min(one.sequence for one in known if isinstance(one, FilesPosition))))
    rows = [one for one in known if isinstance(one, RowPosition)]
    for one in rows:
        if len(rows) == len(known) and all(compare(one, other, moments=False) in (-1, 0) for other in rows):
            return Import({flow.name: Imported(one, None)}, "the quarantine")
    return Reset()
