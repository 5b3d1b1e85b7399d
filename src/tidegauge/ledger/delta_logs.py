"""The logs of a Delta ledger: each entry is appended once, the newest are read first, and old ones pruned."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tidegauge.ledger.delta_files import LARGEST, commit, new_file, retry_until_committed, worth_merging
from tidegauge.ledger.delta_rows import LOG, decode, entry_row
from tidegauge.ledger.delta_shares import Row
from tidegauge.ledger.delta_snapshot import LedgerFile, LedgerSnapshot
from tidegauge.ledger.delta_table import LedgerTable
from tidegauge.ledger.document_store import Entry
from tidegauge.ledger.keys import flow_key

_FIRST = datetime.max.replace(tzinfo=UTC)
"""The sort key of a file without statistics, which has to be read first."""


class EntryLog:
    """One log. The number of a flow's last entry is kept as an application transaction, in the same commit as
    the entries."""

    def __init__(self, table: LedgerTable) -> None:
        self.table = table

    def append(self, entries: Sequence[Entry]) -> None:
        keys = {(entry["pipeline"], entry["flow"]) for entry in entries}

        def attempt() -> bool:
            snapshot = self.table.newest()
            had = {key: self.table.counter(snapshot, flow_key(*key)) for key in keys}
            fresh: dict[str, list[Row]] = {}
            reached: dict[str, int] = {}
            for entry in entries:
                key = entry["pipeline"], entry["flow"]
                if entry["n"] > had[key]:
                    fresh.setdefault(entry["pipeline"], []).append(entry_row(entry))
                    reached[flow_key(*key)] = max(reached.get(flow_key(*key), 0), entry["n"])
            return not fresh or self._append(snapshot, fresh, reached)

        retry_until_committed(self.table.shown, attempt)

    def _append(
        self, snapshot: LedgerSnapshot, fresh: Mapping[str, list[Row]], reached: Mapping[str, int]
    ) -> bool:
        add, gone = [], []
        for pipeline, rows in fresh.items():
            merged = worth_merging(snapshot.of(pipeline))
            older = [row for file in merged for row in decode(LOG, self.table.get(file))]
            add.append(new_file(pipeline, "log", LOG, older + rows))
            gone += merged
        return commit(self.table, snapshot, add, gone, reached)

    def read(
        self, pipeline: str, flow: str | None, kinds: Sequence[str] | None, limit: int | None
    ) -> list[Entry]:
        only: list[tuple[str, str, Any]] = []
        if flow is not None:
            only.append(("flow", "==", flow))
        if kinds is not None:
            only.append(("kind", "in", list(kinds)))
        # The newest files first, so that a short answer out of a long history reads few of them.
        files = sorted(self.table.newest().of(pipeline), key=_latest, reverse=True)
        found: list[Row] = []
        for at, file in enumerate(files):
            found = sorted(found + decode(LOG, self.table.get(file), only), key=_age, reverse=True)[:limit]
            later = files[at + 1 :]
            if limit is not None and len(found) == limit and later and found[-1]["at"] > _latest(later[0]):
                break
        return [json.loads(row["entry"]) for row in found]

    def prune(self, pipeline: str, before: datetime, keep: Collection[str]) -> int:
        limit = before.replace(tzinfo=UTC)
        count = 0

        def attempt() -> bool:
            nonlocal count
            count = 0
            snapshot = self.table.newest()
            gone: list[LedgerFile] = []
            rest: list[Row] = []
            for file in snapshot.of(pipeline):
                rows = decode(LOG, self.table.get(file))
                stay = [row for row in rows if row["at"] >= limit or row["id"] in keep]
                if len(stay) < len(rows):
                    count += len(rows) - len(stay)
                    gone.append(file)
                    rest += stay
            rest.sort(key=_age)
            add = [
                new_file(pipeline, "log", LOG, rest[start : start + LARGEST])
                for start in range(0, len(rest), LARGEST)
            ]
            return not gone or commit(self.table, snapshot, add, gone, {})

        retry_until_committed(self.table.shown, attempt)
        return count


def _latest(file: LedgerFile) -> datetime:
    return file.latest or _FIRST


def _age(row: Row) -> tuple[datetime, int]:
    return row["at"], row["n"]
