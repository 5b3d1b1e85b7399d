"""A flow of a table from a lake to a warehouse or a Delta table: it loads what was extracted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tidegauge.errors import OutputDisagrees, SourceError
from tidegauge.flows.override.load import LoadOverridePreviewer
from tidegauge.flows.override.preview import OverridePreview, OverrideRequest
from tidegauge.flows.recall import find_chain
from tidegauge.flows.table.base import NewRows, TableFlowBase
from tidegauge.flows.table.drift import decide_drift
from tidegauge.flows.table.emptying import check_emptied
from tidegauge.model.batch_data import BatchRows
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.mode import OutputKind
from tidegauge.model.plan import Batch, Plan
from tidegauge.model.position import FilesPosition, Position, to_moment
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.protocols.output import Output
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import LakeTable, TableFlow
from tidegauge.model.table import COPY, Layout
from tidegauge.model.watermark import Recalled, Watermark
from tidegauge.outputs.lake.manifest import BatchNumber, Manifest, refuse_removed
from tidegauge.outputs.lake.table import chain, lake_files, load_all
from tidegauge.outputs.recall import RecalledEpoch
from tidegauge.outputs.warehouse.lake_files import check as check_files
from tidegauge.plan import lake_batches
from tidegauge.plan.draft import check_scd2_cursor, is_whole
from tidegauge.plan.drift import ChangeKind
from tidegauge.plan.lake_batches import Chain, LakeBatch
from tidegauge.storage.parquet_split import ParquetSplit
from tidegauge.storage.store import open_store
from tidegauge.transform.mark import check_marks


class LoadFlow(TableFlowBase):
    """Reads the lake's batches up to the extract's watermark. A batch past it may not be confirmed yet."""

    def find_new(self, *, limit: int | None, confirm_deletes: bool, refreshing: bool) -> NewRows:  # noqa: ARG002
        """Find the lake's batches that are not loaded yet. `limit` is ignored: a batch is loaded whole."""
        spec, mark, folder = self.spec, self.mark, _lake_table(self.spec)
        lake_chain = _find_chain(spec, self.upstream)
        known = mark.source_id if mark else None
        after, note = lake_batches.find_load_start(
            spec, _number(mark.position if mark else None), known, str(folder), lake_chain
        )
        manifests = _manifests(folder, lake_chain, after, lake_batches.count_batches(lake_chain))
        if not is_whole(spec):  # a flow that is whole reads only the last copy
            _refuse_removed(spec, manifests)
        for layout in dict.fromkeys(_layout(spec, one) for one in manifests):
            check_scd2_cursor(spec, layout)
            check_marks(spec.options.expect, layout)
        pieces = [
            LakeBatch(after + number, one.rows, _layout(spec, one).fingerprint, _newest(one))
            for number, one in enumerate(manifests, start=1)
        ]
        # A plan without batches must not change the chain along which the watermark counts.
        source_id = (
            lake_batches.identity(str(folder), lake_chain)
            if pieces or known is None or note is None
            else known
        )
        whole = bool(manifests) and _is_whole(spec, manifests[-1])
        draft = lake_batches.draft_files(spec, after, pieces, source_id=source_id, whole=whole)
        changes = (*((note,) if note is not None else ()), *self._column_changes(manifests))
        rows = _LakeRows(spec, self.output, lake_chain)
        if not refreshing:
            check_emptied(spec, draft, rows.batch_data, self.output, confirmed=confirm_deletes)
        return NewRows(draft, rows.batch_data, tuple(dict.fromkeys(changes)))

    def check_source(self) -> None:
        """Nothing to check: the flow reads a lake, and may go on while the database is down."""

    def find_again(self, plan: Plan) -> NewRows:
        """Read along the chain that the plan was made with, even if the lake has another chain by now."""
        (part,) = plan.draft.inputs
        lake_chain = lake_batches.parse_chain(part.source_id)
        if part.window is not None and part.window.after != part.window.upto:
            last = _number(part.window.upto)
            (newest,) = _manifests(_lake_table(self.spec), lake_chain, last - 1, last)
            self.refuse_lost_columns(_layout(self.spec, newest))
        return NewRows(plan.draft, _LakeRows(self.spec, self.output, lake_chain).batch_data)

    def preview_override(
        self,
        request: OverrideRequest,
        status: FlowStatus | None,
        every: Sequence[DataFlow],
        ledger: LedgerReader,  # noqa: ARG002
    ) -> OverridePreview:
        previewer = LoadOverridePreviewer(self.spec, status, self.mark, self.upstream, self.count_rows)
        return previewer.preview(request, every)

    def count_rows(self, after: int, upto: int) -> int:
        """Count the rows in the committed batches `(after, upto]` of the lake table, as far as they exist."""
        lake_chain = _find_chain(self.spec, self.upstream)
        manifests = _manifests(
            _lake_table(self.spec), lake_chain, after, min(upto, lake_batches.count_batches(lake_chain))
        )
        return sum(one.rows for one in manifests)

    def recall_mark(self, found: RecalledEpoch) -> tuple[Recalled, tuple[str, ...]]:
        position = found.windows[-1].upto if found.windows else None
        source_id, notes = find_chain(_lake_table(self.spec), position)
        return Recalled("files", position, source_id), tuple(notes)

    def find_compared(self, marks: Mapping[str, Watermark]) -> Watermark | None:
        """The watermark of the extract, once all that it has committed is loaded."""
        mark = marks.get(self.spec.name)
        if mark is None:
            return None
        upper = marks.get(self.spec.upstream or "")
        if upper is not None and not has_caught_up(self.spec, mark, upper):
            raise SourceError(
                f"{self.spec.name} has not loaded all that is in the lake, so it cannot be compared yet",
                hint=f"`tidegauge sync -t {self.spec.table} --stage load` loads the rest",
            )
        return upper

    def check_refillable(self) -> None:
        """Raise OutputDisagrees if the target could not be filled from the lake's beginning: a manifest or a
        file is missing or not as it was committed, or the lake has no batch."""
        spec, folder = self.spec, _lake_table(self.spec)
        lake_chain = _find_chain(spec, self.upstream)
        manifests = _manifests(folder, lake_chain, 0, lake_batches.count_batches(lake_chain))
        if not manifests:
            raise OutputDisagrees(f"{folder} has no batch", hint="run the stage `extract` first")
        if is_whole(spec):
            manifests = _newest_whole(folder, lake_chain, lake_batches.count_batches(lake_chain))
        _refuse_removed(spec, manifests)
        for one in manifests:
            check_scd2_cursor(spec, _layout(spec, one))
            check_marks(spec.options.expect, _layout(spec, one))
            check_files(lake_files(folder.lake, folder.folder, [one]))

    def _column_changes(self, manifests: Sequence[Manifest]) -> Iterator[str]:
        # A target that was just seen not to exist yet need not be asked for its columns.
        held = self.output.layout() if manifests and not self.is_seen_new else None
        if held is None:
            return
        for layout in dict.fromkeys(_layout(self.spec, one) for one in manifests):
            same = self.mark is not None and self.mark.fingerprint == layout.fingerprint
            decision = decide_drift(self.spec, self.output, held, layout, columns_unchanged=same)
            if any(change.kind is ChangeKind.ADDED for change in decision.changes):
                self.refuse_lost_columns(layout)
            yield from decision.notes


