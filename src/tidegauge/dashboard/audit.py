"""The history page: who did what, when and why, from which position to which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tidegauge.dashboard.snapshot import FleetSnapshots
from tidegauge.ledger.open import open_ledger
from tidegauge.model.override import BY_HAND
from tidegauge.model.run import HistoryEvent

MOST = 2000
"""How many events are searched; `tidegauge history` has no such limit."""
ROWS = 100


@dataclass(frozen=True)
class AuditFilter:
    pipeline: str = ""
    flow: str = ""
    event: str = ""
    """A kind of event; `by hand` for all kinds of changes by hand; empty for all."""
    actor: str = ""
    failed: bool = False
    page: int = 1

    @property
    def kinds(self) -> list[str] | None:
        if self.event == "by hand":
            return list(BY_HAND)
        return [self.event] if self.event else None

    @property
    def narrows(self) -> bool:
        return bool(self.flow or self.event or self.actor or self.failed)

    def but(self, **changed: Any) -> AuditFilter:
        return replace(self, **{"page": 1, **changed})

    def to_query(self) -> dict[str, str]:
        return {
            name: "1" if value is True else str(value)
            for name, value in vars(self).items()
            if value != getattr(AuditFilter, name)
        }


@dataclass(frozen=True)
class AuditPage:
    at: datetime
    events: tuple[HistoryEvent, ...]
    found: int
    whole: bool
    """Whether the ledger has no more events than were searched."""
    pages: int
    asked: AuditFilter
    pipelines: tuple[str, ...]


def make_audit_page(snapshots: FleetSnapshots, asked: AuditFilter, *, rows: int = ROWS) -> AuditPage:
    pipeline = asked.pipeline or snapshots.project.pipeline
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        now, pipelines = ledger.now(), ledger.pipelines()
        looked = ledger.history(
            pipeline, flow=asked.flow or None, failed=asked.failed, events=asked.kinds, limit=MOST
        )
    who = asked.actor.casefold()
    found = [one for one in looked if not who or who in one.actor.casefold()]
    pages = max(1, -(-len(found) // rows))
    page = min(max(asked.page, 1), pages)
    return AuditPage(
        at=now,
        events=tuple(found[(page - 1) * rows : page * rows]),
        found=len(found),
        whole=len(looked) < MOST,
        pages=pages,
        asked=replace(asked, page=page),
        pipelines=tuple(dict.fromkeys([snapshots.project.pipeline, *pipelines])),
    )
