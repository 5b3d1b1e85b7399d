"""A document store in Delta tables: a folder with `watermarks`, `plans`, `runs` and `history`.

People may query `watermarks`, too. A save is one commit of it, on exactly the version that was loaded; if
anybody has committed since, whatever it was, the save is refused.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegauge.errors import ConfigError
from tidegauge.ledger.delta_files import commit, each, kind_of, new_file, until, worth_merging
from tidegauge.ledger.delta_logs import EntryLog
from tidegauge.ledger.delta_rows import LOG, WATERMARKS, Row, decode, next_rows, stored_flow_of
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot
from tidegauge.ledger.delta_table import LedgerTable
from tidegauge.ledger.document_store import LOGS, Entry, LoadedDocuments, StoredFlow, WriterCameBetween
from tidegauge.ledger.storage_errors import translate_storage_error
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import Clock
from tidegauge.storage.probe import prove
from tidegauge.storage.store import open_store

_KEEP = timedelta(days=7)
_IDS = "tidegauge-watermark-id"
_CURRENT, _ENDED = "current", "ended"
_TOGETHER = 16
"""Rows of flows that share a file, so that changing one of them writes few others again."""
_SPLIT = 8
_MANY = 16
_KNOWN = 50_000
_MISREAD = re.compile(r"%[0-9a-fA-F]{2}|[\\\x00-\x1f]")


@dataclass(frozen=True)
class _Seen:
    snapshot: LedgerSnapshot
    rows: Mapping[str, Sequence[Row]]
    """By path: every file of the pipeline that can hold a flow's newest row."""


