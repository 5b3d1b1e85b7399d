"""What lies in a table's folder: what is committed, what dead attempts left, and how that is cleared away."""

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
    Manifest,
    Numbered,
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
"""An attempt that still runs has files in no manifest too, and nothing but their age tells it apart."""


LEFTOVER = "leftover"


@dataclass(frozen=True)
class Leftover:
    path: str
    """Relative to the table's folder."""
    bytes: int
    modified: datetime
    touched: datetime
    """When its attempt last wrote anything; what the age is counted from."""
    temporary: bool
    """A manifest that was never finished, or one of a COPY that was killed, rather than data."""
    why: str = LEFTOVER
    """Or why it goes: LOADED or EARLIER, as a person asked; COMPACTED."""


@dataclass(frozen=True)
class Listing:
    committed: tuple[CommittedFile, ...]
    """What readers of the table read."""
    earlier: tuple[CommittedFile, ...]
    """Of earlier epochs of the table: no reader follows them, and an undo would bring them back."""
    leftovers: tuple[Leftover, ...]
    missing: tuple[CommittedFile, ...]
    """Named by a manifest and not there: the table is damaged, or an undo would be."""
    removed: tuple[CommittedFile, ...] = ()
    """Of batches that were cleaned away: most are not there any more."""
    replaced: tuple[CommittedFile, ...] = ()
    """Of batches that are read from compacted files now; those that are still there."""
    there: Mapping[str, Entry] = field(default_factory=dict)
    """Every data file and compacted file, by its path in the table's folder."""
    manifests: tuple[Manifest, ...] = ()
    """Of every epoch."""


def survey(lake: Lake, folder: str, *, store: Store | None = None) -> Listing:
    """Changes nothing."""
    store = store or open_store(lake)
    top = check_folder(folder)
    there = _list_files(store, top)
    # After the files, so that what is published in between is found to be committed.
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
    return Listing(
        tuple(current), tuple(earlier), leftovers, tuple(lost), tuple(removed), replaced, there, manifests
    )


def _list_files(store: Store, top: str) -> dict[str, Entry]:
    entries = (entry for part in (DATA, COMPACTIONS) for entry in store.list(f"{top}/{part}"))
    return {entry.path[len(top) + 1 :]: entry for entry in entries}


def _find_missing(
    store: Store, top: str, named: Sequence[CommittedFile], there: Collection[str]
) -> list[CommittedFile]:
    """Asked for once more: a file that was committed after the listing is not missing."""
    unseen = [one for one in named if one.file.path not in there]
    return [one for one in unseen if _is_gone(store, f"{top}/{one.file.path}")]


def _find_leftovers(
    store: Store, top: str, there: Mapping[str, Entry], known: Collection[str]
) -> list[Leftover]:
    """Data files that no manifest names, and manifests that were never finished."""
    touched: dict[str, datetime] = {}
    for path, entry in there.items():
        attempt = _attempt(path)
        touched[attempt] = max(entry.modified, touched.get(attempt, entry.modified))
    leftovers = [
        Leftover(path, entry.bytes, entry.modified, touched[_attempt(path)], False)
        for path, entry in there.items()
        if path not in known
    ]
    leftovers += [
        Leftover(entry.path[len(top) + 1 :], entry.bytes, entry.modified, entry.modified, True)
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
    batches: Mapping[Numbered, str] | None = None,
    reason: str = "",
) -> tuple[Leftover, ...]:
    """Delete the leftovers of attempts that wrote nothing for so long, and say which; `preview` only says.
    So it is with files whose batches were compacted so long ago.

    Also the files of `batches`, which are given with why they may go: the caller vouches that no reader has
    to read them. Each manifest says so before a file goes, so that nobody ever takes a table that lacks them
    for a whole one; what was killed in between is done by the next call. Never another file that a manifest
    of any epoch names. Age is counted on the store's own clock, of a batch from its commit. With less than
    the default the caller vouches that no attempt which old still runs.
    """
    store = store or open_store(lake)
    now = store.now()
    limit = now - older_than
    found = survey(lake, folder, store=store)
    chosen = _keep_together(found.manifests, _older(store, folder, found.manifests, batches or {}, limit))
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
    found: Listing, limit: datetime, chosen: Mapping[Numbered, str], replaced: Collection[Numbered]
) -> tuple[Leftover, ...]:
    leftovers = tuple(one for one in found.leftovers if one.touched < limit)
    # Without one that was compacted once more since: what it was in before has only now been replaced.
    return leftovers + _of_batches(found, chosen, set(replaced).intersection(_find_replaced(found, limit)))


