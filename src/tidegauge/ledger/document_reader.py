"""Read a ledger of documents: watermarks, the state of flows, history. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self

from tidegauge.ledger.document_store import DocumentStore
from tidegauge.ledger.flow_document import FlowDocument, newest_first
from tidegauge.ledger.flow_view import status_of, watermarks_of
from tidegauge.ledger.journal import FAILURES
from tidegauge.ledger.keys import flow_key
from tidegauge.ledger.log_entries import event_of
from tidegauge.ledger.stored_flow import document_of
from tidegauge.model.run import FlowStatus, HistoryEvent
from tidegauge.model.watermark import Tally, Watermark


class DocumentReader:
    """Implements LedgerReader over a shelf."""

    def __init__(self, shelf: DocumentStore) -> None:
        self._shelf = shelf

    @property
    def shown(self) -> str:
        return self._shelf.shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._shelf.close()

    def now(self) -> datetime:
        return self._shelf.now()

    def watermarks(self, pipeline: str, flows: Sequence[str] | None = None) -> list[Watermark]:
        return sorted(
            (mark for page in self._pages(pipeline, flows) for mark in watermarks_of(page.book)),
            key=lambda mark: (mark.flow, mark.input),
        )

    def status(self, pipeline: str, flows: Sequence[str] | None = None) -> list[FlowStatus]:
        return sorted(
            (status_of(page.book, page.last) for page in self._pages(pipeline, flows)),
            key=lambda status: status.flow,
        )

    def tallies(self, pipeline: str, flows: Sequence[str]) -> dict[str, Tally]:
        return {
            page.book.flow: replace(page.book.tally, created_at=page.created_at, updated_at=page.updated_at)
            for page in self._pages(pipeline, flows)
        }

    def history(
        self, pipeline: str, *, flow: str | None = None, failed: bool = False, limit: int = 20
    ) -> list[HistoryEvent]:
        kinds = FAILURES if failed else None
        # The outboxes first: what is moved in between is then seen twice, and not never.
        loaded = self._shelf.load(pipeline, None if flow is None else [flow])
        waiting = [
            entry for leaf in loaded.leaves.values() for entry in document_of(leaf).outbox.get("history", ())
        ]
        moved = self._shelf.read("history", pipeline, flow=flow, kinds=kinds, limit=limit)
        found = [*moved, *(entry for entry in waiting if kinds is None or entry["kind"] in kinds)]
        return [event_of(entry) for entry in newest_first(found)[:limit]]

    def pipelines(self) -> list[str]:
        return self._shelf.pipelines()

    def find_plan(self, plan_id: str) -> tuple[str, str, bool] | None:
        for pipeline in self._shelf.pipelines():
            for leaf in self._shelf.load(pipeline).leaves.values():
                if not plan_id.endswith(mark_of(pipeline, leaf.flow)):
                    continue
                page = document_of(leaf)
                if page.book.active is not None and page.book.active.plan.plan_id == plan_id:
                    return pipeline, leaf.flow, True
                ended = [*page.outbox.get("plans", ()), *self._shelf.read("plans", pipeline, flow=leaf.flow)]
                if any(entry["plan_id"] == plan_id for entry in ended):
                    return pipeline, leaf.flow, False
        return None

    def _pages(self, pipeline: str, flows: Sequence[str] | None) -> list[FlowDocument]:
        leaves = self._shelf.load(pipeline, flows).leaves.values()
        return [page for page in map(document_of, leaves) if page.known]


def mark_of(pipeline: str, flow: str) -> str:
    """The end of the names of a flow's plans, so that they are found without reading every flow's past."""
    return f"-{flow_key(pipeline, flow)[:8]}"
