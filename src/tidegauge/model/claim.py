"""Who holds a flow, and with which fence and lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.plan import Plan


@dataclass(frozen=True)
class Owner:
    """A process that holds flows, with the facts to name it and to find out whether it still runs."""

    actor: str
    """`user@host`, as the history shows it."""
    host: str
    """Identity of machine, boot and process namespace; empty if not known."""
    pid: int
    started: str
    """When the process started, so that another process with the same pid is not mistaken for it."""


@dataclass(frozen=True)
class Claim:
    """The right to write one flow's output, until another process raises the fence."""

    plan: Plan
    owner: Owner
    run_id: str
    fence: int
    attempt: int
    """Number of this attempt at the plan, from 1."""
    lease_until: datetime
