"""Preview overrides of a flow that reads a database table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import assert_never, cast

from tidegauge.errors import ConfigError, SourceError
from tidegauge.flows.names import stage_flow
from tidegauge.flows.override import position as override_position
from tidegauge.flows.override.preview import (
    CopyOf,
    Import,
    OverridePreview,
    OverridePreviewer,
    OverrideRequest,
    Refresh,
    Reset,
    SetTo,
    UndoLast,
    show_rows,
)
from tidegauge.model.identity import identify
from tidegauge.model.position import Position, RowPosition, Value, compare
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Stage, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.plan.draft import find_window_start
from tidegauge.sources.connections import SourceConnections


class TableOverridePreviewer(OverridePreviewer):
    """Previews overrides of a flow that reads a database table. It still works if the source is down, as far
    as the source is not needed."""

    _flow: TableFlow

    def __init__(
        self,
        ledger: LedgerReader,
        sources: SourceConnections,
        flow: TableFlow,
        status: FlowStatus | None,
        mark: Watermark | None,
    ) -> None:
        super().__init__(flow, status, mark)
        self.emptied_when = None if flow.output.in_lake else self.emptied_when
        self._ledger = ledger
        self._sources = sources
        self._source_table: SourceTable | None = None
        self._latest: Value | None = None
        self._fault: SourceError | None = None
        try:
            source = sources.of(flow.source)
            self._source_table = source.describe(flow.table, flow.options)
            self._latest = source.latest(self._source_table)
        except SourceError as error:
            self._fault = error

    def find_position(
        self, request: OverrideRequest, before: Position | None
    ) -> tuple[Position | None, list[str]]:
        if self._flow.options.snapshot and not isinstance(request, Reset | Refresh | UndoLast):
            raise ConfigError(
                f"{self._flow.name} has no cursor: each run reads the whole table, wherever its watermark is",
                hint="`tidegauge watermark reset` begins again",
            )
        match request:
            case SetTo(timestamp, position):
                source_table = self._known_table()
                like = self._latest or (before.cursor if isinstance(before, RowPosition) else None)
                if timestamp is not None:
                    return override_position.from_timestamp(source_table, timestamp, like), []
                assert position is not None
                return override_position.from_text(source_table, position, like), []
            case CopyOf(name, pipeline):
                return self._find_copied_position(name, pipeline or self._flow.pipeline), []
            case Import(marks, shown):
                there = marks[self._flow.name]
                after = override_position.check_fits(self._known_table(), there.position, shown)
                known = identify(self._known_table())
                other = there.source_id is not None and there.source_id != known
                return after, ["it was exported from another table, or one with another order"] * other
            case Reset() | Refresh() | UndoLast():
                raise AssertionError(f"{request} names no position")
            case _:
                assert_never(request)

    def _find_copied_position(self, name: str, pipeline: str) -> RowPosition | None:
        """The watermark to copy. `name`: a flow's, or a table's with or without its schema."""
        marks = self._ledger.watermarks(pipeline)
        names = (name, stage_flow(name, Stage.EXTRACT))
        found = next((mark for mark in marks if mark.flow in names), None)
        ends = tuple(f".{one}" for one in names)
        found = found or next((mark for mark in marks if mark.flow.endswith(ends)), None)
        if found is None:
            there = ", ".join(mark.flow for mark in marks[:10])
            raise ConfigError(
                f"there is no watermark of '{name}' in the pipeline '{pipeline}'",
                hint=f"there are: {there}" if there else "it has none yet; look at --from-pipeline",
            )
        shown = f"the watermark of {found.flow} in the pipeline {pipeline}"
        return override_position.check_fits(self._known_table(), found.position, shown)

    def _known_table(self) -> SourceTable:
        """The source table; raises the source's error if it could not be asked."""
        if self._source_table is None:
            assert self._fault is not None
            raise self._fault
        return self._source_table

    def count_rows(self, preview: OverridePreview) -> OverridePreview:
        source_table = self._source_table
        moments = source_table is not None and source_table.cursor_kind == "timestamp"
        before, after = preview.before, preview.after
        assert before is None or isinstance(before, RowPosition)
        assert after is None or isinstance(after, RowPosition)
        way = compare(before, after, moments=moments)
        if way == 0:
            return preview
        if source_table is None:
            return replace(
                preview,
                skipped=0 if way == 1 else None,
                again=0 if way == -1 else None,
                unknown=f"the source could not be asked: {cast(SourceError, self._fault).sentence}",
            )
        try:
            source = self._sources.of(self._flow.source)
            low = find_window_start(_drop_lookback(self._flow), source_table, before)
            base = find_window_start(_drop_lookback(self._flow), source_table, after)
            skipped = source.count(source_table, low, after) if after is not None and way != 1 else 0
            again = source.count(source_table, base, before) if before is not None and way != -1 else 0
        except (SourceError, ConfigError) as error:
            return replace(
                preview, skipped=None, again=None, unknown=f"the source could not be asked: {error.sentence}"
            )
        return replace(preview, skipped=skipped, again=again)

    def find_dangers(self, preview: OverridePreview) -> list[str]:
        source_table, dangers = self._source_table, []
        moments = source_table is not None and source_table.cursor_kind == "timestamp"
        before, after = preview.before, preview.after
        assert before is None or isinstance(before, RowPosition)
        assert after is None or isinstance(after, RowPosition)
        way = compare(after, before, moments=moments)
        if way == -1 or (way is None and preview.again != 0):
            lake = self._flow.output.in_lake
            dangers.append(
                f"it lies behind the watermark: {show_rows(preview.again)} will be read again"
                + (", and the lake will hold them as further row versions" if lake else "")
            )
        if after is None:
            return dangers
        if self._latest is None:
            unasked = "whether it lies in the future could not be asked: rows that come below it are skipped"
            return [*dangers, *([unasked] if way != -1 else [])]
        return [*dangers, *self._find_future(preview, after, moments)]

    def _find_future(self, preview: OverridePreview, after: RowPosition, moments: bool) -> list[str]:
        """The danger of a position that lies past all rows there are; empty: it does not."""
        assert self._latest is not None
        if compare(RowPosition(after.cursor), RowPosition(self._latest), moments=moments) != 1:
            return []
        what = "the source's clock" if moments else "the highest value in the table"
        return [
            f"it lies in the future, past {what} ({self._latest.text}): every row that comes until then"
            f" is skipped, besides {show_rows(preview.skipped)} that are there now"
        ]

    def find_notes(self, request: OverrideRequest) -> list[str]:
        notes = super().find_notes(request)
        if isinstance(request, Reset):
            where = "at the beginning"
            if self._flow.options.initial is not None:
                where = f"at its initial '{self._flow.options.initial}'"
            rest = "readers no longer follow what is in the lake now"
            if not self._flow.output.in_lake:
                rest = f"what is in {self._flow.output} stays, and comes again over it"
            notes.append(f"the next run begins {where}; {rest}")
        if isinstance(request, UndoLast) and self._status and self._status.undo and not self._unended:
            undo = self._status.undo
            notes.append(
                f"readers follow again what was there before the {undo.kind} of {undo.at:%Y-%m-%d %H:%M:%S}"
                " UTC, and no longer what was committed since"
            )
        return notes


def _drop_lookback(flow: TableFlow) -> TableFlow:
    """The flow without its lookback, whose rows are read again whatever the watermark is."""
    return replace(flow, options=replace(flow.options, lookback=timedelta(0)))
