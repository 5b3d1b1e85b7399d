"""What the ledger says of a flow's present, of its runs and of its history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.model.claim import Owner
from tidegauge.model.override import Override, Stand, Undo
from tidegauge.model.plan import Plan
from tidegauge.model.position import Position, Window
from tidegauge.model.state import State
from tidegauge.model.suspension import Suspension


@dataclass(frozen=True)
class FlowStatus:
    """What is known of a flow's present: its state, its active plan if there is one, its last run."""

    pipeline: str
    flow: str
    state: State
    plan: Plan | None
    """The active plan: PLANNED, RUNNING or FAILED."""
    fence: int
    owner: Owner | None
    lease_until: datetime | None
    last_run: RunRecord | None
    completed: frozenset[str] = frozenset()
    """Inputs of the active plan that are done before the others."""
    planned_at: datetime | None = None
    """When the active plan was made."""
    override: Override | None = None
    """One that was begun and not ended."""
    undo: Undo | None = None
    suspended: Suspension | None = None

    @property
    def stand(self) -> Stand:
        """A plan that an override was begun over is as good as ended."""
        plan = None if self.override is not None else self.plan
        return Stand(self.fence, plan.plan_id, plan.done) if plan else Stand(self.fence)

    @property
    def shown_state(self) -> State:
        """For people: a flow that could not even be planned is READY for the next try, and has failed."""
        run = self.last_run
        refused = run is not None and run.plan_id is None and run.state is State.FAILED
        return State.FAILED if self.state is State.READY and refused else self.state


@dataclass(frozen=True)
class RunRecord:
    run_id: str
    pipeline: str
    flow: str
    plan_id: str | None
    attempt: int
    state: State
    started_at: datetime
    ended_at: datetime | None
    batches: int
    rows_read: int
    rows_written: int
    error: dict[str, Any] | None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    """None where it is not known."""
    window: Window | None = None
    """What the attempt set out to cover of the plan's first input."""
    times: tuple[datetime | None, datetime | None] = (None, None)
    """When the ends of that window were, each None where nobody can say; see `to_moment`."""


@dataclass(frozen=True)
class HistoryEvent:
    at: datetime
    """By the store's clock: UTC, without a zone in the ledger's own calls and with it from a tracker."""
    pipeline: str
    flow: str
    run_id: str | None
    event: str
    actor: str
    reason: str | None
    before: Position | None
    after: Position | None
    error: str | None
    input: str | None = None
    plan_id: str | None = None
    rows: int | None = None
    seconds: float | None = None


COUNTS = ("batches", "rows_read", "rows_written", "rows_inserted", "rows_updated", "rows_deleted")
"""What is added up of runs, as RunRecord and RunTotals name it."""


@dataclass(frozen=True)
class RunTotals:
    """What the runs of a flow that are in one state add up to; a count that a run does not know is 0."""

    flow: str
    state: State
    runs: int = 0
    batches: int = 0
    rows_read: int = 0
    rows_written: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


@dataclass(frozen=True)
class EventTotals:
    flow: str
    event: str
    events: int
    rows: int
    """That the events name."""
