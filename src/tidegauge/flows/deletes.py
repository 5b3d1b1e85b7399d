"""Rows that the source has no more: found by comparing keys, and taken away in a batch of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegauge.compare.deleted_keys import Vanished, check_limit, find_vanished
from tidegauge.errors import SourceUnreachable
from tidegauge.flows.select import Sources
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import KeysToDelete
from tidegauge.model.delta_flow import VALID_TO
from tidegauge.model.plan import Batch, Draft
from tidegauge.model.position import ORDERED, Position, RowPosition, Value, Window
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import Deletes, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.sources.keys import key_layout, keys, moment, moment_field


class DeletedRows:
    """What becomes of deleted rows in one flow."""

    def __init__(
        self, flow: TableFlow, output: Output, *, confirmed: bool, reached: RowPosition | None = None
    ) -> None:
        """`reached`: up to where the source was looked at, as the ledger says."""
        self._flow = flow
        self._output = output
        self._confirmed = confirmed
        self._reached = reached

    def plan(self, draft: Draft, source: Callable[[], Source], position: Position | None) -> Draft:
        """The draft with one more batch, if there is anything to take away. Reads only.

        A source that cannot be asked is no reason to keep back what a lake has: deleted rows wait for it.
        """
        unasked = self._flow.options.deletes is Deletes.NONE or self._flow.output.in_lake
        if unasked or self._output.layout() is None:
            return draft
        end = draft.batches[-1].windows[0].upto if draft.batches else position
        if end is None:
            return draft
        try:
            found = self._find_vanished(source().describe(self._flow.table, self._flow.options))
        except SourceUnreachable:
            note = "the source cannot be asked which rows were deleted; the next run looks again"
            return replace(draft, notes=(*draft.notes, note))
        if not found.count:
            return draft
        note = f"{found.count:,} of {found.target_rows:,} rows are gone from the source, and {self._fate}"
        # After a plan that leaves the watermark where it is, its end is not where the watermark belongs.
        again = bool(draft.batches) and draft.batches[-1].again
        last = Batch((Window(end, end),), rows=0, again=again, deletes=True)
        return replace(draft, batches=(*draft.batches, last), notes=(*draft.notes, note))

    def batch_data(self, *, shown: int = 0) -> KeysToDelete:
        """The keys to take away, found anew: what was deleted since goes too, what came back stays.

        `shown`: so many a person has agreed to.
        """
        with Sources() as sources:  # of the thread that executes, which need not be the one that planned
            source = sources.of(self._flow.source)
            source_table = source.describe(self._flow.table, self._flow.options)
            # Before the keys are read: a row that comes back after that has a later cursor.
            seen = source.find_settled(source_table) if self._flow.options.mode.facts.keeps_history else None
        found, layout = self._find_vanished(source_table, shown), key_layout(source_table)
        if self._flow.options.mode.facts.keeps_history:
            layout = replace(layout, fields=(*layout.fields, moment_field(source_table, VALID_TO)))
            found = found.add_moment(VALID_TO, moment(source_table, self._latest(seen)))
        return KeysToDelete(layout, found.count, splits=(found,))

    @property
    def _fate(self) -> str:
        if self._flow.options.mode.facts.keeps_history:
            return "the versions that were current are closed"
        return "are marked as deleted" if self._flow.options.deletes is Deletes.SOFT else "are deleted"

    def _latest(self, seen: Value | None) -> Value | None:
        """The value up to which the deleted rows were still there: the later of what the table shows now and
        of where it was last looked at. The row with the highest value may itself be among the deleted."""
        before = self._reached.cursor if self._reached else None
        if seen is None or before is None or seen.kind is not before.kind:
            return seen or before
        if seen.kind in ORDERED:
            return max(seen, before)
        return seen

    def _find_vanished(self, source_table: SourceTable, shown: int = 0) -> Vanished:
        table = self._output.capabilities.table
        assert table is not None
        layout = key_layout(source_table)
        schema = schema_of(layout)
        found = find_vanished(
            keys(self._flow.source, source_table),
            table.rows(layout),
            schema,
            loose=table.loose_keys,
        )
        check_limit(
            self._flow.name,
            found.count,
            found.target_rows,
            limit=self._flow.options.deletes_limit,
            confirmed=self._confirmed or found.count <= shown,
        )
        return found
