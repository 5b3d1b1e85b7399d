"""Show, discard and replay the rows that a sync into a Delta table has in quarantine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from tidegauge.delta_log.location import lake_of
from tidegauge.delta_log.snapshot import Log
from tidegauge.errors import OutputDisagrees
from tidegauge.flows.delta_locator import DeltaTableLocator
from tidegauge.flows.override.preview import OverrideRequest, Reset
from tidegauge.flows.quarantine.delta_flow import FlowQuarantine, name_besides
from tidegauge.flows.quarantine.warehouse_sync import set_back_to
from tidegauge.model.arrow import schema_of
from tidegauge.model.expectation import Action
from tidegauge.model.marks import FailedCheckBits
from tidegauge.model.position import Position
from tidegauge.model.spec import TableFlow
from tidegauge.model.table import Field, Layout
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.delta.batches import CommittedBatch, committed_batches
from tidegauge.outputs.delta.synced import target_flow
from tidegauge.storage.store import open_store
from tidegauge.transform.mark import Marker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_BESIDES = ("row", "_epoch", "_seq")


class SyncDeltaQuarantine(FlowQuarantine):
    """The quarantine of a sync into a Delta table."""

    def __init__(self, flow: TableFlow, places: DeltaTableLocator) -> None:
        super().__init__(target_flow(flow), places)
        self._sync = flow

    def set_back(self, marks: dict[str, Watermark]) -> OverrideRequest | None:
        if self._sync.options.mode.facts.only_adds:
            return None
        mark = marks.get(self._sync.input)
        return Reset() if mark is None else set_back_to(self._sync, self._find_batch_beginnings(mark.epoch))

    def _find_batch_beginnings(self, epoch: int) -> Iterator[Position | None]:
        """Yield the position after which each batch with a quarantined row began.

        None for a batch of another epoch, one that began at the beginning, or one that the log no longer has.
        """
        with self._session() as session:
            found = self._table.rows(session).select("_epoch", "_seq").distinct().collect()
        wanted = {(int(one[0]), int(one[1])) for one in found}
        table = self.flow.output.table
        look = Log(open_store(lake_of(self._places.location(table), table.storage))).look()
        if look is None:
            raise OutputDisagrees(f"there is no table {table}", hint="run the flow first")
        for batch in committed_batches(look, self.flow.pipeline, self.flow.name):
            if isinstance(batch, CommittedBatch) and (batch.epoch, batch.seq) in wanted:
                wanted.discard((batch.epoch, batch.seq))
                yield next(iter(batch.windows.values())).after if batch.epoch == epoch else None
        if wanted:
            yield None

    def _find_passing_rows(self, session: SparkSession) -> DataFrame:
        """The rows that meet today's expectations, checked in the same way as when a source is read."""
        from pyspark.sql import functions as F  # noqa: N812

        rows = self._table.rows(session).where(f"_replay IS NULL AND ({self._make_batch_condition()})")
        parsed = self._parse_rows(session, rows, *_BESIDES)
        besides = [name_besides(name) for name in _BESIDES]
        fields = tuple(
            Field(one.name, one.dataType.simpleString(), one.dataType.simpleString())
            for one in parsed.schema.fields
            if one.name not in besides
        )
        layout = Layout(self._sync.table, fields, (), "value", None)
        marks = FailedCheckBits.of(self._sync.options.expect)
        refused = sum(1 << at for at, one in enumerate(marks.checks) if one.action is not Action.WARN)
        schema, own = schema_of(layout), len(fields)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa
            import pyarrow.compute as pc

            with closing(Marker(layout, marks)) as marker:
                for batch in batches:
                    cast = [column.cast(one.type) for column, one in zip(batch.columns, schema, strict=False)]
                    failed = marker.find_failed(pa.RecordBatch.from_arrays(cast, schema=schema))
                    kept = batch.filter(pc.equal(pc.bit_wise_and(failed, refused), 0))
                    yield pa.RecordBatch.from_arrays(kept.columns[own:], names=list(_BESIDES))

        return parsed.mapInArrow(work, "row string, _epoch bigint, _seq bigint").select(
            *(F.col(name) for name in _BESIDES)
        )
