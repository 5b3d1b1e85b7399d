"""What a flow has in quarantine, as people see it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SetAside:
    """What a flow has in quarantine."""

    flow: str
    table: str
    rows: int
    reasons: dict[str, int]
    """By check, how many rows fail it."""
    first: str | None = None
    last: str | None = None
    examples: tuple[str, ...] = ()

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
