"""Read a ledger of documents: watermarks, the state of flows, history. Never writes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from tidegauge.ledger.document_store import DocumentStore, Entry
from tidegauge.ledger.document_tables import (
    TableRow,
    active_plan_rows,
    ended_plan_row,
    flow_rows,
    history_rows,
    run_rows,
    watermark_rows,
)
from tidegauge.ledger.flow_document import FlowDocument, sort_newest_first
from tidegauge.ledger.flow_status import status_of, watermarks_of
from tidegauge.ledger.journal import kinds_of
from tidegauge.ledger.keys import flow_key
from tidegauge.ledger.log_entries import event_of, moment_of, run_of
from tidegauge.ledger.record_numbers import RecordNumber, give_numbers
from tidegauge.ledger.stored_flow import document_of
from tidegauge.model.run import COUNTS, EventTotals, FlowStatus, HistoryEvent, RunRecord, RunTotals
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.model.watermark import Tally, Watermark


class DocumentReader:
    """Implements LedgerReader over a store of documents."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    @property
    def shown(self) -> str:
        return self._documents.shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._documents.close()

    def now(self) -> datetime:
        return self._documents.now()

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:
        return sorted(
            (
                mark
                for document in self._load_documents(pipeline, flows)
                for mark in watermarks_of(document.flow_state)
            ),
            key=lambda mark: (mark.flow, mark.input),
        )

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        return sorted(
            (
                status_of(document.flow_state, document.last)
                for document in self._load_documents(pipeline, flows)
            ),
            key=lambda status: status.flow,
        )

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        return {
            document.flow_state.flow: replace(
                document.flow_state.tally, created_at=document.created_at, updated_at=document.updated_at
            )
            for document in self._load_documents(pipeline, flows)
        }

    def history(
        self,
        pipeline: str,
        *,
        flow: str | None = None,
        failed: bool = False,
        events: Sequence[str] | None = None,
        limit: int | None = 20,
    ) -> list[HistoryEvent]:
        kinds = kinds_of(events, failed=failed)
        if limit == 0 or (kinds is not None and not kinds):
            return []
        # Pending entries first: what is moved to the log in between is then seen twice, rather than never.
        loaded = self._documents.load(pipeline, None if flow is None else [flow])
        waiting = [
            entry
            for stored_flow in loaded.stored_flows.values()
            for entry in document_of(stored_flow).pending.get("history", ())
        ]
        moved = self._documents.read("history", pipeline, flow=flow, kinds=kinds, limit=limit)
        found = [*moved, *(entry for entry in waiting if kinds is None or entry["kind"] in kinds)]
        return [event_of(entry) for entry in sort_newest_first(found)[:limit]]

    def runs(
        self,
        pipeline: str,
        *,
        since: datetime = datetime.min,
        flow: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        if limit == 0:
            return []
        # Pending entries first, as in `history`.
        documents = self._load_documents(pipeline, None if flow is None else [flow])
        waiting = [entry for document in documents for entry in document.pending.get("runs", ())]
        moved = self._read_ended(pipeline, flow, limit if run_id is None else None)
        ended = sort_newest_first([*moved, *waiting])
        begun = [one.last for one in documents if one.last is not None and one.last.ended_at is None]
        found = [
            run
            for run in (*begun, *map(run_of, ended))
            if run.started_at >= since and run_id in (None, run.run_id)
        ]
        return sorted(found, key=lambda run: run.started_at, reverse=True)[:limit]

    def _read_ended(self, pipeline: str, flow: str | None, limit: int | None) -> list[Entry]:
        """The attempts in the log, at least the `limit` that started last: the log is in the order of their
        ends, so more is read while one that ended earlier may have started later. The last `limit` alone do
        not rule that out: the first of them started before it ended."""
        count = None if limit is None else 2 * limit
        while True:
            found = self._documents.read("runs", pipeline, flow=flow, limit=count)
            if limit is None or count is None or len(found) < count:
                return found
            starts = sorted((run_of(entry).started_at for entry in found), reverse=True)
            if starts[limit - 1] >= moment_of(found[-1]["at"]):
                return found
            count *= 2

    def run_totals(self, pipeline: str) -> list[RunTotals]:
        found: dict[tuple[str, State], Counter[str]] = {}
        for run in self.runs(pipeline, since=datetime.min):
            counts = found.setdefault((run.flow, run.state), Counter())
            counts.update({"runs": 1, **{name: getattr(run, name) or 0 for name in COUNTS}})
        return [RunTotals(flow, state, **counts) for (flow, state), counts in sorted(found.items())]

    def event_totals(self, pipeline: str) -> list[EventTotals]:
        events, rows = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for one in self.history(pipeline, limit=None):
            events[one.flow, one.event] += 1
            rows[one.flow, one.event] += one.rows or 0
        return [EventTotals(*key, events[key], rows[key]) for key in sorted(events)]

    def pipelines(self) -> list[str]:
        return self._documents.pipelines()

    def ticks(self, pipeline: str) -> SchedulerRecords:
        found = self._documents.load(pipeline, [ALL]).stored_flows.get(ALL)
        return SchedulerRecords() if found is None else document_of(found).flow_state.ticks

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        for pipeline in self._documents.pipelines():
            for stored_flow in self._documents.load(pipeline).stored_flows.values():
                if not plan_id.endswith(mark_of(pipeline, stored_flow.flow)):
                    continue
                document = document_of(stored_flow)
                if (
                    document.flow_state.active is not None
                    and document.flow_state.active.plan.plan_id == plan_id
                ):
                    return pipeline, stored_flow.flow, True
                ended = [
                    *document.pending.get("plans", ()),
                    *self._documents.read("plans", pipeline, flow=stored_flow.flow),
                ]
                if any(entry["plan_id"] == plan_id for entry in ended):
                    return pipeline, stored_flow.flow, False
        return None

    def table_rows(self, table: str) -> list[TableRow]:
        """All rows of `flows`, `watermarks`, `plans`, `runs` or `history`, as a SQL ledger has them."""
        names = self._documents.pipelines()
        if table == "runs":
            runs = [run for name in names for run in self.runs(name, since=datetime.min)]
            return run_rows(runs, self._documents.numbers(table))
        if table == "history":
            events = [event for name in names for event in self.history(name, limit=sys.maxsize)]
            return history_rows(events, self._documents.numbers(table))
        documents = [document for name in names for document in self._load_documents(name, None)]
        if table == "plans":
            return [*map(ended_plan_row, self._ended_plans(names, documents)), *active_plan_rows(documents)]
        return list(flow_rows(documents) if table == "flows" else watermark_rows(documents))

    def record_numbers(self) -> list[RecordNumber]:
        records = self._documents.records()
        return give_numbers(records, self.table_rows("runs")) if records else []

    def _ended_plans(self, pipelines: Sequence[str], documents: Sequence[FlowDocument]) -> list[Entry]:
        """The log entries of all plans that have ended, oldest first."""
        waiting = [entry for document in documents for entry in document.pending.get("plans", ())]
        moved = [entry for name in pipelines for entry in self._documents.read("plans", name)]
        return sort_newest_first([*moved, *waiting])[::-1]

    def _load_documents(self, pipeline: str, flows: Sequence[str] | None) -> list[FlowDocument]:
        stored_flows = self._documents.load(pipeline, flows).stored_flows.values()
        asked = flows or ()
        return [
            document
            for document in map(document_of, stored_flows)
            if document.known or (document.flow_state.flow == ALL and ALL in asked)
        ]


def mark_of(pipeline: str, flow: str) -> str:
    """The suffix of the ids of a flow's plans, so that `find_plan` need not read every flow's past."""
    return f"-{flow_key(pipeline, flow)[:8]}"
