"""A person's word that a flow, or a whole pipeline, is not to run for now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

ALL = "*"
"""Stands for every flow of a pipeline where the ledger keeps something under a flow's name."""


@dataclass(frozen=True)
class Suspension:
    reason: str
    actor: str
    at: datetime
    """By the ledger's clock."""
