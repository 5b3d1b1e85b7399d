"""A flow's state in the form that readers of a ledger get."""

from __future__ import annotations

from tidegauge.ledger.flow_state import FlowState, InputWatermark
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.watermark import Watermark


def watermarks_of(flow_state: FlowState) -> list[Watermark]:
    return [watermark_of(flow_state.pipeline, flow_state.flow, mark) for mark in flow_state.marks.values()]


def watermark_of(pipeline: str, flow: str, mark: InputWatermark) -> Watermark:
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


def status_of(flow_state: FlowState, last_run: RunRecord | None) -> FlowStatus:
    active = flow_state.active
    return FlowStatus(
        pipeline=flow_state.pipeline,
        flow=flow_state.flow,
        state=flow_state.state,
        plan=active.plan if active else None,
        fence=flow_state.fence,
        owner=active.owner if active else None,
        lease_until=active.lease_until if active else None,
        last_run=last_run,
        completed=active.completed if active else frozenset(),
        planned_at=active.created_at if active else None,
        override=flow_state.override,
        undo=flow_state.undo,
        suspended=flow_state.suspended,
    )
