"""An error as JSON: masked, with its hint, and whether to try again."""

from __future__ import annotations

from typing import Any

from tidegauge.errors import TidegaugeError
from tidegauge.model.secret import mask


def error_to_json(error: TidegaugeError) -> dict[str, Any]:
    return {
        "type": error.type,
        "message": mask(error.sentence),
        "hint": mask(error.hint) if error.hint else None,
        "retryable": error.retryable,
    }
