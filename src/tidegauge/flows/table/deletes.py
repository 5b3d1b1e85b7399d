"""Rows that the source no longer has: found by comparing keys, and deleted in a batch of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegauge.compare.deleted_keys import DeletedKeys, check_limit, find_deleted_keys
from tidegauge.errors import SourceUnreachable
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import KeysToDelete
from tidegauge.model.delta_flow import VALID_TO
from tidegauge.model.plan import Batch, Draft
from tidegauge.model.position import ORDERED, Position, RowPosition, Value, Window, compare
from tidegauge.model.protocols.output import Output
from tidegauge.model.protocols.source import Source
from tidegauge.model.spec import DeleteMode, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.sources.connections import SourceConnections
from tidegauge.sources.keys import key_layout, make_cursor_scalar, moment_field, read_keys

_LEFT = (
    "no row is deleted: this replica may lack rows that were read before, so a later run looks which are gone"
)


class DeletedRows:
    """Finds the rows of one flow that the source no longer has, and plans and reads the batch for them."""

    def __init__(
        self, flow: TableFlow, output: Output, *, confirmed: bool, reached: RowPosition | None = None
    ) -> None:
        """`confirmed`: any number of rows may be deleted. `reached`: up to where the source was looked at, by
        the ledger."""
        self._flow = flow
        self._output = output
        self._confirmed = confirmed
        self._reached = reached

    def plan(self, draft: Draft, source: Callable[[], Source], position: Position | None) -> Draft:
        """Return the draft, with one more batch if there are rows to delete. Reads only.

        If the source cannot be reached, the draft is returned with a note: a load from a lake still goes on,
        and a later run looks for deleted rows again.
        """
        unasked = self._flow.options.deletes is DeleteMode.NONE or self._flow.output.in_lake
        if unasked or self._output.layout() is None:
            return draft
        end = draft.batches[-1].windows[0].upto if draft.batches else position
        if end is None:
            return draft
        try:
            database = source()
            source_table = database.describe(self._flow.table, self._flow.options)
            if self._may_lack_rows(database, source_table):
                return replace(draft, notes=(*draft.notes, _LEFT))
            found = self._find_vanished(source_table)
        except SourceUnreachable:
            note = "the source cannot be asked which rows were deleted; the next run looks again"
            return replace(draft, notes=(*draft.notes, note))
        if not found.count:
            return draft
        note = f"{found.count:,} of {found.target_rows:,} rows are gone from the source, and {self._fate}"
        # If the last batch leaves the watermark where it is, so must this one.
        again = bool(draft.batches) and draft.batches[-1].rereads
        last = Batch((Window(end, end),), rows=0, rereads=again, deletes=True)
        return replace(draft, batches=(*draft.batches, last), notes=(*draft.notes, note))

    def batch_data(self, batch: Batch) -> KeysToDelete:
        """Compare the keys again and return those to delete, so that rows that have come back are kept."""
        with SourceConnections() as sources:  # this thread's own: another thread may have planned
            source = sources.of(self._flow.source)
            source_table = source.describe(self._flow.table, self._flow.options)
            # Before the keys are read, so that a row that comes back later has a later cursor.
            seen = source.find_settled(source_table) if self._flow.options.mode.facts.keeps_history else None
            behind = self._may_lack_rows(source, source_table, batch.windows[0].upto)
        # To the deletes of a repair a person has agreed.
        shown, layout = (batch.rows or 0) if batch.repairs else 0, key_layout(source_table)
        nothing = DeletedKeys(schema_of(layout).empty_table(), 0, 0)  # a later run looks again
        found = nothing if behind else self._find_vanished(source_table, shown)
        if self._flow.options.mode.facts.keeps_history:
            layout = replace(layout, fields=(*layout.fields, moment_field(source_table, VALID_TO)))
            found = found.add_moment(VALID_TO, make_cursor_scalar(source_table, self._latest(seen)))
        return KeysToDelete(layout, found.count, splits=(found,))

    @property
    def _fate(self) -> str:
        if self._flow.options.mode.facts.keeps_history:
            return "the versions that were current are closed"
        return "are marked as deleted" if self._flow.options.deletes is DeleteMode.SOFT else "are deleted"

    def _latest(self, seen: Value | None) -> Value | None:
        """The cursor value at which the versions of deleted rows end: the later of `seen`, which is settled
        now, and of how far the source was looked at before. `seen` alone may be too low: the row with the
        highest value may be deleted itself."""
        before = self._reached.cursor if self._reached else None
        if seen is None or before is None or seen.kind is not before.kind:
            return seen or before
        if seen.kind in ORDERED:
            return max(seen, before)
        return seen

    def _may_lack_rows(
        self, source: Source, source_table: SourceTable, planned: Position | None = None
    ) -> bool:
        """Whether the source is a replica that may not have applied rows yet which were read before: from its
        primary, or from another replica. `planned`: the end of the plan, whose rows may have been read."""
        read = [one.cursor for one in (self._reached, planned) if isinstance(one, RowPosition)]
        if not read or self._flow.options.snapshot or not source.outlook().replica:
            return False
        moments = source_table.cursor_kind == "timestamp"
        there = source.find_settled(source_table) if moments else source.latest(source_table)
        if there is None:
            return True
        orders = [compare(RowPosition(there), RowPosition(one), moments=moments) for one in read]
        return any(order is None or order < 0 for order in orders)

    def _find_vanished(self, source_table: SourceTable, shown: int = 0) -> DeletedKeys:
        table = self._output.capabilities.table
        assert table is not None
        layout = key_layout(source_table)
        schema = schema_of(layout)
        found = find_deleted_keys(
            read_keys(self._flow.source, source_table),
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