def has_caught_up(flow: TableFlow, mark: Watermark, upstream: Watermark) -> bool:
    """Whether the flow has loaded all batches up to the watermark of its extract (`upstream`)."""
    lake_chain = _find_chain(flow, upstream)
    loaded = _number(mark.position)
    after, _ = lake_batches.find_load_start(flow, loaded, mark.source_id, str(_lake_table(flow)), lake_chain)
    return after == loaded == lake_batches.count_batches(lake_chain)


def _lake_table(flow: TableFlow) -> LakeTable:
    assert flow.reads is not None
    return flow.reads


def _find_chain(flow: TableFlow, upstream: Watermark | None) -> Chain:
    """The chain of the lake's batches, up to the extract's watermark (`upstream`)."""
    folder = _lake_table(flow)
    epoch, seq = (upstream.epoch, upstream.seq) if upstream else (0, 0)
    return chain(open_store(folder.lake), folder.folder, epoch, seq)


@dataclass(frozen=True)
class _LakeRows:
    """Reads the rows of a load's batches from the lake's files."""

    flow: TableFlow
    output: Output
    lake_chain: Chain

    def batch_data(self, batch: Batch) -> BatchRows:
        (window,) = batch.windows
        folder = _lake_table(self.flow)
        manifests = _manifests(folder, self.lake_chain, _number(window.after), _number(window.upto))
        if _is_whole(self.flow, manifests[-1]):
            manifests = _newest_whole(folder, self.lake_chain, _number(window.upto))
        _refuse_removed(self.flow, manifests)
        layout = _layout(self.flow, manifests[-1])
        held = self.output.layout()
        if held is not None:
            layout = decide_drift(self.flow, self.output, held, layout, columns_unchanged=True).layout
        found = lake_files(folder.lake, folder.folder, manifests)
        alike = len(list(groupby(manifests, key=lambda one: one.schema))) == 1
        as_they_are = alike and layout.fields == manifests[-1].schema
        return BatchRows(
            layout,
            sum(file.rows for file in found),
            # An output that reads files directly would not see that their columns differ.
            files=found if as_they_are else (),
            splits=tuple(ParquetSplit(file, layout) for file in found),
            paths=tuple(dict.fromkeys(f"{folder.lake.path}/{file.path}" for file in found)),
        )