class DeltaDocumentStore:
    """Implements DocumentStore."""

    def __init__(self, lake: Lake, shown: str) -> None:
        self.shown = shown
        self._lake = lake
        self._store = open_store(lake)
        self._clock = Clock(self._store)
        self._watermarks = LedgerTable(lake, self._store, self._clock, "watermarks")
        self._logs = {name: EntryLog(LedgerTable(lake, self._store, self._clock, name)) for name in LOGS}
        self._lock = threading.Lock()
        self._known: dict[str, Sequence[Row]] = {}

    @classmethod
    def open(cls, lake: Lake, *, shown: str, create: bool) -> DeltaDocumentStore | None:
        """The store at a local folder or `s3a://` path, made if `create` says so; else None if there is none.

        Raises ConfigError for a path that delta-rs does not take, LedgerUnreachable, LedgerVersion for a
        ledger that newer code made, LedgerError for a store that lets two writers win or for tables that are
        not a ledger's.
        """
        if not lake.on_s3 and _MISREAD.search(lake.path):
            raise ConfigError(
                f"the ledger's path {lake.path} has a percent code or a backslash, which delta-rs misreads",
                hint="choose another folder",
                place=lake.place,
            )
        documents = cls(lake, shown)
        if not create:
            if not documents._watermarks.exists():
                return None
        else:
            with translate_storage_error(shown):
                prove(documents._store, lake)
            # Last the one by which a ledger is recognised.
            for log in documents._logs.values():
                if not log.table.exists():
                    log.table.create(LOG)
            if not documents._watermarks.exists():
                documents._watermarks.create(WATERMARKS)
        documents._watermarks.newest()
        return documents

    def close(self) -> None:
        self._known.clear()

    def now(self) -> datetime:
        with translate_storage_error(self.shown):
            return self._clock.now().astimezone(UTC).replace(tzinfo=None)

    def pipelines(self) -> list[str]:
        files = self._watermarks.newest().files.values()
        return sorted({file.pipeline for file in files if kind_of(file) != _ENDED})

    def load(self, pipeline: str, flows: Sequence[str] | None = None) -> LoadedDocuments:
        snapshot = self._watermarks.newest()
        rows = self._rows([file for file in snapshot.of(pipeline) if kind_of(file) != _ENDED])
        wanted = None if flows is None else set(flows)
        stored_flows = {
            row["flow"]: stored_flow_of(pipeline, row)
            for some in rows.values()
            for row in some
            if row["ledger"] is not None and (wanted is None or row["flow"] in wanted)
        }
        return LoadedDocuments(pipeline, stored_flows, _Seen(snapshot, rows))

    def save(self, loaded: LoadedDocuments, stored_flows: Sequence[StoredFlow]) -> None:
        if not stored_flows:
            return
        seen: _Seen = loaded.token
        pipeline, snapshot = loaded.pipeline, seen.snapshot
        number = self._watermarks.counter(snapshot, _IDS)
        current, ended, number = _make_rows(seen, stored_flows, number)
        replaced = _find_replaced(seen, {stored_flow.flow for stored_flow in stored_flows})
        stay, ended_before = _rows_that_stay(seen, replaced, {row["flow"] for row in current})
        ended += ended_before
        merged = self._find_worth_merging(snapshot, pipeline) if ended else []
        ended += [row for rows in self._rows(merged).values() for row in rows]
        shares = list(_shares(current, stay))
        add = [new_file(pipeline, _CURRENT, WATERMARKS, rows) for rows in shares]
        over = [new_file(pipeline, _ENDED, WATERMARKS, ended)] if ended else []
        gone = [snapshot.files[path] for path in replaced] + merged
        if not commit(self._watermarks, snapshot, add + over, gone, {_IDS: number}):
            raise WriterCameBetween
        self._remember(replaced, {new.file.path: rows for new, rows in zip(add, shares, strict=True)})

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        self._logs[log].append(entries)

    def read(
        self,
        log: str,
        pipeline: str,
        *,
        flow: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        return self._logs[log].read(pipeline, flow, kinds, limit)

    def prune(self, log: str, pipeline: str, before: datetime, *, keep: Collection[str] = ()) -> int:
        """With the plans that ended go the rows of `watermarks` that showed them; old files go with both."""
        count = self._logs[log].prune(pipeline, before, keep)
        self._logs[log].table.tidy(_KEEP)
        if log == "plans":
            self._prune_ended(pipeline, before)
            self._watermarks.tidy(_KEEP)
        return count

    def tidy(self, older_than: timedelta = _KEEP) -> int:
        """Remove files that hold nothing any more and have not for that long; say how many."""
        tables = [self._watermarks, *(log.table for log in self._logs.values())]
        return sum(table.tidy(older_than) for table in tables)

    def _find_worth_merging(self, snapshot: LedgerSnapshot, pipeline: str) -> list[LedgerFile]:
        return worth_merging([file for file in snapshot.of(pipeline) if kind_of(file) == _ENDED])

    def _remember(self, replaced: Iterable[str], written: Mapping[str, Sequence[Row]]) -> None:
        with self._lock:
            for path in replaced:
                self._known.pop(path, None)
            self._known |= {path: tuple(rows) for path, rows in written.items()}

    def _prune_ended(self, pipeline: str, before: datetime) -> None:
        limit = before.replace(tzinfo=UTC)

        def attempt() -> bool:
            snapshot = self._watermarks.newest()
            files = [file for file in snapshot.of(pipeline) if kind_of(file) == _ENDED]
            rows = self._rows(files)
            gone = [file for file in files if any(row["updated_at"] < limit for row in rows[file.path])]
            keep = [row for file in gone for row in rows[file.path] if not row["updated_at"] < limit]
            add = [new_file(pipeline, _ENDED, WATERMARKS, keep)] if keep else []
            return not gone or commit(self._watermarks, snapshot, add, gone, {})

        until(self._watermarks.shown, attempt)

    def _rows(self, files: Sequence[LedgerFile]) -> dict[str, Sequence[Row]]:
        """Of files of `watermarks`. A file never changes, so it is read once."""
        with self._lock:
            found = {file.path: self._known[file.path] for file in files if file.path in self._known}
        missing = [file for file in files if file.path not in found]
        read = each(lambda file: tuple(decode(WATERMARKS, self._watermarks.get(file))), missing)
        fresh = {file.path: rows for file, rows in zip(missing, read, strict=True)}
        with self._lock:
            if len(self._known) > _KNOWN:
                self._known.clear()
            self._known |= {path: rows for path, rows in fresh.items() if f"/{_ENDED}-" not in path}
        return found | fresh


def _make_rows(
    seen: _Seen, stored_flows: Sequence[StoredFlow], number: int
) -> tuple[list[Row], list[Row], int]:
    """The newest row of each flow, the rows that end with this save, and the highest number that is given."""
    newest = {row["flow"]: row for rows in seen.rows.values() for row in rows if row["ledger"] is not None}
    current: list[Row] = []
    ended: list[Row] = []
    for stored_flow in stored_flows:
        row, last = next_rows(newest.get(stored_flow.flow), stored_flow, number + 1)
        number = max(number, row["watermark_id"])
        current.append(row)
        ended += [last] if last else []
    return current, ended, number


def _find_replaced(seen: _Seen, changed: set[str]) -> list[str]:
    """The files that a save writes anew: those with its flows, and small ones if there are many."""
    touched = {path for path, rows in seen.rows.items() if any(row["flow"] in changed for row in rows)}
    small = [path for path, rows in seen.rows.items() if path not in touched and len(rows) <= _TOGETHER // 2]
    return sorted(touched | set(small if len(small) >= _MANY else ()))


def _rows_that_stay(seen: _Seen, replaced: Sequence[str], changed: set[str]) -> tuple[list[Row], list[Row]]:
    """Of files that are written anew: newest rows of other flows, and rows that ended earlier."""
    rows = [row for path in replaced for row in seen.rows[path]]
    ended = [row for row in rows if row["ledger"] is None]
    return [row for row in rows if row["ledger"] is not None and row["flow"] not in changed], ended


def _shares(current: list[Row], stay: list[Row]) -> Iterable[list[Row]]:
    """Which rows share a file: a few large files when many flows change at once, and small ones when flows
    change one by one, so that each save writes little again."""
    if len(current) + len(stay) <= _TOGETHER or not stay:
        yield current + stay
        return
    yield current
    stay.sort(key=lambda row: str(row["flow"]))
    size = max(_TOGETHER, math.ceil(len(stay) / _SPLIT))
    for start in range(0, len(stay), size):
        yield stay[start : start + size]
