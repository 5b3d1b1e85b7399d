"""A document store in Delta tables: a folder with `watermarks`, `plans`, `runs`, `history`, and with tables
that are only for people.

People may query `watermarks`, too. A save is one commit to `watermarks`, on exactly the version that was
loaded; if anybody has committed anything to it since, the save is refused.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegauge.errors import ConfigError
from tidegauge.ledger.delta_files import (
    commit,
    kind_of,
    map_in_threads,
    new_file,
    retry_until_committed,
    worth_merging,
)
from tidegauge.ledger.delta_logs import EntryLog
from tidegauge.ledger.delta_rows import LOG, WATERMARKS, decode, next_rows, stored_flow_of
from tidegauge.ledger.delta_shares import Row, find_replaced, share_out
from tidegauge.ledger.delta_shown import ReportTableWriter
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot
from tidegauge.ledger.delta_table import LedgerTable
from tidegauge.ledger.document_store import (
    LOGS,
    AssignedNumbers,
    Entry,
    LoadedDocuments,
    NumberedRecord,
    OpenFlow,
    StoredFlow,
    WriterCameBetween,
)
from tidegauge.ledger.shown_rows import SHOWN
from tidegauge.ledger.storage_errors import translate_storage_error
from tidegauge.model.spec import Lake
from tidegauge.storage.clock import Clock
from tidegauge.storage.probe import check_store
from tidegauge.storage.store import open_store

_KEEP = timedelta(days=7)
"""How long a data file is kept after another has replaced it."""
_IDS = "tidegauge-watermark-id"
_CURRENT, _ENDED = "current", "ended"
_KNOWN = 50_000
"""From so many files on, the cache of their rows is emptied."""
_MISREAD = re.compile(r"%[0-9a-fA-F]{2}|[\\\x00-\x1f]")


@dataclass(frozen=True)
class _Seen:
    snapshot: LedgerSnapshot
    rows: Mapping[str, Sequence[Row]]
    """By path, the rows of every file of the pipeline that can hold a flow's newest row."""


