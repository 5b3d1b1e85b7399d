"""What lies in a table's folder: what is committed, what dead attempts left, and how that is cleared away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegauge.model.spec import Lake
from tidegauge.outputs.lake.epochs import contents, follow
from tidegauge.outputs.lake.manifest import COPIES, DATA, MANIFESTS, Manifest
from tidegauge.outputs.lake.table import CommittedFile, load_all
from tidegauge.storage.folder import check_folder
from tidegauge.storage.local import TEMPORARY
from tidegauge.storage.store import Store, open_store

SAFE_AGE = timedelta(days=7)
"""An attempt that still runs has files in no manifest too, and nothing but their age tells it apart."""


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


@dataclass(frozen=True)
class Listing:
    committed: tuple[CommittedFile, ...]
    """What readers of the table read."""
    earlier: tuple[CommittedFile, ...]
    """Of earlier epochs of the table: no reader follows them, and an undo would bring them back."""
    leftovers: tuple[Leftover, ...]
    missing: tuple[CommittedFile, ...]
    """Named by a manifest and not there: the table is damaged, or an undo would be."""


def survey(lake: Lake, folder: str, *, store: Store | None = None) -> Listing:
    """Changes nothing."""
    store = store or open_store(lake)
    top = check_folder(folder)
    entries = list(store.list(f"{top}/{DATA}"))
    # After the files, so that what is published in between is found to be committed.
    found = contents(store, top)
    counted = follow(store, top, found)
    rest = sorted(set(found.batches) - set(counted))
    current, earlier = (_name_files(load_all(store, top, batches)) for batches in (counted, rest))
    named = current + earlier
    known = {one.file.path for one in named}
    start = len(top) + 1
    loose = [entry for entry in entries if entry.path[start:] not in known]
    touched: dict[str, datetime] = {}
    for entry in entries:
        attempt = _attempt(entry.path[start:])
        touched[attempt] = max(entry.modified, touched.get(attempt, entry.modified))
    there = {entry.path[start:] for entry in entries}
    leftovers = [
        Leftover(
            entry.path[start:], entry.bytes, entry.modified, touched[_attempt(entry.path[start:])], False
        )
        for entry in loose
    ]
    leftovers += [
        Leftover(entry.path[start:], entry.bytes, entry.modified, entry.modified, True)
        for entry in store.list(f"{top}/{MANIFESTS}")
        if entry.path.endswith(TEMPORARY) or entry.path.startswith(f"{top}/{COPIES}/")
    ]
    # Only what the first listing could have seen: a file committed since is not missing.
    gone = [one for one in named if one.file.path not in there and _is_gone(store, f"{top}/{one.file.path}")]
    leftovers.sort(key=lambda one: one.path)
    return Listing(tuple(current), tuple(earlier), tuple(leftovers), tuple(gone))


def clean(
    lake: Lake,
    folder: str,
    *,
    older_than: timedelta = SAFE_AGE,
    preview: bool = False,
    store: Store | None = None,
) -> tuple[Leftover, ...]:
    """Delete the leftovers of attempts that wrote nothing for so long, and say which; `preview` only says.

    Never a file that a manifest of any epoch names. Age is counted on the store's own clock. With less
    than the default the caller vouches that no attempt which old still runs.
    """
    store = store or open_store(lake)
    found = survey(lake, folder, store=store)
    limit = store.now() - older_than
    old = tuple(one for one in found.leftovers if one.touched < limit)
    if old and not preview:
        store.delete([f"{folder}/{one.path}" for one in old if not one.temporary], below=f"{folder}/{DATA}")
        store.delete([f"{folder}/{one.path}" for one in old if one.temporary], below=f"{folder}/{MANIFESTS}")
    return old


def _name_files(manifests: Sequence[Manifest]) -> list[CommittedFile]:
    return [CommittedFile(one.tag.epoch, one.tag.seq, file) for one in manifests for file in one.files]


def _attempt(path: str) -> str:
    return "/".join(path.split("/")[:2])


def _is_gone(store: Store, path: str) -> bool:
    folder, _, _ = path.rpartition("/")
    return all(entry.path != path for entry in store.list(folder))