def _touch(store: Store, folder: str, manifests: Sequence[Manifest], packed: Sequence[str]) -> None:
    """Replace the manifests that a compaction may be about to let name these files of its own: however long
    it stands still, it holds them as they were before it wrote, and will not get them replaced."""
    spans = [compacted_batches(path) for path in packed]
    numbers = [
        number
        for one in manifests
        if not one.gone
        for number in (_number(one),)
        if any(span is None or _is_within(number, span) for span in spans)
    ]

    def touch(one: Numbered) -> None:
        path = path_of(folder, one.epoch, one.seq)
        while (found := store.read(path)) is not None:
            if store.replace(path, mark_touched(found[0]), found[1]) is not None:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(touch, numbers))


def _is_within(number: Numbered, span: tuple[int, int, int]) -> bool:
    epoch, first, last = span
    return number.epoch == epoch and first <= number.seq <= last


def _delete(store: Store, folder: str, old: Sequence[Leftover]) -> None:
    for part in (DATA, COMPACTIONS, MANIFESTS):
        paths = [f"{folder}/{one.path}" for one in old if one.path.startswith(f"{part}/")]
        if paths:
            store.delete(paths, below=f"{folder}/{part}")


def _older(
    store: Store,
    folder: str,
    manifests: Sequence[Manifest],
    batches: Mapping[Numbered, str],
    limit: datetime,
) -> dict[Numbered, str]:
    """Those that were committed before."""
    if not batches:
        return {}
    dated = {entry.path: entry.modified for entry in store.list(f"{folder}/{MANIFESTS}")}
    found = {one: dated.get(path_of(folder, one.epoch, one.seq), limit) for one in sorted(batches)}
    found |= {
        _number(one): datetime.fromisoformat(one.compacted.committed) for one in manifests if one.compacted
    }
    return {one: batches[one] for one in sorted(batches) if found[one] < limit}


def _keep_together(manifests: Sequence[Manifest], chosen: dict[Numbered, str]) -> dict[Numbered, str]:
    """Without those that share a compacted file with one that stays: nothing would be gained."""
    while True:
        stay = {
            file.path
            for one in manifests
            if one.compacted and not one.gone and _number(one) not in chosen
            for file in one.sources
        }
        held = {_number(one) for one in manifests if any(file.path in stay for file in one.sources)}
        if not held & set(chosen):
            return chosen
        chosen = {one: why for one, why in chosen.items() if one not in held}


def _find_replaced(found: Listing, limit: datetime) -> Iterator[Numbered]:
    """Batches whose earlier files may go: compacted before, into files that are there and whole."""
    for one in found.manifests:
        if one.compacted and not one.gone and datetime.fromisoformat(one.compacted.at) < limit:
            sizes = [(file.bytes, found.there.get(file.path)) for file in one.sources]
            if all(entry is not None and entry.bytes == size for size, entry in sizes):
                yield _number(one)


def _mark(store: Store, folder: str, wanted: tuple[Numbered, Removal]) -> None:
    """Let a manifest say that its files are removed. Can be repeated; of two at once, one says why."""
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
    found: Listing, chosen: Mapping[Numbered, str], replaced: Collection[Numbered]
) -> tuple[Leftover, ...]:
    """The files of these batches, and of those that were marked before and not finished.

    Of files that two batches have named, those that neither has to read.
    """
    words: dict[str, str] = {}
    needed: set[str] = set()
    for one in found.manifests:
        number = _number(one)
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
        Leftover(path, entry.bytes, entry.modified, entry.modified, False, why)
        for path, why in words.items()
        if path not in needed and (entry := found.there.get(path)) is not None
    )


def _name_sources(manifests: Sequence[Manifest]) -> list[CommittedFile]:
    """Each file once, with the batches that are read from it."""
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
    """What no batch is read from: of batches that are gone, or what held rows before they were compacted."""
    found: dict[str, CommittedFile] = {}
    for one in manifests:
        if bool(one.gone) is gone:
            before = one.compacted.before if one.compacted else ()
            for file in (*one.files, *(DataFile(path, 0, 0) for path in before), *one.sources):
                if file.path not in used:
                    found.setdefault(file.path, CommittedFile(one.tag.epoch, one.tag.seq, file))
    return list(found.values())


def _number(manifest: Manifest) -> Numbered:
    return Numbered(manifest.tag.epoch, manifest.tag.seq)


def _attempt(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _is_gone(store: Store, path: str) -> bool:
    folder, _, _ = path.rpartition("/")
    return all(entry.path != path for entry in store.list(folder))
