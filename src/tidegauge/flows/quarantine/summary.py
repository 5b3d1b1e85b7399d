"""A summary of a flow's quarantine, for people and `--json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QuarantineSummary:
    """A summary of a flow's quarantine."""

    flow: str
    table: str
    """The quarantine table."""
    rows: int
    reasons: dict[str, int]
    """By check, how many rows fail it."""
    first: str | None = None
    """When the oldest of the rows was quarantined."""
    last: str | None = None
    """When the newest of the rows was quarantined."""
    examples: tuple[str, ...] = ()
    """Some of the rows, as JSON."""

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "table": self.table,
            "rows": self.rows,
            "reasons": self.reasons,
            "first": self.first,
            "last": self.last,
            "examples": [json.loads(one) for one in self.examples],
        }
