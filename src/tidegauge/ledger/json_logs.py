"""The logs of a JSON ledger: segments that are put once, and that only `prune` changes later.

`<log>/<pipeline>/<day>/<time>-<flow>-<number>.json`: day, time and number are those of the first entry
inside, so that a move which is repeated finds what an earlier one has put. A segment is of one flow and of a
few minutes, so that the newest entries are found without reading the older ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from tidegauge.errors import LedgerError, LedgerUnreachable
from tidegauge.ledger.document_store import Entry
from tidegauge.ledger.keys import flow_key
from tidegauge.ledger.log_entries import moment_of, moment_text
from tidegauge.storage.folder import folder_name
from tidegauge.storage.store import Store

T = TypeVar("T")
R = TypeVar("R")

_SPAN = timedelta(minutes=10)
"""The longest time between the first and the last entry of a segment."""
_MOST = 500
"""Entries of a segment at most."""
_AT_ONCE = 16
_PATIENCE = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds to wait after each try to put a segment."""


@dataclass(frozen=True, order=True)
class _Segment:
    start: str
    path: str
    flow: str

    @property
    def end(self) -> str:
        """A time after which the segment has no entry."""
        return moment_text(moment_of(self.start) + _SPAN)


def append(store: Store, log: str, entries: Sequence[Entry]) -> None:
    """See DocumentStore.append."""
    flows: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        flows.setdefault((entry["pipeline"], entry["flow"]), []).append(entry)
    map_in_threads(store, lambda group: _append(store, log, group), list(flows.values()))


def _append(store: Store, log: str, entries: Sequence[Entry]) -> None:
    left = list(entries)
    while left:
        until = moment_text(moment_of(left[0]["at"]) + _SPAN)
        # An entry that is earlier than the first one (the clock was set back) begins a new segment, too.
        chunk = []
        for entry in left[:_MOST]:
            if not left[0]["at"] <= entry["at"] <= until:
                break
            chunk.append(entry)
        last = _put(store, log, chunk)
        left = [entry for entry in left if entry["n"] > last]


def _put(store: Store, log: str, chunk: Sequence[Entry]) -> int:
    """Put a segment, unless there is one that begins with the same entry. Returns the number of the last
    entry in the segment that is there now."""
    path = _path(log, chunk[0])
    for pause in _PATIENCE:
        if store.put_if_absent(path, render(chunk)):
            return int(chunk[-1]["n"])
        theirs = store.get(path, durable=True)
        if theirs is not None:
            return int(parse(theirs, f"{store.place}/{path}")[-1]["n"])
        time.sleep(pause)  # two writers tried at once, and it may be that neither succeeded
    raise LedgerUnreachable(
        f"{store.place}/{path} could not be put, and is not there either", hint="try again"
    )


def read(
    store: Store,
    log: str,
    pipeline: str,
    *,
    flow: str | None,
    kinds: Sequence[str] | None,
    limit: int | None,
) -> list[Entry]:
    """See DocumentStore.read."""
    found: list[Entry] = []
    segments = _segments(store, log, pipeline, flow)
    while batch := list(islice(segments, _AT_ONCE)):
        if limit is not None and sum(entry["at"] > batch[0].end for entry in found) >= limit:
            break
        for entries in map_in_threads(store, lambda segment: _load(store, segment), batch):
            found += [
                entry
                for entry in entries
                if entry["pipeline"] == pipeline
                and flow in (None, entry["flow"])
                and (kinds is None or entry["kind"] in kinds)
            ]
    found.sort(key=lambda entry: (entry["at"], entry["n"]), reverse=True)
    return found[:limit]


def prune(store: Store, log: str, pipeline: str, before: datetime, keep: Collection[str]) -> int:
    """See DocumentStore.prune."""
    limit, count = moment_text(before), 0
    for segment in list(_segments(store, log, pipeline, None)):
        found = store.read(segment.path) if segment.start < limit else None
        if found is None:
            continue
        entries = parse(found[0], f"{store.place}/{segment.path}")
        left = [entry for entry in entries if entry["at"] >= limit or entry["id"] in keep]
        if len(left) == len(entries):
            continue
        if left and _path(log, left[0]) == segment.path:
            store.replace(segment.path, render(left), found[1])
        else:
            if left:
                store.put_if_absent(_path(log, left[0]), render(left))
            store.delete([segment.path], below=log)
        count += len(entries) - len(left)
    return count


def render(entries: Sequence[Entry]) -> bytes:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in entries)
    return f'{{"tidegauge": 1, "entries": [\n{lines}\n]}}\n'.encode()


def parse(body: bytes, file: str) -> list[Entry]:
    try:
        entries: list[Entry] = json.loads(body)["entries"]
        if entries and all("n" in entry for entry in entries):
            return entries
    except (ValueError, KeyError, TypeError):
        pass
    raise LedgerError(
        f"{file} cannot be trusted: it is torn, or was edited",
        hint="bring back a copy of the file, or move it aside: it tells what happened, and no run needs it",
    )


def map_in_threads(store: Store, work: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """Do the work for all things, several at once, because each call waits for a network or a disk."""
    if len(things) < 2:
        return [work(thing) for thing in things]
    with ThreadPoolExecutor(_AT_ONCE if store.remote else 4) as pool:
        return list(pool.map(work, things))


def _path(log: str, first: Entry) -> str:
    day, _, moment = first["at"].partition("T")
    key = flow_key(first["pipeline"], first["flow"])[:16]
    return f"{log}/{folder_name(first['pipeline'])}/{day}/{moment.replace(':', '')}-{key}-{first['n']}.json"


def _segments(store: Store, log: str, pipeline: str, flow: str | None) -> Iterator[_Segment]:
    """The segments of a pipeline, or of one flow, newest first."""
    top = f"{log}/{folder_name(pipeline)}"
    key = None if flow is None else flow_key(pipeline, flow)[:16]
    for day in sorted(store.folders(top), reverse=True):
        found = []
        for entry in store.list(f"{top}/{day}"):
            name = entry.path.rpartition("/")[2]
            moment, _, rest = name.partition("-")
            if name.startswith(".") or not name.endswith(".json"):
                continue
            start = f"{day}T{moment[:2]}:{moment[2:4]}:{moment[4:]}"
            found.append(_Segment(start, entry.path, rest.partition("-")[0]))
        for segment in sorted(found, reverse=True):
            if key in (None, segment.flow):
                yield segment


def _load(store: Store, segment: _Segment) -> list[Entry]:
    body = store.get(segment.path)
    # The segment was pruned after it was listed.
    return [] if body is None else parse(body, f"{store.place}/{segment.path}")
