"""Which rows of a table a backfill reads again, and the plan for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tidegauge.errors import ConfigError
from tidegauge.flows.agreement import check_agreement
from tidegauge.flows.flow import Flow, PlannedWork
from tidegauge.flows.override.position import from_text
from tidegauge.flows.table.database import DatabaseFlow
from tidegauge.model.batch_data import BatchData
from tidegauge.model.plan import Batch
from tidegauge.model.position import RowPosition, compare, to_text
from tidegauge.model.protocols.source import Reader, Source
from tidegauge.model.spec import Execution, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.plan.backfill import BackfillWindow, find_backfill_window, fit_batches_to_limit, limit_rows
from tidegauge.plan.backfill import draft_backfill as draft_backfill
from tidegauge.plan.draft import batch_step
from tidegauge.transform.mark import check_marks, mark_rows


@dataclass(frozen=True)
class BackfillRequest:
    """A backfill as the user asks for it; every part may be left out."""

    first: str | None = None
    """The first cursor value to read again; None: where the flow itself began."""
    last: str | None = None
    """The last cursor value to read again; None: the watermark."""
    column: str | None = None
    """The column whose values the backfill brings back."""
    limit: int | None = None
    """How many rows are read at most; None: all."""


def plan_backfill(flow: Flow, request: BackfillRequest) -> PlannedWork:
    """Plan what a flow reads again. A flow that reads a lake only plans what is new in the lake."""
    if not isinstance(flow, DatabaseFlow):
        return flow.plan()
    mark, spec = flow.mark, flow.spec
    check_agreement(spec, flow.output, mark, may_be_lost=True)
    if request.limit is not None:
        spec = fit_batches_to_limit(spec, request.limit)
    source = flow.source()
    source_table, changes = flow.describe(source)
    check_marks(spec.options.expect, source_table.layout)
    flow.refuse_lost_columns(source_table.layout)
    window = find_window(flow, source_table, request, source)
    step = batch_step(spec)
    cuts = source.cuts(source_table, window.after, window.upto, step) if window.upto is not None else ()
    made = draft_backfill(spec, source_table, window, cuts, pending=mark.pending if mark else None)
    if request.limit is not None:
        made = limit_rows(made, request.limit, step=step)
    seen = (mark.epoch, mark.seq) if mark else (0, 0)
    made = replace(made, seen=seen, notes=(*made.notes, *changes))
    rows = _RowsAgain(flow.reader, source_table, spec)
    return PlannedWork(
        made,
        rows.batch_data,
        changes,
        by_spark=not flow.inside,
        only_by_spark=spec.options.execute is Execution.SPARK,
        inside=flow.inside,
    )


def find_window(
    flow: DatabaseFlow, source_table: SourceTable, request: BackfillRequest, source: Source
) -> BackfillWindow:
    """Find the window of the rows that the request means. Raises ConfigError if it can mean none."""
    name, stands = flow.spec.name, flow.position
    like = source.latest(source_table) or (stands.cursor if stands else None)
    first, last = (
        None if text is None else from_text(source_table, text, like)
        for text in (request.first, request.last)
    )
    moments = source_table.cursor_kind == "timestamp"
    if first is not None and last is not None and compare(first, last, moments=moments) == 1:
        raise ConfigError(
            f"{name}: --from {request.first} lies after --to {request.last}", hint="turn them round"
        )
    # Without the key: at least some rows with the watermark's own cursor value were read.
    edge = RowPosition(stands.cursor) if stands is not None else None
    if first is not None and edge is not None and compare(first, edge, moments=moments) == 1:
        raise ConfigError(
            f"{name}: --from {request.first} lies past the watermark, {to_text(stands)}",
            hint="what lies there is the next run's: `tidegauge run`",
        )
    return find_backfill_window(
        flow.spec, source_table, stands, first, last, count=partial(source.count, source_table)
    )


@dataclass(frozen=True)
class _RowsAgain:
    """Reads the rows of a backfill's batches."""

    reader: Reader
    source_table: SourceTable
    flow: TableFlow

    def batch_data(self, batch: Batch) -> BatchData:
        rows = replace(self.reader.batch_data(self.source_table, batch), anew=True)
        return mark_rows(rows, self.flow.options.expect)
