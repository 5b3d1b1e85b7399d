"""What a ledger of documents needs of the place that keeps them: JSON files or Delta tables.

`document_ledger.py` has the protocol; a store of documents only keeps flows by compare-and-set, and appends
to logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

LOGS = ("history", "runs", "plans")
"""What happened, the attempts that ended, and the plans that ended."""


class WriterCameBetween(Exception):
    """Another writer came between; load again.

    `saved` names the flows of this save that were kept all the same. Only a store that keeps each flow by
    itself ever has any.
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
    A store never looks inside, but for `loaded`, the newest files that the flow has taken from a lake, which
    are too many to stand in the row as well."""
    row: Mapping[str, Any]
    """The same for people, as ROW lists it. A store shows it under the names of its own documents and never
    reads it back for the protocol."""


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
    """What `load` saw, and what `save` compares with."""

    pipeline: str
    stored_flows: Mapping[str, StoredFlow]
    """By flow; one that the ledger does not know has no entry."""
    token: Any = field(repr=False)
    """The store's own: the version of everything that was asked for, also of what was not there."""


Entry = Mapping[str, Any]
"""A line of a log, in plain JSON values. Every one has

- `id`: text, different from that of every other entry of the log;
- `pipeline`, `flow`: text;
- `n`: a number that grows by one from entry to entry of this flow in this log. The first is the microsecond
  since 1970 in which the flow's document was made, so that one made again after a loss goes on above it;
- `at`: text, a moment as in ROW;
- `kind`: text: the event for history, the state for runs and plans.

The rest is the writer's own, and comes back as it was."""


@dataclass(frozen=True)
class OpenFlow:
    """What people are shown of a flow besides its document, in the words of the logs."""

    flow: str
    created_at: str
    updated_at: str
    numbers: Mapping[str, int]
    """The last entry of each log."""
    pending: Mapping[str, Sequence[Entry]]
    """Entries that a log may not have yet, in their order."""
    open: Mapping[str, Entry]
    """By log: what will be an entry of it once it has ended. It has no `id` and no `n` yet."""


@dataclass(frozen=True)
class GivenNumbers:
    """What a table for people has numbered so far."""

    by_key: Mapping[tuple[Any, ...], Sequence[int]] = field(default_factory=dict)
    """In their order. A run's key is its pipeline, its flow and when it began; an event's goes on with what
    happened, and to which input."""
    last: int = 0


@dataclass(frozen=True)
class NumberedRecord:
    """A window of a flow, from READY to its end, as a table for people numbers it."""

    pipeline: str
    flow: str
    number: int
    run_id: str | None
    updated_at: datetime
    """In UTC without a zone."""
    newest: bool
    """Not ended yet."""


class DocumentStore(Protocol):
    """Safe to share between threads. Raises LedgerUnreachable when an answer cannot be known, LedgerError for
    a place that is damaged, LedgerVersion for one that newer code made."""

    @property
    def shown(self) -> str:
        """The address as errors may name it."""

    def now(self) -> datetime:
        """The store's clock, in UTC without a zone."""

    def pipelines(self) -> list[str]:
        """Every pipeline that has a flow, in name order."""

    def load(self, pipeline: str, flows: Sequence[str] | None = None) -> LoadedDocuments:
        """These flows, or all that the pipeline has."""

    def save(self, loaded: LoadedDocuments, stored_flows: Iterable[StoredFlow]) -> None:
        """Keep the flows, durably, each only if nobody has changed it since `load`. They are taken once, one
        by one, before any of them is kept.

        Every one is a flow that `load` was asked for. Returns when all are kept; raises
        WriterCameBetween when another writer did, and then either none is kept or its `saved` names
        those that are. Any other error proves nothing: load again and look.
        """

    def append(self, log: str, entries: Sequence[Entry]) -> None:
        """Keep the entries in a log, of any flows, durably. Those that are in it already are left alone, so
        that a call may be repeated with the same entries and more. For each flow they come in the order of
        `n` and leave no gap after what the log has."""

    def show(
        self, pipeline: str, flows: Sequence[OpenFlow], logs: Sequence[str], *, whole: bool = False
    ) -> bool:
        """Bring tables for people up to date, where the store has any of these logs. They are written after
        the documents and never read for the protocol, so a call that dies, or fails, is made up for by the
        next one for the same flow. False if a table is new and has to be told of the `whole` pipeline."""

    def numbers(self, log: str) -> GivenNumbers:
        """The numbers that people are shown for what is in a log or open; none where the store has no table
        of it."""

    def records(self) -> list[NumberedRecord]:
        """Every record that has a number for people; none where the store gives no numbers."""

    def read(
        self,
        log: str,
        pipeline: str,
        *,
        flow: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Newest first: by `at`, and within a flow by `n`."""

    def prune(self, log: str, pipeline: str, before: datetime, *, keep: Collection[str] = ()) -> int:
        """Forget entries older than that, but not those with an id in `keep`, and say how many."""

    def close(self) -> None: ...