def _manifests(folder: LakeTable, lake_chain: Chain, after: int, upto: int) -> Sequence[Manifest]:
    wanted = [
        BatchNumber(*lake_batches.find_tag_numbers(lake_chain, number))
        for number in range(after + 1, upto + 1)
    ]
    return load_all(open_store(folder.lake), folder.folder, wanted)


def _refuse_removed(flow: TableFlow, manifests: Sequence[Manifest]) -> None:
    anew = f"`tidegauge run --select {flow.table} --full-refresh` reads it whole, through the lake"
    refuse_removed(f"{flow.name}: {flow.reads}", manifests, anew)


def _is_whole(flow: TableFlow, manifest: Manifest) -> bool:
    """Whether each batch is the whole table. The manifest says it too, if the database cannot be asked."""
    return is_whole(flow) or manifest.cursor == COPY


def _newest(manifest: Manifest) -> str | None:
    """The time at which the batch's window ends, of its newest row or of the copy; None: it is no time."""
    kind = "timestamp" if manifest.cursor == COPY else manifest.cursor
    at = to_moment(manifest.windows[0].upto, kind, None)
    return None if at is None else at.isoformat()


def _newest_whole(folder: LakeTable, lake_chain: Chain, upto: int) -> Sequence[Manifest]:
    """Find the batches of the last copy, in a lake that gets the whole table in each run: from the last batch
    on whose window begins where the first one's does. Older versions of Tidegauge wrote incremental batches
    in between."""
    manifests = _manifests(folder, lake_chain, 0, upto)
    begins = (None, manifests[0].windows[0].after)
    last = max(place for place, one in enumerate(manifests) if one.windows[0].after in begins)
    return manifests[last:]


def _layout(flow: TableFlow, manifest: Manifest) -> Layout:
    """The layout of a batch's rows. Raises OutputDisagrees if the mode needs a key and none is known."""
    key = manifest.key or flow.options.key
    if not key and flow.options.mode.needs_key(OutputKind.DELTA):
        raise OutputDisagrees(
            f"{flow.name}: what {flow.upstream} wrote does not say the key of its rows",
            hint="an older version wrote it: name the columns with `key:`",
        )
    return Layout(flow.table, manifest.schema, key, manifest.cursor, manifest.cursor_column)


def _number(position: Position | None) -> int:
    assert position is None or isinstance(position, FilesPosition)
    return position.sequence if position else 0
