"""Suspensions: a person has stopped a flow, or a whole pipeline, for now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

ALL = "*"
"""In the ledger, stands in place of a flow's name for every flow of a pipeline."""


@dataclass(frozen=True)
class Suspension:
    reason: str
    actor: str
    at: datetime
    """When it was suspended, by the ledger's clock."""
