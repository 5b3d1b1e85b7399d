"""The rows that a sync has set aside: counted, discarded, and taken up again.

A target that has one row for each key, or a history, gets them from its source again: the watermark is set
back to where the first of their batches began. To one that only grows the rows themselves are added.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegauge.flows.override import Import, Imported, OverrideRequest, Reset, SetTo
from tidegauge.flows.quarantine_shown import SetAside
from tidegauge.model.marks import Marks
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
    """Of a flow that ends in a warehouse."""

    def __init__(self, flow: TableFlow) -> None:
        self.flow = flow
        self._output = WarehouseOutput(flow)
        self._target = self._output.target

    def show(self, examples: int) -> SetAside:
        """What is there; nothing where there is no table."""
        target, quarantine = self._target, self._target.quarantine
        place = f"{target.warehouse.place}: {quarantine.table}"
        if not target.warehouse.is_there():
            return SetAside(self.flow.name, place, 0, {})
        with target.session() as session:
            if not quarantine.is_there(session):
                return SetAside(self.flow.name, place, 0, {})
            found = quarantine.select(session, ROW_COLUMN, REASONS, AT)
        reasons: dict[str, int] = {}
        for _, why, _ in found:
            for name in json.loads(why):
                reasons[name] = reasons.get(name, 0) + 1
        times = sorted(str(at) for _, _, at in found)
        first, last = (times[0], times[-1]) if times else (None, None)
        texts = tuple(str(row) for row, _, _ in found[:examples])
        return SetAside(self.flow.name, place, len(found), dict(sorted(reasons.items())), first, last, texts)

    def discard(self, reason: str, *, before_epoch: int | None = None) -> None:  # noqa: ARG002 - the history has it
        """All of them, or those of earlier epochs."""
        with self._target.session() as session:
            self._target.quarantine.delete(session, before_epoch=before_epoch)
            session.commit()

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        """From where the flow has to read again; None where its target only grows."""
        if self.flow.options.mode.facts.only_adds:
            return None
        mark = marks.get(self.flow.input)
        if mark is None or self.flow.options.mode.facts.replaces_all:
            return Reset()
        return set_back_to(self.flow, self._begins(mark.epoch))

    def append(self, reason: str) -> int:  # noqa: ARG002 - the history has it
        """Append the rows that are as expected today, and take them out of the quarantine: how many."""
        written, fields = self._output.written(), self._output.layout() or ()
        kept = tuple(field for field in fields if field.name in written)
        return replay_rows(self._target, kept or fields, self._mark, MARK_FIELDS, uuid.uuid4().hex)

    def _mark(self, batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
        marker = Marker(layout, Marks.of(self.flow.options.expect))
        try:
            return marker.mark(batch)
        finally:
            marker.close()

    def _begins(self, epoch: int) -> list[Position | None]:
        """Where the batches began that have rows here; one None where that is not known of one."""
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
    """The earliest of them; all the way where one is not known, or they cannot be compared."""
    known = list(begins)
    if all(isinstance(one, FilesPosition) for one in known):
        return SetTo(position=str(min(one.sequence for one in known if isinstance(one, FilesPosition))))
    rows = [one for one in known if isinstance(one, RowPosition)]
    for one in rows:
        if len(rows) == len(known) and all(compare(one, other, moments=False) in (-1, 0) for other in rows):
            return Import({flow.name: Imported(one, None)}, "the quarantine")
    return Reset()
