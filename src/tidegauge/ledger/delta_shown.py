"""A table for people in a Delta ledger, derived from the ledger's own tables and written after them.

What has ended is appended once and replaces its open row; the number of each flow's last entry is kept in the
same commit. If a process dies before this commit, the table is one step behind until the flow's next change.
A table that is new, or that an earlier version of the code did not write, is filled from the log.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegauge.ledger.delta_files import (
    LARGEST,
    NewFile,
    commit,
    kind_of,
    new_file,
    retry_until_committed,
    worth_merging,
)
from tidegauge.ledger.delta_logs import EntryLog
from tidegauge.ledger.delta_rows import decode, moment
from tidegauge.ledger.delta_shares import Row, find_replaced, share_out
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot
from tidegauge.ledger.delta_table import LedgerTable
from tidegauge.ledger.document_store import AssignedNumbers, Entry, OpenFlow
from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.ledger.shown_rows import ReportTable

_OPEN, _LOG = "open", "log"
_NUMBERS = "tidegauge-number"
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@dataclass(frozen=True)
class _Seen:
    snapshot: LedgerSnapshot
    pipeline: str
    rows: Mapping[str, Sequence[Row]]
    """By path, the rows of every file that can hold open rows."""


class ReportTableWriter:
    def __init__(self, shown: ReportTable, table: LedgerTable, log: EntryLog) -> None:
        self.shown = shown
        self.table = table
        self._log = log
        self._lock = threading.Lock()
        self._known: dict[str, Sequence[Row]] = {}

    def show(self, pipeline: str, flows: Sequence[OpenFlow], *, whole: bool) -> bool:
        """Show what has ended in these flows, each entry once, and what is open in them now. False, and
        nothing is written, if the table has nothing of the pipeline yet and these are not all of its flows
        (`whole`)."""
        ready = True

        def attempt() -> bool:
            nonlocal ready
            seen = self._load_open_rows(pipeline)
            ready = whole or self._latest(seen) > 0
            return not ready or self._show(seen, flows)

        retry_until_committed(self.table.shown, attempt)
        return ready

    def prune(self, pipeline: str, before: datetime) -> None:
        """Remove rows that ended before that, unless the log still has their entry."""
        limit = before.replace(tzinfo=UTC)
        shown = self.shown

        def attempt() -> bool:
            snapshot = self.table.newest()
            files = [file for file in snapshot.of(pipeline) if kind_of(file) != _OPEN]
            if not files:
                return True
            entries = self._log.read(pipeline, None, None, None)
            kept = {shown.key_of(row) for entry in entries for row in shown.rows_of(entry)}
            gone: list[LedgerFile] = []
            rest: list[Row] = []
            for file in files:
                rows = decode(shown.columns, self.table.get(file))
                stay = [row for row in rows if shown.key_of(row) in kept or not _is_before(shown, row, limit)]
                if len(stay) < len(rows):
                    gone.append(file)
                    rest += stay
            rest.sort(key=lambda row: row[shown.since])
            return not gone or commit(self.table, snapshot, self._log_files(pipeline, rest), gone, {})

        retry_until_committed(self.table.shown, attempt)

    def numbers(self) -> AssignedNumbers:
        """See DocumentStore.numbers."""
        snapshot, name = self.table.newest(), self.shown.number
        if name is None:
            return AssignedNumbers()
        found: dict[tuple[Any, ...], list[int]] = {}
        for file in snapshot.files.values():
            for row in decode(self.shown.columns, self.table.get(file)):
                key = (file.pipeline, *(_drop_zone(part) for part in self.shown.key_of(row)))
                found.setdefault(key, []).append(row[name])
        given = {key: sorted(some) for key, some in found.items()}
        return AssignedNumbers(given, self.table.counter(snapshot, _NUMBERS))

    # --- parts

    def _load_open_rows(self, pipeline: str) -> _Seen:
        """Load the table's newest version, with the files that can hold open rows of the pipeline."""
        snapshot = self.table.newest()
        files = [file for file in snapshot.of(pipeline) if kind_of(file) != _LOG]
        with self._lock:
            known = {file.path: self._known[file.path] for file in files if file.path in self._known}
        rows = {
            file.path: known.get(file.path) or decode(self.shown.columns, self.table.get(file))
            for file in files
        }
        with self._lock:
            # A file never changes, so its rows are cached until the pipeline has it no more.
            mine = f"{pipeline_key(pipeline)[:16]}/"
            rest = {path: some for path, some in self._known.items() if not path.startswith(mine)}
            self._known = rest | rows
        return _Seen(snapshot, pipeline, rows)

    def _latest(self, seen: _Seen) -> int:
        """When the newest entry of the pipeline in this table ended, in microseconds since 1970; 0 before the
        table has been filled."""
        return self.table.counter(seen.snapshot, pipeline_key(seen.pipeline))

    def _show(self, seen: _Seen, flows: Sequence[OpenFlow]) -> bool:
        latest = self._latest(seen)
        fresh, reached = self._find_fresh(seen, flows, filled=latest > 0)
        ended = [row for entry in fresh for row in self.shown.rows_of(entry)]
        over = {self.shown.key_of(row) for row in ended}
        changed = {self.shown.flow_of(row) for row in self._open(seen) if self.shown.key_of(row) in over}
        current = self._find_open(seen, flows, latest)
        if latest and not ended and not changed and not current:
            return True
        rows = [row for some in current.values() for row in some]
        newest = max([latest, 1, *(_microseconds(moment(entry["at"])) for entry in fresh)])
        counters = {**reached, pipeline_key(seen.pipeline): newest}
        return self._write(seen, changed | set(current), rows, ended, counters)

    def _find_open(self, seen: _Seen, flows: Sequence[OpenFlow], latest: int) -> dict[str, list[Row]]:
        """By flow, the present open rows, for flows of which the table shows others."""
        there: dict[str, list[Row]] = {}
        for row in self._open(seen):
            there.setdefault(self.shown.flow_of(row), []).append(row)
        found: dict[str, list[Row]] = {}
        for one in flows:
            old = there.get(one.flow, [])
            entry = one.open.get(self.shown.log)
            rows = [] if entry is None else self.shown.rows_of(entry)
            if not self._is_same(old, rows) and not self._is_stale(seen, one, old, latest):
                found[one.flow] = rows
        return found

    def _find_fresh(
        self, seen: _Seen, flows: Sequence[OpenFlow], *, filled: bool
    ) -> tuple[list[Entry], dict[str, int]]:
        """The entries that the table lacks, oldest first, and by flow key the number of the last of them."""
        had: dict[str, int] = {}

        def count(flow: str) -> int:
            if flow not in had:
                had[flow] = self.table.counter(seen.snapshot, flow_key(seen.pipeline, flow))
            return had[flow]

        found: dict[str, Entry] = {}
        gap = not filled
        for one in flows:
            waiting = one.pending.get(self.shown.log, ())
            found |= {entry["id"]: entry for entry in waiting}
            # A flow's entries are numbered from when its document was made.
            before = _microseconds(moment(one.created_at)) - 1
            gap = gap or bool(waiting and max(count(one.flow), before) < waiting[0]["n"] - 1)
        if gap:
            found |= {entry["id"]: entry for entry in self._log.read(seen.pipeline, None, None, None)}
        fresh = [entry for entry in found.values() if entry["n"] > count(entry["flow"])]
        fresh.sort(key=lambda entry: (entry["at"], entry["n"]))
        return fresh, {flow_key(seen.pipeline, entry["flow"]): entry["n"] for entry in fresh}

    def _is_same(self, old: Sequence[Row], rows: Sequence[Row]) -> bool:
        """Whether the rows are equal, apart from their numbers."""
        without: Row = {self.shown.number: None} if self.shown.number else {}
        return [row | without for row in old] == [row | without for row in rows]

    def _is_stale(self, seen: _Seen, one: OpenFlow, old: Sequence[Row], latest: int) -> bool:
        """Whether `one` is out of date: another runner has shown more of the flow since it was loaded."""
        at = moment(one.updated_at)
        assert at is not None
        if any(row[self.shown.since] > at for row in old):
            return True
        # The counter comes last: it may have to be looked up in the table's log.
        return _microseconds(at) < latest and one.numbers[self.shown.log] < self.table.counter(
            seen.snapshot, flow_key(seen.pipeline, one.flow)
        )

    def _open(self, seen: _Seen) -> list[Row]:
        return [row for some in seen.rows.values() for row in some if self.shown.is_open(row)]

    def _write(
        self,
        seen: _Seen,
        changed: set[str],
        current: list[Row],
        ended: list[Row],
        counters: Mapping[str, int],
    ) -> bool:
        """Commit the rows that have ended, and `current` in place of the open rows of the `changed` flows.
        False if another commit came between."""
        shown, snapshot, pipeline = self.shown, seen.snapshot, seen.pipeline
        number = self._count(seen, current + ended)
        replaced = find_replaced(seen.rows, changed, flow=shown.flow_of) if changed else []
        before = [row for path in replaced for row in seen.rows[path]]
        stay = [row for row in before if shown.is_open(row) and shown.flow_of(row) not in changed]
        # A file of another writer (Spark, by OPTIMIZE) may hold open rows and ended ones.
        ended = ended + [row for row in before if not shown.is_open(row)]
        shares = list(share_out(current, stay, flow=shown.flow_of))
        add = [new_file(pipeline, _OPEN, shown.columns, rows) for rows in shares]
        written = {new.file.path: rows for new, rows in zip(add, shares, strict=True)}
        gone = [snapshot.files[path] for path in replaced]
        if ended:
            more, merged = self._merge(snapshot, pipeline, ended)
            add, gone = add + more, gone + merged
        won = commit(self.table, snapshot, add, gone, {**counters, _NUMBERS: number})
        if won:
            with self._lock:
                self._known |= written
        return won

    def _count(self, seen: _Seen, rows: Sequence[Row]) -> int:
        """Write numbers into the rows, oldest first; a row that is open already keeps its number. Returns the
        last number that was given."""
        shown, name = self.shown, self.shown.number
        if name is None:
            return 0
        numbers = {shown.key_of(row): row[name] for row in self._open(seen)}
        last = self.table.counter(seen.snapshot, _NUMBERS)
        for row in sorted(rows, key=lambda row: row[shown.since]):
            row[name] = numbers.get(shown.key_of(row)) or last + 1
            last = max(last, row[name])
        return last

    def _merge(
        self, snapshot: LedgerSnapshot, pipeline: str, ended: Sequence[Row]
    ) -> tuple[list[NewFile], list[LedgerFile]]:
        """New files for the rows that have ended, and the small files that are merged into them."""
        merged = worth_merging([file for file in snapshot.of(pipeline) if kind_of(file) == _LOG])
        rows = [row for file in merged for row in decode(self.shown.columns, self.table.get(file))]
        rows += ended
        return self._log_files(pipeline, rows), merged

    def _log_files(self, pipeline: str, rows: Sequence[Row]) -> list[NewFile]:
        return [
            new_file(pipeline, _LOG, self.shown.columns, rows[start : start + LARGEST])
            for start in range(0, len(rows), LARGEST)
        ]


def _is_before(shown: ReportTable, row: Row, limit: datetime) -> bool:
    return row[shown.ended] is not None and bool(row[shown.ended] < limit)


def _drop_zone(part: Any) -> Any:
    """The value; a time without its zone, as the ledger's records have times: in UTC."""
    return part.replace(tzinfo=None) if isinstance(part, datetime) else part


def _microseconds(at: datetime | None) -> int:
    assert at is not None
    return (at - _EPOCH) // _MICROSECOND
