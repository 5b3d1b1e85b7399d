"""A book as those see it who read a ledger."""

from __future__ import annotations

from tidegauge.ledger.flow_state import FlowState, InputState
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.watermark import Watermark


def watermarks_of(book: FlowState) -> list[Watermark]:
    return [watermark_of(book.pipeline, book.flow, mark) for mark in book.marks.values()]


def watermark_of(pipeline: str, flow: str, mark: InputState) -> Watermark:
    return Watermark(
        pipeline=pipeline,
        flow=flow,
        input=mark.input,
        cursor=mark.cursor,
        position=mark.position,
        checked=mark.checked,
        epoch=mark.epoch,
        seq=mark.seq,
        pending=mark.pending,
        source_id=mark.source_id,
        updated_at=mark.updated_at,
        fingerprint=mark.fingerprint,
        stamp=mark.stamp,
    )


def status_of(book: FlowState, last_run: RunRecord | None) -> FlowStatus:
    active = book.active
    return FlowStatus(
        pipeline=book.pipeline,
        flow=book.flow,
        state=book.state,
        plan=active.plan if active else None,
        fence=book.fence,
        owner=active.owner if active else None,
        lease_until=active.lease_until if active else None,
        last_run=last_run,
        completed=active.completed if active else frozenset(),
        planned_at=active.created_at if active else None,
        override=book.override,
        undo=book.undo,
    )
