"""The files in a table's folder: which are committed, which were left by dead attempts, and how those are
deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from tidegauge.model.spec import Lake
from tidegauge.model.staged import DataFile
from tidegauge.outputs.lake.epochs import contents, follow
from tidegauge.outputs.lake.manifest import (
    COMPACTED,
    COMPACTIONS,
    COPIES,
    DATA,
    MANIFESTS,
    BatchNumber,
    Manifest,
    Removal,
    compacted_batches,
    mark_removed,
    mark_touched,
    parse,
    path_of,
)
from tidegauge.outputs.lake.table import CommittedFile, load_all
from tidegauge.storage.folder import check_folder
from tidegauge.storage.local import TEMPORARY
from tidegauge.storage.store import Entry, Store, open_store

SAFE_AGE = timedelta(days=7)
"""How old a leftover has to be. The files of an attempt that still runs are in no manifest either, and only
their age tells them apart."""


LEFTOVER = "leftover"


@dataclass(frozen=True)
class DeletableFile:
    """A file that may be deleted."""

    path: str
    """Relative to the table's folder."""
    bytes: int
    modified: datetime
    touched: datetime
    """When its attempt last wrote anything; the age is counted from here."""
    temporary: bool
    """Whether it is an unfinished manifest, or the manifest of a COPY that was killed, and not data."""
    why: str = LEFTOVER
    """Why it is deleted: LEFTOVER; LOADED or EARLIER, where a person asked for it; or COMPACTED."""


@dataclass(frozen=True)
class TableFiles:
    """All files of a table, by what they are."""

    committed: tuple[CommittedFile, ...]
    """The files that readers of the table read."""
    earlier: tuple[CommittedFile, ...]
    """Files of earlier epochs: readers no longer read them, but an undo would bring them back."""
    leftovers: tuple[DeletableFile, ...]
    missing: tuple[CommittedFile, ...]
    """Files that a manifest names and that do not exist: the table is damaged, or would be after an undo."""
    removed: tuple[CommittedFile, ...] = ()
    """Files of batches that were cleaned away; most of them no longer exist."""
    replaced: tuple[CommittedFile, ...] = ()
    """Existing files whose batches are now read from compacted files."""
    there: Mapping[str, Entry] = field(default_factory=dict)
    """Every existing data file and compacted file, by its path in the table's folder."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests of every epoch."""


def survey(lake: Lake, folder: str, *, store: Store | None = None) -> TableFiles:
    """List all files of a table. It changes nothing."""
    store = store or open_store(lake)
    top = check_folder(folder)
    there = _list_files(store, top)
    # Manifests are listed after the files, so that files committed in between count as committed.
    found = contents(store, top)
    counted = follow(store, top, found)
    rest = sorted(set(found.batches) - set(counted))
    kept = [load_all(store, top, batches) for batches in (counted, rest)]
    current, earlier = (_name_sources([one for one in part if not one.gone]) for part in kept)
    named = current + earlier
    manifests = tuple(one for part in kept for one in part)
    used = {one.file.path for one in named}
    removed, others = (_name_others(manifests, used, gone=gone) for gone in (True, False))
    known = used | {one.file.path for one in removed + others}
    replaced = tuple(one for one in others if one.file.path in there)
    leftovers = tuple(_find_leftovers(store, top, there, known))
    lost = _find_missing(store, top, named, there)
    return TableFiles(
        tuple(current), tuple(earlier), leftovers, tuple(lost), tuple(removed), replaced, there, manifests
    )


def _list_files(store: Store, top: str) -> dict[str, Entry]:
    entries = (entry for part in (DATA, COMPACTIONS) for entry in store.list(f"{top}/{part}"))
    return {entry.path[len(top) + 1 :]: entry for entry in entries}


def _find_missing(
    store: Store, top: str, named: Sequence[CommittedFile], there: Collection[str]
) -> list[CommittedFile]:
    """The named files that do not exist. Each is asked for again: one that was committed after the listing is
    not missing."""
    unseen = [one for one in named if one.file.path not in there]
    return [one for one in unseen if _is_gone(store, f"{top}/{one.file.path}")]


