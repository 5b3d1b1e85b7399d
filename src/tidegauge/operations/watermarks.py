"""Lists every watermark of a pipeline, from the ledger."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import to_json
from tidegauge.model.spec import Project
from tidegauge.model.watermark import Watermark
from tidegauge.operations.status import iso
from tidegauge.operations.tracker_pipelines import check_pipeline


def list_watermarks(project: Project, pipeline: str | None = None) -> tuple[datetime, list[Watermark]]:
    """Return the store's time, and the watermarks; `pipeline` names another pipeline of the ledger."""
    with open_ledger(project.ledger, create=False) as ledger:
        name = check_pipeline(ledger, pipeline) if pipeline else project.pipeline
        return ledger.now(), ledger.watermarks(name)


def watermark_to_json(mark: Watermark) -> dict[str, Any]:
    return {
        "pipeline": mark.pipeline,
        "flow": mark.flow,
        "input": mark.input,
        "cursor": mark.cursor,
        "position": to_json(mark.position),
        "checked": to_json(mark.checked),
        "updated_at": iso(mark.updated_at),
        "epoch": mark.epoch,
    }
