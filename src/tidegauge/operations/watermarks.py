"""Every watermark of a pipeline, by what the ledger says."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidegauge.ledger.open import open_ledger
from tidegauge.model.position import to_json
from tidegauge.model.spec import Project
from tidegauge.model.watermark import Watermark
from tidegauge.operations.status import iso


def list_watermarks(project: Project) -> tuple[datetime, list[Watermark]]:
    """The store's clock, and the watermarks."""
    with open_ledger(project.ledger, create=False) as ledger:
        return ledger.now(), ledger.watermarks(project.pipeline)


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
