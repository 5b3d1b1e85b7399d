"""What people are shown of a flow while it is under way: its attempt, and its plan. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tidegauge.ledger.document_store import OpenFlow
from tidegauge.ledger.flow_document import FlowDocument
from tidegauge.ledger.log_entries import moment_text, run_body

Standing = tuple[Hashable, ...]


def name_of(document: FlowDocument) -> tuple[str, str]:
    return document.flow_state.pipeline, document.flow_state.flow


def standing_of(document: FlowDocument) -> Standing:
    """Changes when an attempt or a plan begins, ends or changes its state; not from batch to batch."""
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
    return OpenFlow(
        flow=document.flow_state.flow,
        created_at=moment_text(document.created_at),
        updated_at=moment_text(document.updated_at),
        numbers=document.numbers,
        pending=document.pending,
        open=entries,
    )