def _find_leftovers(
    store: Store, top: str, there: Mapping[str, Entry], known: Collection[str]
) -> list[DeletableFile]:
    """Data files that no manifest names, and manifests that were never finished or are of a killed COPY."""
    touched: dict[str, datetime] = {}
    for path, entry in there.items():
        attempt = _attempt_of(path)
        touched[attempt] = max(entry.modified, touched.get(attempt, entry.modified))
    leftovers = [
        DeletableFile(path, entry.bytes, entry.modified, touched[_attempt_of(path)], False)
        for path, entry in there.items()
        if path not in known
    ]
    leftovers += [
        DeletableFile(entry.path[len(top) + 1 :], entry.bytes, entry.modified, entry.modified, True)
        for entry in store.list(f"{top}/{MANIFESTS}")
        if entry.path.endswith(TEMPORARY) or entry.path.startswith(f"{top}/{COPIES}/")
    ]
    return sorted(leftovers, key=lambda one: one.path)


def clean(
    lake: Lake,
    folder: str,
    *,
    older_than: timedelta = SAFE_AGE,
    preview: bool = False,
    store: Store | None = None,
    batches: Mapping[BatchNumber, str] | None = None,
    reason: str = "",
) -> tuple[DeletableFile, ...]:
    """Delete the leftovers of attempts that wrote nothing for this long, and the files that a compaction
    replaced this long ago. Returns what was deleted; with `preview`, what would be.

    The files of `batches`, which are given with the reason why, are deleted too: the caller vouches that no
    reader needs them. Their manifests are marked first, so that a table without these files is never taken
    for a complete one; if the process is killed in between, the next call goes on. No other file that a
    manifest of any epoch names is deleted. Age is counted on the store's clock, for a batch from its commit.
    With less than the default, the caller vouches that no attempt of that age still runs.
    """
    store = store or open_store(lake)
    now = store.now()
    limit = now - older_than
    found = survey(lake, folder, store=store)
    chosen = _keep_together(
        found.manifests, _find_older(store, folder, found.manifests, batches or {}, limit)
    )
    replaced = dict.fromkeys(_find_replaced(found, limit), COMPACTED)
    if not preview:
        marks = [(one, Removal(now.isoformat(), why, reason)) for one, why in (replaced | chosen).items()]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(partial(_mark, store, folder), marks))
        found = survey(lake, folder, store=store)
    old = _find_old(found, limit, chosen, replaced)
    packed = [one.path for one in old if one.path.startswith(f"{COMPACTIONS}/")]
    if packed and not preview:
        _touch(store, folder, found.manifests, packed)
        old = _find_old(survey(lake, folder, store=store), limit, chosen, replaced)
    if not preview:
        _delete(store, folder, old)
    return old


def _find_old(
    found: TableFiles, limit: datetime, chosen: Mapping[BatchNumber, str], replaced: Collection[BatchNumber]
) -> tuple[DeletableFile, ...]:
    leftovers = tuple(one for one in found.leftovers if one.touched < limit)
    # Without batches that were compacted again since: the files that they were in were only now replaced.
    return leftovers + _of_batches(found, chosen, set(replaced).intersection(_find_replaced(found, limit)))


def _touch(store: Store, folder: str, manifests: Sequence[Manifest], packed: Sequence[str]) -> None:
    """Replace the manifests in which a paused compaction may be about to name these compacted files. It has
    the manifests' tokens from before it wrote the files, so it can no longer replace them."""
    spans = [compacted_batches(path) for path in packed]
    numbers = [
        number
        for one in manifests
        if not one.gone
        for number in (_batch_number(one),)
        if any(span is None or _is_within(number, span) for span in spans)
    ]

    def touch(one: BatchNumber) -> None:
        path = path_of(folder, one.epoch, one.seq)
        while (found := store.read(path)) is not None:
            if store.replace(path, mark_touched(found[0]), found[1]) is not None:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(touch, numbers))


def _is_within(number: BatchNumber, span: tuple[int, int, int]) -> bool:
    epoch, first, last = span
    return number.epoch == epoch and first <= number.seq <= last


def _delete(store: Store, folder: str, old: Sequence[DeletableFile]) -> None:
    for part in (DATA, COMPACTIONS, MANIFESTS):
        paths = [f"{folder}/{one.path}" for one in old if one.path.startswith(f"{part}/")]
        if paths:
            store.delete(paths, below=f"{folder}/{part}")


def _find_older(
    store: Store,
    folder: str,
    manifests: Sequence[Manifest],
    batches: Mapping[BatchNumber, str],
    limit: datetime,
) -> dict[BatchNumber, str]:
    """Those of `batches` that were committed before `limit`."""
    if not batches:
        return {}
    dated = {entry.path: entry.modified for entry in store.list(f"{folder}/{MANIFESTS}")}
    found = {one: dated.get(path_of(folder, one.epoch, one.seq), limit) for one in sorted(batches)}
    found |= {
        _batch_number(one): datetime.fromisoformat(one.compacted.committed)
        for one in manifests
        if one.compacted
    }
    return {one: batches[one] for one in sorted(batches) if found[one] < limit}


