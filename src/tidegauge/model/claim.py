"""Who holds a flow, and with which right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.plan import Plan


@dataclass(frozen=True)
class Owner:
    """A process that holds flows: enough to name it, and to find out whether it still runs."""

    actor: str
    """`user@host`, as the history shows it."""
    host: str
    """Identity of machine, boot and process namespace; empty where that is not known."""
    pid: int
    started: str
    """The process's own start mark, so that a reused pid is not mistaken for it."""


@dataclass(frozen=True)
class Claim:
    """The right to write one flow's output, until the fence is raised by another."""

    plan: Plan
    owner: Owner
    run_id: str
    fence: int
    attempt: int
    """1 for the first try of a plan."""
    lease_until: datetime
