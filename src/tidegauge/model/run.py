"""What the ledger stores about a flow's present, its runs and its history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.model.claim import Owner
from tidegauge.model.override import FlowRevision, Override, Undo
from tidegauge.model.plan import Plan
from tidegauge.model.position import Position, Window
from tidegauge.model.state import State, tell_state
from tidegauge.model.suspension import Suspension


@dataclass(frozen=True)
class FlowStatus:
    """A flow's present: its state, its active plan if there is one, its last run."""

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
    """Inputs of the active plan that are done while others are not."""
    planned_at: datetime | None = None
    """When the active plan was made."""
    override: Override | None = None
    """The override that was begun and not ended, if there is one."""
    undo: Undo | None = None
    suspended: Suspension | None = None

    @property
    def revision(self) -> FlowRevision:
        """What each claim, plan and batch of the flow changes. Under an override the plan does not count."""
        plan = None if self.override is not None else self.plan
        return FlowRevision(self.fence, plan.plan_id, plan.done) if plan else FlowRevision(self.fence)

    @property
    def shown_state(self) -> State:
        """The state for people: FAILED for a flow that is READY but could not be planned the last time."""
        run = self.last_run
        refused = run is not None and run.plan_id is None and run.state is State.FAILED
        return State.FAILED if self.state is State.READY and refused else self.state

    @property
    def ended_as_skipped(self) -> bool:
        return self.last_run is not None and self.last_run.ended_as_skipped


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
    """None here, as in the two counts before, means that the count is not known."""
    window: Window | None = None
    """The window of the plan's first input that the attempt was to cover."""
    times: tuple[datetime | None, datetime | None] = (None, None)
    """The times of that window's ends, each None if not known; see `to_moment`."""

    @property
    def told_state(self) -> str:
        return tell_state(self.state, prevented=self.ended_as_skipped)

    @property
    def ended_as_skipped(self) -> bool:
        """Whether the job ended its plan as SKIPPED. A run that found nothing new is SKIPPED and has none."""
        return self.state is State.SKIPPED and self.plan_id is not None


@dataclass(frozen=True)
class HistoryEvent:
    at: datetime
    """Time by the store's clock, in UTC: without a zone from the ledger, with a zone from a tracker."""
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
"""The fields of RunRecord and RunTotals that are added up."""


@dataclass(frozen=True)
class RunTotals:
    """The sums over a flow's runs that are in one state; an unknown count adds 0."""

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
    """Sum of the events' row counts."""
