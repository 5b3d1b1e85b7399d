"""Rows of the append-only history, and its texts: masked, and cleaned so that every store can hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.model.position import Position, encode
from tidegauge.model.run import HistoryEvent
from tidegauge.model.secret import mask

FAILURES = ("failed", "refused")
"""The events that `history --failed` shows."""


def kinds_of(events: Sequence[str] | None, *, failed: bool) -> Sequence[str] | None:
    """The kinds of event that a query of the history asks for; None means all."""
    if not failed:
        return events
    return FAILURES if events is None else [kind for kind in FAILURES if kind in events]


def event_columns(event: HistoryEvent) -> dict[str, Any]:
    """The columns of one event, all but its time."""
    return {
        "pipeline_key": pipeline_key(event.pipeline),
        "flow_key": flow_key(event.pipeline, event.flow),
        "pipeline": event.pipeline,
        "flow": event.flow,
        "input": event.input,
        "run_id": event.run_id,
        "plan_id": event.plan_id,
        "event": event.event,
        "actor": event.actor,
        "reason": event.reason,
        "position_before": position_text(event.before),
        "position_after": position_text(event.after),
        "error": event.error,
        "row_count": event.rows,
        "seconds": event.seconds,
    }


def position_text(position: Position | None) -> str | None:
    return None if position is None else encode(position)


def error_text(error: dict[str, Any] | None) -> str | None:
    return None if error is None else json.dumps(error, ensure_ascii=True, default=str)


def mask_error(error: dict[str, Any] | None) -> dict[str, Any] | None:
    # Masked before it becomes JSON, where a secret that contains a quote would look different.
    return None if error is None else {key: _mask_value(part) for key, part in error.items()}


def clean(text: str) -> str:
    """Replace what PostgreSQL cannot store (NUL) and what no store can (half a surrogate pair)."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")


def describe_error(error: dict[str, Any]) -> str:
    kind, message = error.get("type"), str(error.get("message", ""))
    return clean(mask(f"{kind}: {message}" if kind else message))


def _mask_value(value: Any) -> Any:
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: _mask_value(part) for key, part in value.items()}
        case list() | tuple():
            return [_mask_value(part) for part in value]
        case _:
            return value
