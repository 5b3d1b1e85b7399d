"""Rows of the append-only history, and the texts in it: masked, and such that every store can hold them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tidegauge.ledger.keys import flow_key, pipeline_key
from tidegauge.model.position import Position, encode
from tidegauge.model.secret import mask

FAILURES = ("failed", "refused")
"""The events that `history --failed` shows."""


def entry(
    event: str,
    *,
    at: datetime | str,
    pipeline: str,
    flow: str,
    actor: str,
    run_id: str | None,
    plan_id: str | None = None,
    reason: str | None = None,
    before: Position | None = None,
    after: Position | None = None,
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "at": at,
        "pipeline_key": pipeline_key(pipeline),
        "flow_key": flow_key(pipeline, flow),
        "pipeline": pipeline,
        "flow": flow,
        "run_id": run_id,
        "plan_id": plan_id,
        "event": event,
        "actor": clean(actor),
        "reason": None if reason is None else clean(mask(reason)),
        "position_before": position_text(before),
        "position_after": position_text(after),
        "error": None if error is None else _sentence(error),
    }


def position_text(position: Position | None) -> str | None:
    return None if position is None else encode(position)


def error_text(error: dict[str, Any] | None) -> str | None:
    # Masked before it becomes JSON, where a secret with a quote in it looks different.
    return None if error is None else json.dumps(_masked(error), ensure_ascii=True, default=str)


def clean(text: str) -> str:
    """Without what PostgreSQL cannot store (NUL) and no store can (half a surrogate pair)."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")


def _sentence(error: dict[str, Any]) -> str:
    kind, message = error.get("type"), str(error.get("message", ""))
    return clean(mask(f"{kind}: {message}" if kind else message))


def _masked(value: Any) -> Any:
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: _masked(part) for key, part in value.items()}
        case list() | tuple():
            return [_masked(part) for part in value]
        case _:
            return value
