"""What people are shown of a flow that is under way: its open attempt and its active plan. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tidegauge.ledger.document_store import OpenFlow
from tidegauge.ledger.flow_document import FlowDocument, message_of
from tidegauge.ledger.flow_state import ActivePlan
from tidegauge.ledger.log_entries import moment_text, run_body
from tidegauge.model.plan import InputPlan
from tidegauge.model.position import Position, VersionPosition

OpenFlowVersion = tuple[Hashable, ...]


def name_of(document: FlowDocument) -> tuple[str, str]:
    return document.flow_state.pipeline, document.flow_state.flow


def standing_of(document: FlowDocument) -> OpenFlowVersion:
    """A value that changes when an attempt or a plan begins, ends or changes its state, but not with each
    batch."""
    active, run = document.flow_state.active, document.last
    return (
        document.numbers["runs"],
        document.numbers["plans"],
        (active.plan.plan_id, active.state, active.completed) if active else None,
        (run.plan_id, run.attempt, run.started_at) if run and run.ended_at is None else None,
    )


def open_flow_of(document: FlowDocument) -> OpenFlow:
    entries: dict[str, dict[str, Any]] = {}
    if document.last is not None and document.last.ended_at is None:
        entries["runs"] = run_body(document.last)
    if document.flow_state.active is not None:
        entries["plans"] = _plan_body(document, document.flow_state.active)
    return OpenFlow(
        flow=document.flow_state.flow,
        created_at=moment_text(document.created_at),
        updated_at=moment_text(document.updated_at),
        numbers=document.numbers,
        pending=document.pending,
        open=entries,
    )


def _plan_body(document: FlowDocument, active: ActivePlan) -> dict[str, Any]:
    """The plan in the form of its later log entry, without the batches and with each input's position."""
    flow_state, plan = document.flow_state, active.plan
    return {
        "pipeline": flow_state.pipeline,
        "flow": flow_state.flow,
        "at": moment_text(active.updated_at),
        "kind": active.state.value,
        "plan_id": plan.plan_id,
        "created_at": moment_text(active.created_at),
        "plan": {"inputs": [_part_body(part) for part in plan.draft.inputs]},
        "completed": sorted(active.completed),
        "positions": {name: _version_body(mark.position) for name, mark in flow_state.marks.items()},
        "rows": dict(document.counted),
        "error": message_of(document.last, plan.plan_id),
    }


def _part_body(part: InputPlan) -> dict[str, Any]:
    return {
        "input": part.input,
        "window": {"after": _version_body(part.window.after), "upto": _version_body(part.window.upto)}
        if part.window
        else None,
        "fingerprint": part.fingerprint,
        "stamp": part.stamp,
    }


def _version_body(position: Position | None) -> dict[str, int] | None:
    """A version as a log entry has it; None for other positions, which the table of plans does not show."""
    return {"version": position.version} if isinstance(position, VersionPosition) else None
