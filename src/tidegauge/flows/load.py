"""A flow that finds its rows in a lake: what another one has committed there and it has not loaded yet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tidegauge.errors import OutputDisagrees
from tidegauge.flows.drift import decide_drift
from tidegauge.model.batch_data import BatchRows, LakeFile, ReadBatch
from tidegauge.model.plan import Batch, Draft, Plan
from tidegauge.model.position import FilesPosition, Position, to_moment
from tidegauge.model.protocols.output import Output
from tidegauge.model.spec import LakeTable, TableFlow
from tidegauge.model.table import Layout
from tidegauge.model.watermark import Watermark
from tidegauge.outputs.lake.manifest import Manifest, Numbered
from tidegauge.outputs.lake.table import chain, load_all
from tidegauge.outputs.warehouse.lake_files import check as check_files
from tidegauge.plan import files
from tidegauge.plan.draft import check_history, is_whole
from tidegauge.plan.files import Chain, LakeBatches
from tidegauge.storage.parquet_split import ParquetSplit
from tidegauge.storage.store import open_store


def prepare_load(
    flow: TableFlow, output: Output, mark: Watermark | None, upstream: Watermark | None
) -> tuple[Draft, ReadBatch, tuple[str, ...]]:
    """Only what the ledger has counted of the other flow: a batch beyond that may turn out to be none."""
    assert flow.reads is not None
    store, place = open_store(flow.reads.lake), str(flow.reads)
    epoch, seq = (upstream.epoch, upstream.seq) if upstream else (0, 0)
    row = chain(store, flow.reads.folder, epoch, seq)
    known = mark.source_id if mark else None
    after, note = files.begins(flow, _number(mark.position if mark else None), known, place, row)
    manifests = _manifests(flow.reads, row, after, files.length(row))
    for one in manifests:
        check_history(flow, _layout(flow, one))
    pieces = [
        LakeBatches(after + number, one.rows, _layout(flow, one).fingerprint, _newest(one))
        for number, one in enumerate(manifests, start=1)
    ]
    # A plan of no batches moves nothing, so it must not change along which chain the watermark is counted.
    source_id = files.identity(place, row) if pieces or known is None or note is None else known
    made = files.draft_files(flow, after, pieces, source_id=source_id)
    changes: dict[str, None] = {}
    held = output.layout() if manifests else None
    if held is not None:
        for layout in dict.fromkeys(_layout(flow, one) for one in manifests):
            same = mark is not None and mark.fingerprint == layout.fingerprint
            changes |= dict.fromkeys(decide_drift(flow, output, held, layout, known=same).notes)
    if note is not None:
        changes = {note: None, **changes}
    return made, _read_batch(flow, output, row), tuple(changes)


def recall_load(flow: TableFlow, output: Output, plan: Plan) -> ReadBatch:
    """Along the chain that the plan was counted along, wherever the lake's readers have gone since."""
    return _read_batch(flow, output, files.chain_of(plan.draft.inputs[0].source_id))


def has_caught_up(flow: TableFlow, mark: Watermark, upstream: Watermark) -> bool:
    """Whether all that the other flow has committed is loaded."""
    assert flow.reads is not None
    row = chain(open_store(flow.reads.lake), flow.reads.folder, upstream.epoch, upstream.seq)
    loaded = _number(mark.position)
    after, _ = files.begins(flow, loaded, mark.source_id, str(flow.reads), row)
    return after == loaded == files.length(row)


def rows_between(flow: TableFlow, upstream: Watermark | None, after: int, upto: int) -> int:
    """Rows in the committed batches `(after, upto]` of the lake table, as far as there are so many."""
    assert flow.reads is not None
    epoch, seq = (upstream.epoch, upstream.seq) if upstream else (0, 0)
    row = chain(open_store(flow.reads.lake), flow.reads.folder, epoch, seq)
    return sum(one.rows for one in _manifests(flow.reads, row, after, min(upto, files.length(row))))


def check_whole(flow: TableFlow, upstream: Watermark | None) -> None:
    """Refuse, by OutputDisagrees, a lake from which the target could not be filled from the beginning: a
    manifest or a file is not there, or is not as it was committed, or there are none at all."""
    assert flow.reads is not None
    epoch, seq = (upstream.epoch, upstream.seq) if upstream else (0, 0)
    row = chain(open_store(flow.reads.lake), flow.reads.folder, epoch, seq)
    manifests = _manifests(flow.reads, row, 0, files.length(row))
    if not manifests:
        raise OutputDisagrees(f"{flow.reads} has no batch", hint="run the stage `extract` first")
    for one in manifests:
        check_history(flow, _layout(flow, one))
        check_files(_files(flow.reads, [one]))


def _files(folder: LakeTable, manifests: Sequence[Manifest]) -> tuple[LakeFile, ...]:
    return tuple(
        LakeFile(folder.lake, f"{folder.folder}/{file.path}", file.rows, file.bytes)
        for manifest in manifests
        for file in manifest.files
    )


def _read_batch(flow: TableFlow, output: Output, row: Chain) -> ReadBatch:
    folder = flow.reads
    assert folder is not None

    def read_batch(batch: Batch) -> BatchRows:
        (window,) = batch.windows
        if is_whole(flow):
            manifests = _newest_whole(folder, row, _number(window.upto))
        else:
            manifests = _manifests(folder, row, _number(window.after), _number(window.upto))
        layout = _layout(flow, manifests[-1])
        held = output.layout()
        if held is not None:
            layout = decide_drift(flow, output, held, layout, known=True).layout
        found = _files(folder, manifests)
        alike = len(list(groupby(manifests, key=lambda one: one.schema))) == 1
        as_they_are = alike and layout.fields == manifests[-1].schema
        return BatchRows(
            layout,
            sum(file.rows for file in found),
            # Whoever reads the files by himself would not see where their columns differ.
            files=found if as_they_are else (),
            splits=tuple(ParquetSplit(file, layout) for file in found),
            paths=tuple(f"{folder.lake.path}/{file.path}" for file in found),
        )

    return read_batch


def _manifests(folder: LakeTable, row: Chain, after: int, upto: int) -> Sequence[Manifest]:
    wanted = [Numbered(*files.number(row, place)) for place in range(after + 1, upto + 1)]
    return load_all(open_store(folder.lake), folder.folder, wanted)


def _newest(manifest: Manifest) -> str | None:
    """The time of the batch's newest row, at which its window ends."""
    at = to_moment(manifest.windows[0].upto, manifest.cursor, None)
    return None if at is None else at.isoformat()


def _newest_whole(folder: LakeTable, row: Chain, upto: int) -> Sequence[Manifest]:
    """Of a lake that gets the whole table each time, what came last: from the last batch on that began where
    the first one did. Those between them are of a version that read only what was new."""
    manifests = _manifests(folder, row, 0, upto)
    begins = (None, manifests[0].windows[0].after)
    last = max(place for place, one in enumerate(manifests) if one.windows[0].after in begins)
    return manifests[last:]


def _layout(flow: TableFlow, manifest: Manifest) -> Layout:
    key = manifest.key or flow.options.key
    if not key:
        raise OutputDisagrees(
            f"{flow.name}: what {flow.upstream} wrote does not say the key of its rows",
            hint="an older version wrote it: name the columns with `key:`",
        )
    return Layout(flow.table, manifest.schema, key, manifest.cursor, manifest.cursor_column)


def _number(position: Position | None) -> int:
    assert position is None or isinstance(position, FilesPosition)
    return position.sequence if position else 0