def _keep_together(manifests: Sequence[Manifest], chosen: dict[BatchNumber, str]) -> dict[BatchNumber, str]:
    """The chosen batches without those that share a compacted file with a batch that stays: the file would
    have to stay too."""
    while True:
        stay = {
            file.path
            for one in manifests
            if one.compacted and not one.gone and _batch_number(one) not in chosen
            for file in one.sources
        }
        held = {_batch_number(one) for one in manifests if any(file.path in stay for file in one.sources)}
        if not held & set(chosen):
            return chosen
        chosen = {one: why for one, why in chosen.items() if one not in held}


def _find_replaced(found: TableFiles, limit: datetime) -> Iterator[BatchNumber]:
    """Batches whose earlier files may be deleted: they were compacted before `limit`, into files that exist
    and have the right size."""
    for one in found.manifests:
        if one.compacted and not one.gone and datetime.fromisoformat(one.compacted.at) < limit:
            sizes = [(file.bytes, found.there.get(file.path)) for file in one.sources]
            if all(entry is not None and entry.bytes == size for size, entry in sizes):
                yield _batch_number(one)


def _mark(store: Store, folder: str, wanted: tuple[BatchNumber, Removal]) -> None:
    """Mark in a manifest that its files are removed. It can be repeated; of two calls at once, one gives the
    reason."""
    one, removal = wanted
    path = path_of(folder, one.epoch, one.seq)
    while (found := store.read(path)) is not None:
        body, token = found
        now = parse(body, f"{store.place}/{path}")
        if now.gone or (now.removed and removal.why == COMPACTED):
            return
        if store.replace(path, mark_removed(body, removal), token) is not None:
            return


def _of_batches(
    found: TableFiles, chosen: Mapping[BatchNumber, str], replaced: Collection[BatchNumber]
) -> tuple[DeletableFile, ...]:
    """The files to delete of these batches, and of batches that were marked before but not finished.

    A file that another batch still needs is left out.
    """
    words: dict[str, str] = {}
    needed: set[str] = set()
    for one in found.manifests:
        number = _batch_number(one)
        why = chosen.get(number) or ("cleaned before" if one.gone else None)
        sources = {file.path for file in one.sources}
        paths = (
            {file.path for file in one.files} | {*(one.compacted.before if one.compacted else ())} | sources
        )
        if why is None:
            needed |= sources if number in replaced else paths
        for path in sorted(paths):
            words.setdefault(path, why or COMPACTED)
    return tuple(
        DeletableFile(path, entry.bytes, entry.modified, entry.modified, False, why)
        for path, why in words.items()
        if path not in needed and (entry := found.there.get(path)) is not None
    )


def _name_sources(manifests: Sequence[Manifest]) -> list[CommittedFile]:
    """The files that these batches are read from, each once, with its first and last batch."""
    named: dict[str, CommittedFile] = {}
    for one in manifests:
        for file in one.sources:
            known = named.get(file.path)
            rows = file.rows + (known.file.rows if known else 0)
            first = known.seq if known else one.tag.seq
            last = None if file.first is None else one.tag.seq
            named[file.path] = CommittedFile(
                one.tag.epoch, first, DataFile(file.path, rows, file.bytes), last
            )
    return list(named.values())


def _name_others(manifests: Sequence[Manifest], used: Collection[str], *, gone: bool) -> list[CommittedFile]:
    """Files that no batch is read from: with `gone`, the files of batches that were cleaned away; else those
    that had the rows before a compaction."""
    found: dict[str, CommittedFile] = {}
    for one in manifests:
        if bool(one.gone) is gone:
            before = one.compacted.before if one.compacted else ()
            for file in (*one.files, *(DataFile(path, 0, 0) for path in before), *one.sources):
                if file.path not in used:
                    found.setdefault(file.path, CommittedFile(one.tag.epoch, one.tag.seq, file))
    return list(found.values())


def _batch_number(manifest: Manifest) -> BatchNumber:
    return BatchNumber(manifest.tag.epoch, manifest.tag.seq)


def _attempt_of(path: str) -> str:
    """`data/<attempt>/part-…` → `data/<attempt>`."""
    return "/".join(path.split("/")[:2])


def _is_gone(store: Store, path: str) -> bool:
    folder, _, _ = path.rpartition("/")
    return all(entry.path != path for entry in store.list(folder))