class DeltaDocumentStore:
    """Implements DocumentStore."""

    def __init__(self, lake: Lake, shown: str) -> None:
        self.shown = shown
        self._lake = lake
        self._store = open_store(lake)
        self._clock = Clock(self._store)
        self._watermarks = self._table("watermarks", WATERMARKS)
        self._logs = {name: EntryLog(self._table(name, LOG)) for name in LOGS}
        self._shown = [
            ReportTableWriter(shown, self._table(shown.name, shown.columns), self._logs[shown.log])
            for shown in SHOWN
        ]
        self._lock = threading.Lock()
        self._known: dict[str, Sequence[Row]] = {}

    @classmethod
    def open(cls, lake: Lake, *, shown: str, create: bool) -> DeltaDocumentStore | None:
        """The store at a local folder or `s3a://` path. One that does not exist is made with `create`, and
        None without it.

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
                check_store(documents._store, lake)
            for table in documents._tables:
                if not table.exists():
                    table.create()
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
        rows = self._read_rows([file for file in snapshot.of(pipeline) if kind_of(file) != _ENDED])
        wanted = None if flows is None else set(flows)
        stored_flows = {
            row["flow"]: stored_flow_of(pipeline, row)
            for some in rows.values()
            for row in some
            if row["ledger"] is not None and (wanted is None or row["flow"] in wanted)
        }
        return LoadedDocuments(pipeline, stored_flows, _Seen(snapshot, rows))

    def save(self, loaded: LoadedDocuments, stored_flows: Iterable[StoredFlow]) -> None:
        seen: _Seen = loaded.token
        pipeline, snapshot = loaded.pipeline, seen.snapshot
        current, ended, number = _make_rows(seen, stored_flows, self._watermarks.counter(snapshot, _IDS))
        if not current:
            return
        changed = {row["flow"] for row in current}
        replaced = find_replaced(seen.rows, changed, flow=_flow)
        stay, ended_before = _rows_that_stay(seen, replaced, changed)
        ended += ended_before
        merged = self._find_worth_merging(snapshot, pipeline) if ended else []
        ended += [row for rows in self._read_rows(merged).values() for row in rows]
        shares = list(share_out(current, stay, flow=_flow))
        add = [new_file(pipeline, _CURRENT, WATERMARKS, rows) for rows in shares]
        over = [new_file(pipeline, _ENDED, WATERMARKS, ended)] if ended else []
        gone = [snapshot.files[path] for path in replaced] + merged
        if not commit(self._watermarks, snapshot, add + over, gone, {_IDS: number}):
            raise WriterCameBetween
        self._remember(replaced, {new.file.path: rows for new, rows in zip(add, shares, strict=True)})

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        self._logs[log].append(entries)

    def show(
        self, pipeline: str, flows: Sequence[OpenFlow], logs: Sequence[str], *, whole: bool = False
    ) -> bool:
        tables = [one for one in self._shown if one.shown.log in logs]
        return all(map_in_threads(lambda table: table.show(pipeline, flows, whole=whole), tables))

    def numbers(self, log: str) -> AssignedNumbers:
        tables = [one for one in self._shown if one.shown.log == log and one.table.exists()]
        return next((one.numbers() for one in tables), AssignedNumbers())

    def records(self) -> list[NumberedRecord]:
        files = self._watermarks.newest().files
        return [
            NumberedRecord(
                files[path].pipeline,
                row["flow"],
                row["watermark_id"],
                row["run_id"],
                row["updated_at"].replace(tzinfo=None),
                row["ledger"] is not None,
            )
            for path, rows in self._read_rows(list(files.values())).items()
            for row in rows
        ]

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
        """See DocumentStore.prune. Also removes what the tables for people show of the entries (of plans, the
        ended rows of `watermarks` too), and data files that were replaced long ago."""
        count = self._logs[log].prune(pipeline, before, keep)
        self._logs[log].table.tidy(_KEEP)
        for shown in (one for one in self._shown if one.shown.log == log):
            shown.prune(pipeline, before)
            shown.table.tidy(_KEEP)
        if log == "plans":
            self._prune_ended(pipeline, before)
            self._watermarks.tidy(_KEEP)
        return count

    def tidy(self, older_than: timedelta = _KEEP) -> int:
        """Delete data files that were replaced longer ago than that. Returns how many."""
        return sum(table.tidy(older_than) for table in self._tables)

    @property
    def _tables(self) -> list[LedgerTable]:
        """All tables. `watermarks` is made last, because a folder that has it counts as a ledger."""
        logs = [log.table for log in self._logs.values()]
        return [*logs, *(shown.table for shown in self._shown), self._watermarks]

    def _table(self, name: str, columns: Mapping[str, str]) -> LedgerTable:
        return LedgerTable(self._lake, self._store, self._clock, name, columns)

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
            rows = self._read_rows(files)
            gone = [file for file in files if any(row["updated_at"] < limit for row in rows[file.path])]
            keep = [row for file in gone for row in rows[file.path] if not row["updated_at"] < limit]
            add = [new_file(pipeline, _ENDED, WATERMARKS, keep)] if keep else []
            return not gone or commit(self._watermarks, snapshot, add, gone, {})

        retry_until_committed(self._watermarks.shown, attempt)

    def _read_rows(self, files: Sequence[LedgerFile]) -> dict[str, Sequence[Row]]:
        """The rows of files of `watermarks`, by path. A file never changes, so those that can hold a flow's
        newest row are read once."""
        with self._lock:
            found = {file.path: self._known[file.path] for file in files if file.path in self._known}
        missing = [file for file in files if file.path not in found]
        read = map_in_threads(lambda file: tuple(decode(WATERMARKS, self._watermarks.get(file))), missing)
        fresh = {file.path: rows for file, rows in zip(missing, read, strict=True)}
        with self._lock:
            if len(self._known) > _KNOWN:
                self._known.clear()
            self._known |= {path: rows for path, rows in fresh.items() if f"/{_ENDED}-" not in path}
        return found | fresh


def _make_rows(
    seen: _Seen, stored_flows: Iterable[StoredFlow], number: int
) -> tuple[list[Row], list[Row], int]:
    """The newest row of each flow, the rows that end with this save, and the last record number in use."""
    newest = {row["flow"]: row for rows in seen.rows.values() for row in rows if row["ledger"] is not None}
    current: list[Row] = []
    ended: list[Row] = []
    for stored_flow in stored_flows:
        row, last = next_rows(newest.get(stored_flow.flow), stored_flow, number + 1)
        number = max(number, row["watermark_id"])
        current.append(row)
        ended += [last] if last else []
    return current, ended, number


def _rows_that_stay(seen: _Seen, replaced: Sequence[str], changed: set[str]) -> tuple[list[Row], list[Row]]:
    """What stays of the files that are written again: newest rows of other flows, and rows that ended."""
    rows = [row for path in replaced for row in seen.rows[path]]
    ended = [row for row in rows if row["ledger"] is None]
    return [row for row in rows if row["ledger"] is not None and row["flow"] not in changed], ended


def _flow(row: Row) -> str:
    return str(row["flow"])
