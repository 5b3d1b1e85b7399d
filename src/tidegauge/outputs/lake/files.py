"""What lies in a table's folder: what is committed, what dead attempts left, and how that is cleared away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.epochs import contents, follow
from tidegauge.outputs.lake.manifest import (
    COPIES,
    DATA,
    MANIFESTS,
    Manifest,
    Numbered,
    Removal,
    mark_removed,
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
    """Or why a person may have it removed: LOADED or EARLIER."""


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
    there: Mapping[str, Entry] = field(default_factory=dict)
    """Every data file, by its path in the table's folder."""


def survey(lake: Lake, folder: str, *, store: Store | None = None) -> Listing:
    """Changes nothing."""
    store = store or open_store(lake)
    top = check_folder(folder)
    entries = list(store.list(f"{top}/{DATA}"))
    # After the files, so that what is published in between is found to be committed.
    found = contents(store, top)
    counted = follow(store, top, found)
    rest = sorted(set(found.batches) - set(counted))
    kept = [load_all(store, top, batches) for batches in (counted, rest)]
    current, earlier = (_name_files([one for one in part if not one.removed]) for part in kept)
    removed = _name_files([one for part in kept for one in part if one.removed])
    named = current + earlier
    known = {one.file.path for one in named + removed}
    start = len(top) + 1
    there = {entry.path[start:]: entry for entry in entries}
    leftovers = _find_leftovers(store, top, there, known)
    # Only what the first listing could have seen: a file committed since is not missing.
    gone = [one for one in named if one.file.path not in there and _is_gone(store, f"{top}/{one.file.path}")]
    return Listing(tuple(current), tuple(earlier), tuple(leftovers), tuple(gone), tuple(removed), there)


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

    Also the files of `batches`, which are given with why they may go: the caller vouches that no reader has
    to read them. Each manifest says so before a file goes, so that nobody ever takes a table that lacks them
    for a whole one; what was killed in between is done by the next call. Never another file that a manifest
    of any epoch names. Age is counted on the store's own clock, of a batch from its commit. With less than
    the default the caller vouches that no attempt which old still runs.
    """
    store = store or open_store(lake)
    now = store.now()
    limit = now - older_than
    chosen = _older(store, folder, batches or {}, limit)
    if not preview:
        marks = [(one, Removal(now.isoformat(), why, reason)) for one, why in chosen.items()]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(partial(_mark, store, folder), marks))
    found = survey(lake, folder, store=store)
    old = tuple(one for one in found.leftovers if one.touched < limit) + _of_batches(found, chosen)
    if old and not preview:
        store.delete([f"{folder}/{one.path}" for one in old if not one.temporary], below=f"{folder}/{DATA}")
        store.delete([f"{folder}/{one.path}" for one in old if one.temporary], below=f"{folder}/{MANIFESTS}")
    return old


def _older(
    store: Store, folder: str, batches: Mapping[Numbered, str], limit: datetime
) -> dict[Numbered, str]:
    """Those that were committed before."""
    if not batches:
        return {}
    dated = {entry.path: entry.modified for entry in store.list(f"{folder}/{MANIFESTS}")}
    paths = {one: path_of(folder, one.epoch, one.seq) for one in sorted(batches)}
    return {one: batches[one] for one, path in paths.items() if path in dated and dated[path] < limit}


def _mark(store: Store, folder: str, wanted: tuple[Numbered, Removal]) -> None:
    """Let a manifest say that its files are removed. Can be repeated; of two at once, one says why."""
    one, removal = wanted
    path = path_of(folder, one.epoch, one.seq)
    while (found := store.read(path)) is not None:
        body, token = found
        if parse(body, f"{store.place}/{path}").removed is not None:
            return
        if store.replace(path, mark_removed(body, removal), token) is not None:
            return


def _of_batches(found: Listing, chosen: Mapping[Numbered, str]) -> tuple[Leftover, ...]:
    """The files of these batches, and of those that were marked before and not finished."""
    named = [(one, chosen.get(Numbered(one.epoch, one.seq))) for one in (*found.committed, *found.earlier)]
    gone: list[tuple[CommittedFile, str | None]] = [(one, "cleaned before") for one in found.removed]
    files = []
    for one, why in named + gone:
        entry = found.there.get(one.file.path)
        if why is not None and entry is not None:
            word = chosen.get(Numbered(one.epoch, one.seq), why)
            files.append(Leftover(one.file.path, entry.bytes, entry.modified, entry.modified, False, word))
    return tuple(files)


def _name_files(manifests: Sequence[Manifest]) -> list[CommittedFile]:
    return [CommittedFile(one.tag.epoch, one.tag.seq, file) for one in manifests for file in one.files]


def _attempt(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _is_gone(store: Store, path: str) -> bool:
    folder, _, _ = path.rpartition("/")
    return all(entry.path != path for entry in store.list(folder))
