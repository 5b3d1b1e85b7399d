"""A flow that reads a database table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegauge.errors import ConfigError
from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
from tidegauge.flows.override.table import TableOverridePreviewer
from tidegauge.flows.recall import recall_rows
from tidegauge.flows.table.base import NewRows, TableFlowBase
from tidegauge.flows.table.drift import decide_drift
from tidegauge.flows.table.emptying import empty_batch_data, plan_emptying
from tidegauge.flows.table.snapshot import SnapshotPlan, plan_snapshot
from tidegauge.model.batch_data import BatchData
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.identity import identify
from tidegauge.model.one_database import is_one_table
from tidegauge.model.plan import Batch, Draft, Plan
from tidegauge.model.position import RowPosition
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.source import Reader, Source
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import ReadMethod, WarehouseTable
from tidegauge.model.table import SourceTable
from tidegauge.model.watermark import Recalled
from tidegauge.outputs.recall import RecalledEpoch
from tidegauge.plan.backfill import limit_rows
from tidegauge.plan.draft import (
    add_empty_batch,
    batch_step,
    check_scd2_cursor,
    draft_table,
    find_window_start,
    is_whole,
)
from tidegauge.plan.drift import narrow
from tidegauge.plan.identity import check_identity, check_masks
from tidegauge.sources.direct import find_jdbc_reason as check_direct
from tidegauge.sources.inside import SameDatabaseReader
from tidegauge.sources.keys import read_keys
from tidegauge.transform.mark import check_marks


class DatabaseFlow(TableFlowBase):
    """A flow from a database to a lake, a warehouse or a Delta table."""

    def find_new(self, *, limit: int | None, confirm_deletes: bool, refreshing: bool) -> NewRows:
        source, spec, mark = self.source(), self.spec, self.mark
        source_table, changes = self._describe_new(source)
        snapshot = self._snapshot(source, source_table, refreshing=refreshing)
        made = snapshot.draft if snapshot else self._survey(source, source_table, limit)
        made = plan_emptying(
            spec, made, self.output, source_table, mark, refreshing=refreshing, confirmed=confirm_deletes
        )
        if made.batches:
            self.refuse_lost_columns(source_table.layout)
        slower = self._check_way(source_table)
        if slower is not None:
            made = replace(made, notes=(*made.notes, f"read through JDBC: {slower}"))
        first = not (made.batches or self.position or refreshing or (mark and mark.seq))
        if first and self.output.layout() is None:
            made = add_empty_batch(made)
        return NewRows(
            made,
            self._rows(source_table).batch_data,
            changes,
            self._needs_jdbc(slower),
            unlike=snapshot.unlike if snapshot else None,
            may_have_more=snapshot.may_have_more if snapshot else True,
        )

    def check_source(self) -> None:
        source_table, _ = self._describe_new(self.source())
        self._check_way(source_table)

    def find_again(self, plan: Plan) -> NewRows:
        source_table, changes = self.describe(self.source(), plan.draft.inputs[0].source_id)
        self.refuse_lost_columns(source_table.layout)
        slower = self._check_way(source_table)
        if source_table.fingerprint == plan.draft.inputs[0].fingerprint:
            changes = ()
        return NewRows(plan.draft, self._rows(source_table).batch_data, changes, self._needs_jdbc(slower))

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[DataFlow],
        ledger: LedgerReader,
    ) -> OverridePreview:
        previewer = TableOverridePreviewer(ledger, self._resources.sources, self.spec, status, self.mark)
        return previewer.preview(request, every)

    def recall_mark(self, found: RecalledEpoch) -> tuple[Recalled, tuple[str, ...]]:
        return recall_rows(found), ()

    def check_refillable(self) -> None:
        source_table = self.source().describe(self.spec.table, self.spec.options)
        check_scd2_cursor(self.spec, source_table.layout)
        check_marks(self.spec.options.expect, source_table.layout)
        self._check_way(source_table)
        for _ in read_keys(self.spec.source, source_table, rows=1):
            break  # one row is enough to show that the login may read the table

    @property
    def position(self) -> RowPosition | None:
        position = self.mark.position if self.mark else None
        assert position is None or isinstance(position, RowPosition)
        return position

    @property
    def reader(self) -> Reader:
        return SameDatabaseReader(self.spec.source) if self.inside else self._resources.open_reader(self.spec)

    def describe(self, source: Source, planned: str | None = None) -> tuple[SourceTable, tuple[str, ...]]:
        """Describe the table as it is to be read, and note which of its columns have changed.

        The output's columns and `drift` decide which columns are read. `planned`: the `source_id` that a
        frozen plan reads; None: the watermark's counts.
        """
        source_table = source.describe(self.spec.table, self.spec.options)
        known = planned or (self.mark.source_id if self.mark else None)
        check_identity(self.spec, source_table, known, self.position)
        if known not in (None, identify(source_table)) and (there := self.output.layout()):
            names = [field.name for field in there]
            check_masks(self.spec, source_table, known, names, self.position)
        same = self.mark is not None and self.mark.fingerprint == source_table.fingerprint
        # A Delta table is compared in any case: others may alter it while the source stays the same.
        if self.mark is None or (same and not self.spec.uses_delta):
            return source_table, ()
        held = self.output.layout()
        if held is None:
            return source_table, ()
        decision = decide_drift(self.spec, self.output, held, source_table.layout, columns_unchanged=same)
        return narrow(source_table, [field.name for field in decision.layout.fields]), decision.notes

    def _describe_new(self, source: Source) -> tuple[SourceTable, tuple[str, ...]]:
        """Describe the table for a new plan, and check that its columns suit mode and expectations."""
        source_table, changes = self.describe(source)
        check_scd2_cursor(self.spec, source_table.layout)
        check_marks(self.spec.options.expect, source_table.layout)
        return source_table, changes

    def _snapshot(
        self, source: Source, source_table: SourceTable, *, refreshing: bool
    ) -> SnapshotPlan | None:
        if not self.spec.options.snapshot:
            return None
        return plan_snapshot(self.spec, source, source_table, self.output, self.mark, refreshing=refreshing)

    def _survey(self, source: Source, source_table: SourceTable, limit: int | None) -> Draft:
        spec, position = self.spec, self.position
        if is_whole(spec):
            limit = None  # a part of the table would replace all rows of the target
        after = find_window_start(spec, source_table, position)
        step = batch_step(spec) if limit is None else min(batch_step(spec), limit)
        survey = source.survey(source_table, after, step, self.mark.pending if self.mark else None)
        made = draft_table(spec, source_table, after, survey, watermark=position)
        if limit is None:
            return made
        return limit_rows(made, limit, step=step, watermark=position if after != position else None)

    def _rows(self, source_table: SourceTable) -> _TableRows:
        return _TableRows(self.reader, source_table)

    def _check_way(self, source_table: SourceTable) -> str | None:
        """Return why rows have to go through JDBC, or None. Raises if they cannot be read as configured."""
        if not self.inside:
            return check_direct(source_table, self.spec.source)
        assert isinstance(self.spec.output, WarehouseTable)
        target = self.spec.output
        if is_one_table(self.spec.source, self.spec.table, target.warehouse, target.table):
            raise ConfigError(
                f"{self.spec.name} would be written onto itself",
                hint='give it another name with `rename: "{table}_COPY"`',
                place=self.spec.options.place,
            )
        query = SameDatabaseReader(self.spec.source).query(source_table, "1 = 1")
        if self.mark is None or not self.mark.seq:
            # Only before the first batch: later the statement that moves the rows fails by itself.
            able = self.output.capabilities.inside
            assert able is not None
            able.check_readable(query)
        return None

    def _needs_jdbc(self, slower: str | None) -> bool:
        return slower is not None or self.spec.options.read is ReadMethod.JDBC


@dataclass(frozen=True)
class _TableRows:
    reader: Reader
    source_table: SourceTable

    def batch_data(self, batch: Batch) -> BatchData:
        if batch.empties_output:
            return empty_batch_data(self.source_table.layout)
        return self.reader.batch_data(self.source_table, batch)
