"""Rewrites many small files of committed batches as few large ones.

A compacted file has the rows of the files that it replaces, in their order, and the number of each row's
batch in a last column. The manifest of each batch gets one more field, which says where its rows are now; its
own files stay until `files clean` deletes them. A batch is read from either place with the same rows in the
same order, so no two manifests have to change at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from tidegauge.errors import OutputDisagrees
from tidegauge.model.arrow import schema_of
from tidegauge.model.batch_data import BatchRows, LakeFile
from tidegauge.model.spec import Lake, TableName
from tidegauge.model.staged import DataFile
from tidegauge.model.table import Field, Layout
from tidegauge.outputs.lake.manifest import (
    MANIFESTS,
    BatchNumber,
    Compaction,
    Manifest,
    mark_compacted,
    name_compaction,
    parse,
    path_of,
)
from tidegauge.outputs.lake.splits import GROUP_ROWS, write_here
from tidegauge.outputs.lake.table import SEQ, lake_files, load_all
from tidegauge.storage.folder import check_folder
from tidegauge.storage.parquet_split import ParquetSplit
from tidegauge.storage.store import Store, open_store

if TYPE_CHECKING:
    import pyarrow as pa

TARGET_BYTES = 128 * 2**20
_LEAST_GROUP_ROWS = 16_384
"""The least rows in a row group, though a reader of one small batch has to decode a whole one: so many rows
are decoded quickly."""


@dataclass(frozen=True)
class CompactionGroup:
    """A group of batches that are, or would be, rewritten together."""

    manifests: tuple[Manifest, ...]
    files: tuple[DataFile, ...] = ()
    """The compacted files; empty in a preview."""
    kept: tuple[int, ...] = ()
    """Batches that somebody else has compacted or cleaned in the meantime: they stay as they are."""

    @property
    def epoch(self) -> int:
        return self.manifests[0].tag.epoch

    @property
    def first(self) -> int:
        return self.manifests[0].tag.seq

    @property
    def last(self) -> int:
        return self.manifests[-1].tag.seq

    @property
    def before(self) -> tuple[DataFile, ...]:
        """The files that the rows were in."""
        return tuple({one.path: one for manifest in self.manifests for one in manifest.sources}.values())

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.before)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.manifests)

    @property
    def _is_compacted(self) -> bool:
        return any(one.compacted for one in self.manifests)


def compact(
    lake: Lake,
    folder: str,
    batches: Sequence[BatchNumber],
    *,
    older_than: timedelta = timedelta(0),
    target: int = TARGET_BYTES,
    reason: str | None,
    store: Store | None = None,
) -> tuple[CompactionGroup, ...]:
    """Rewrite the small files of these batches, which have to be in the order that readers see, and return
    the groups. Without a reason nothing is rewritten. `older_than`: how old a batch has to be.

    If the process is killed half-way, it leaves files that no manifest names, and batches that are read as
    before.
    """
    store = store or open_store(lake)
    top = check_folder(folder)
    if not batches:
        return ()
    dated = {entry.path: entry.modified for entry in store.list(f"{top}/{MANIFESTS}")}
    now = store.now()
    dates = {one: dated.get(path_of(top, one.epoch, one.seq), now) for one in batches}
    manifests = load_all(store, top, [one for one in batches if dates[one] <= now - older_than])
    groups = choose_groups(manifests, target)
    if reason is None:
        return tuple(groups)
    return tuple(_rewrite(lake, top, store, one, dates, target, reason) for one in groups)


def choose_groups(manifests: Sequence[Manifest], target: int) -> list[CompactionGroup]:
    """Which batches are rewritten together: neighbours of one epoch with the same columns, up to `target`
    bytes.

    Files of at least half that size stay. Batches that were compacted before are only rewritten together with
    at least as many new rows, so that a row is rewritten no more often than the table doubles.
    """
    fit = [one for one in manifests if one.files and not one.gone]
    found: list[CompactionGroup] = []
    for (_, schema), run in groupby(fit, key=lambda one: (one.tag.epoch, one.schema)):
        if any(field.name.lower() == SEQ for field in schema):
            continue  # the name of the column for the batch's number is taken
        pending: list[CompactionGroup] = []
        size = 0
        for unit in _split_units(run):
            large = 2 * unit.bytes >= target * len(unit.before)
            if pending and (large or size + unit.bytes > target):
                found += _join(pending, target)
                pending, size = [], 0
            if not large:
                pending.append(unit)
                size += unit.bytes
        found += _join(pending, target)
    return found


def _split_units(manifests: Iterator[Manifest]) -> Iterator[CompactionGroup]:
    """The batches as the smallest groups that can be rewritten: one batch, or all that share a compacted
    file."""
    unit: list[Manifest] = []
    shared: set[str] = set()
    for one in manifests:
        paths = {file.path for file in one.sources}
        if unit and shared.isdisjoint(paths):
            yield CompactionGroup(tuple(unit))
            unit, shared = [], set()
        unit.append(one)
        shared |= paths
    if unit:
        yield CompactionGroup(tuple(unit))


def _join(units: Sequence[CompactionGroup], target: int) -> Iterator[CompactionGroup]:
    """These units as one group, if that makes fewer files."""
    units = list(units)
    while units and units[0]._is_compacted and units[0].rows > sum(one.rows for one in units[1:]):
        units.pop(0)
    if not units:
        return
    joined = CompactionGroup(tuple(manifest for one in units for manifest in one.manifests))
    if len(joined.before) > max(1, -(-joined.bytes // target)):
        yield joined


@dataclass(frozen=True)
class _JoinedSplit:
    """A `model.batch_data.Split` over many files, except that a key may come again in a later batch."""

    layout: Layout
    """The batches' columns, and the number of the batch."""
    parts: tuple[tuple[int, LakeFile], ...]
    """The files, each with the number of its batch; for a compacted file, whose rows have the number
    themselves, the number of its first batch."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = schema_of(self.layout)
        for seq, file in self.parts:
            for batch in ParquetSplit(file, self.layout).batches():
                if file.first is None:
                    numbers = pa.repeat(pa.scalar(seq, pa.int64()), batch.num_rows)
                    batch = pa.RecordBatch.from_arrays([*batch.columns[:-1], numbers], schema=schema)
                yield batch


def _read_at_once(pieces: Sequence[tuple[int, LakeFile]]) -> Iterator[tuple[int, LakeFile]]:
    """Join neighbouring pieces of one compacted file, so that its row groups are read once."""
    held: tuple[int, LakeFile] | None = None
    for seq, file in pieces:
        if held and file.first is not None and held[1].path == file.path:
            number, before = held
            if before.first is not None and before.first + before.rows == file.first:
                held = (number, replace(before, rows=before.rows + file.rows))
                continue
        if held:
            yield held
        held = (seq, file)
    if held:
        yield held


def _rewrite(
    lake: Lake,
    folder: str,
    store: Store,
    group: CompactionGroup,
    dates: dict[BatchNumber, datetime],
    target: int,
    reason: str,
) -> CompactionGroup:
    """Write the compacted files durably, and then name them in each manifest that nobody has changed in the
    meantime."""
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(partial(_read, store, folder), group.manifests))
    pieces = [(one.tag.seq, file) for one in group.manifests for file in lake_files(lake, folder, [one])]
    cuts = list(_cut(pieces, -(-group.bytes // target)))
    fields = (*group.manifests[0].schema, Field(SEQ, "bigint", "bigint"))
    layout = Layout(TableName(None, folder), fields, (), "value", None)
    written = write_here(
        lake,
        f"{folder}/{name_compaction(group.epoch, group.first, group.last)}",
        BatchRows(
            layout, group.rows, splits=tuple(_JoinedSplit(layout, tuple(_read_at_once(cut))) for cut in cuts)
        ),
        group_rows=min(max(_LEAST_GROUP_ROWS, group.rows // len(pieces)), GROUP_ROWS),
    )
    start = len(folder) + 1
    files = tuple(replace(one, path=one.path[start:]) for one in written)
    places: list[DataFile] = []
    for file, cut in zip(files, cuts, strict=True):
        first = 0
        for _, piece in cut:
            places.append(DataFile(file.path, piece.rows, file.bytes, first))
            first += piece.rows
        if first != file.rows:
            raise OutputDisagrees(
                f"{first} rows were to be compacted in {store.place}/{folder}, and {file.rows} were written",
                hint="nothing was changed: run again",
            )
    at = store.now().isoformat()
    switches: list[tuple[Manifest, tuple[bytes, str] | None, Compaction]] = []
    for one, body in zip(group.manifests, read, strict=True):
        ours, places = places[: len(one.files)], places[len(one.files) :]
        old = one.compacted
        before = (*old.before, *dict.fromkeys(file.path for file in old.files)) if old else ()
        committed = old.committed if old else dates[BatchNumber(one.tag.epoch, one.tag.seq)].isoformat()
        switches.append((one, body, Compaction(at, reason, committed, tuple(ours), before)))
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda wanted: _switch(store, folder, *wanted), switches))
    kept = [one.tag.seq for one, switched in zip(group.manifests, done, strict=True) if not switched]
    return replace(group, files=files, kept=tuple(kept))


def _cut(pieces: Sequence[tuple[int, LakeFile]], count: int) -> Iterator[list[tuple[int, LakeFile]]]:
    """Cut the pieces into at most `count` parts with about the same number of rows."""
    most = -(-sum(file.rows for _, file in pieces) // count)
    part: list[tuple[int, LakeFile]] = []
    rows = 0
    for piece in pieces:
        part.append(piece)
        rows += piece[1].rows
        if rows >= most:
            yield part
            part, rows = [], 0
    if part:
        yield part


def _read(store: Store, folder: str, seen: Manifest) -> tuple[bytes, str] | None:
    """A manifest as it is now, and its token; None where its rows are gone or have moved since it was
    chosen."""
    path = path_of(folder, seen.tag.epoch, seen.tag.seq)
    found = store.read(path)
    now = None if found is None else parse(found[0], f"{store.place}/{path}")
    return found if now and not now.gone and now.sources == seen.sources else None


def _switch(
    store: Store, folder: str, seen: Manifest, read: tuple[bytes, str] | None, compaction: Compaction
) -> bool:
    """Name the compacted files in a manifest; False where somebody has replaced it since it was read.

    It was read before those files were written, and is never read again: whoever deletes such a file replaces
    the manifests first (`files.clean`). So even a late call cannot name a file that is gone.
    """
    if read is None:
        return False
    body, token = read
    path = path_of(folder, seen.tag.epoch, seen.tag.seq)
    return store.replace(path, mark_compacted(body, compaction), token) is not None
