"""What a ledger of documents needs of its store: JSON files or Delta tables.

`document_ledger.py` has the protocol; a store of documents only saves flows by compare-and-set, and appends
to logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

LOGS = ("history", "runs", "plans")
"""The logs: what happened, the attempts that ended, and the plans that ended."""


class WriterCameBetween(Exception):
    """Another writer has changed something since it was loaded; load again.

    `saved` names the flows of this save that were kept nevertheless. It is empty for a store that saves all
    flows in one commit.
    """

    def __init__(self, saved: frozenset[str] = frozenset()) -> None:
        super().__init__("another writer came between")
        self.saved = saved


@dataclass(frozen=True)
class StoredFlow:
    """One flow as a store of documents keeps it."""

    pipeline: str
    flow: str
    body: Mapping[str, Any]
    """Plain JSON values: all that the protocol knows, and the log entries that are not in the logs yet.
    A store reads only `loaded` from it: the newest files that the flow has taken from a lake, which are too
    many for the row."""
    row: Mapping[str, Any]
    """A summary for people, with the keys of ROW. A store shows it under its own field names, and never reads
    it back for the protocol."""


ROW = {
    "state": "READY, PLANNED, RUNNING, SUCCESS, FAILED or SKIPPED",
    "run_id": "of the run under way, else of the last one; None before the first",
    "run_state": "RUNNING, or how it ended: SUCCESS, FAILED, SKIPPED or PLANNED; None before the first",
    "started_at": "of that run; None",
    "ended_at": "of that run; None while it is under way",
    "rows": "written by that run; None",
    "batches": "committed by that run; None",
    "error": "one masked sentence, if that run failed; None",
    "cursor": "kind of the first input's cursor: timestamp, value, version, files; None",
    "position": "of the first input: the cursor's text for timestamp and value; None",
    "version": "of the first input: the number, for version and files; None",
    "time": "of the first input: when that position was, a commit's or a newest row's time; None",
    "upto": "where the active plan ends for the first input: text or number as above; None",
    "upto_time": "when that is, as above; None",
    "epoch": "number",
    "seq": "number of the last committed batch in the epoch",
    "fence": "number",
    "manual": "whether a person set the position: True or False",
    "advanced_at": "when the watermark last moved; None",
    "total_rows": "written since the last reset",
    "total_batches": "committed since then",
    "total_files": "written since then; None where that is not known",
    "total_seconds": "of the runs that ended since then",
    "strategy": "of the newest run: sequential, inter-table, intra-table; None",
    "loaded_files": "number of a lake's files that it has taken since the last reset",
    "created_at": "when the ledger first got to know the flow",
    "updated_at": "when the flow's document last changed",
}
"""The keys of `StoredFlow.row`. Times are text: ISO 8601, UTC without a zone, six digits of fraction."""


@dataclass(frozen=True)
class LoadedDocuments:
    """The flows that `load` found, and the versions that `save` compares with."""

    pipeline: str
    stored_flows: Mapping[str, StoredFlow]
    """By flow; one that the ledger does not know has no entry."""
    token: Any = field(repr=False)
    """For the store alone: the version of everything that was asked for, also of what did not exist."""


Entry = Mapping[str, Any]
"""A line of a log, in plain JSON values. Every entry has

- `id`: text, different from that of every other entry of the log;
- `pipeline`, `flow`: text;
- `n`: a number that grows by one from entry to entry of this flow in this log. The first is the microsecond
  since 1970 in which the flow's document was made, so that one made again after a loss goes on above it;
- `at`: text, a moment as in ROW;
- `kind`: text: the event for history, the state for runs and plans.

All other keys are the writer's, and come back unchanged."""


@dataclass(frozen=True)
class OpenFlow:
    """What the tables for people need of a flow, in the form of log entries."""

    flow: str
    created_at: str
    updated_at: str
    numbers: Mapping[str, int]
    """By log: the number `n` of the flow's last entry."""
    pending: Mapping[str, Sequence[Entry]]
    """By log: entries that it may not have yet, in their order."""
    open: Mapping[str, Entry]
    """By log: what becomes an entry once it has ended. It has no `id` and no `n` yet."""


@dataclass(frozen=True)
class AssignedNumbers:
    """The numbers that a table for people has given its rows so far."""

    by_key: Mapping[tuple[Any, ...], Sequence[int]] = field(default_factory=dict)
    """By key, the numbers of its rows in their order. A run's key is its pipeline, flow and start; an event's
    is its pipeline, flow, time, event and input."""
    last: int = 0
    """The last number that was given; 0 before the first."""


@dataclass(frozen=True)
class NumberedRecord:
    """One window of a flow, from READY to its end, with the number that people see."""

    pipeline: str
    flow: str
    number: int
    run_id: str | None
    updated_at: datetime
    """In UTC without a zone."""
    newest: bool
    """Whether this is the flow's current record, which has not ended."""


class DocumentStore(Protocol):
    """Keeps flows and logs. Safe to share between threads. Raises LedgerUnreachable when the store's answer
    cannot be known, LedgerError for a damaged store, LedgerVersion for one that newer code made."""

    @property
    def shown(self) -> str:
        """The address as errors may name it."""

    def now(self) -> datetime:
        """The store's clock, in UTC without a zone."""

    def pipelines(self) -> list[str]:
        """Every pipeline that has a flow, in name order."""

    def load(self, pipeline: str, flows: Sequence[str] | None = None) -> LoadedDocuments:
        """Load these flows, or all of the pipeline's."""

    def save(self, loaded: LoadedDocuments, stored_flows: Iterable[StoredFlow]) -> None:
        """Save the flows durably, each only if nobody has changed it since `load`. `stored_flows` is iterated
        once, to its end, before anything is saved.

        Each must be a flow that `load` was asked for. Raises WriterCameBetween when another writer was first;
        then nothing is saved but the flows in its `saved`. After any other error nobody knows what was saved:
        load again and look.
        """

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        """Append entries of any flows to a log, durably. Entries that the log has already are skipped, so
        that a call may be repeated with the same entries and more. Each flow's entries must be in the order
        of `n`, with no gap after the log's last one."""

    def show(
        self, pipeline: str, flows: Sequence[OpenFlow], logs: Sequence[str], *, whole: bool = False
    ) -> bool:
        """Bring the tables for people that show these logs up to date, if the store has any. They are written
        after the documents and the protocol never reads them, so the next call for the same flow makes up for
        one that failed. False if a table has nothing of the pipeline yet: then it needs a call with all flows
        of the pipeline and `whole`."""

    def numbers(self, log: str) -> AssignedNumbers:
        """The numbers that people see for a log's entries and for what is open; empty where the store has no
        table for them."""

    def records(self) -> list[NumberedRecord]:
        """Every record that has a number for people; empty where the store gives no numbers."""

    def read(
        self,
        log: str,
        pipeline: str,
        *,
        flow: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """A pipeline's entries, newest first: by `at`, and within a flow by `n`. `kinds`: only these."""

    def prune(self, log: str, pipeline: str, before: datetime, *, keep: Collection[str] = ()) -> int:
        """Remove entries older than `before`, but not those with an id in `keep`. Returns how many."""

    def close(self) -> None: ...
