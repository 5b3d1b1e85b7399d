"""All that the ledger knows of one flow, as one value. Stores load and save it; only the modules `*_rules`
change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegauge.model.claim import Owner
from tidegauge.model.override import Override, Undo
from tidegauge.model.plan import Plan
from tidegauge.model.position import Position
from tidegauge.model.run import HistoryEvent, RunRecord
from tidegauge.model.state import State
from tidegauge.model.suspension import Suspension
from tidegauge.model.ticks import SchedulerRecords
from tidegauge.model.watermark import Tally

NO_TALLY, NO_TICKS = Tally(), SchedulerRecords()
"""The values of most flows. Made once, because a thousand flows are loaded at a time."""


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """One input's watermark, and what the next plan needs to know of the input."""

    input: str
    cursor: str
    position: Position | None
    checked: Position | None
    epoch: int
    seq: int
    pending: str | None
    source_id: str | None
    fingerprint: str | None
    """Fingerprint of the columns, from the last plan that advanced this input."""
    stamp: str | None
    """When the source committed the position; None where the source does not say."""
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ActivePlan:
    """A plan that has not ended."""

    plan: Plan
    state: State
    """PLANNED, RUNNING or FAILED."""
    attempt: int
    begun: int | None
    """Index of the batch that was begun last; None before the first."""
    completed: frozenset[str]
    """Inputs of the current batch that are done while others are not."""
    owner: Owner | None
    lease_until: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FlowState:
    pipeline: str
    flow: str
    idle: State = State.READY
    """The state while no plan is active: READY, SUCCESS or SKIPPED."""
    fence: int = 0
    """Raised by every claim, override, forget and rebuild, and never lowered, not even by a new plan."""
    epoch: int = 0
    seq: int = 0
    """Sequence number of the last batch committed in this epoch; 0 before the first."""
    marks: Mapping[str, InputWatermark] = field(default_factory=dict)
    active: ActivePlan | None = None
    run: RunRecord | None = None
    """The active plan's current or last attempt; None before the first."""
    override: Override | None = None
    undo: Undo | None = None
    tally: Tally = NO_TALLY
    tally_before: Tally | None = None
    """The tally that the last override replaced; its undo brings it back."""
    suspended: Suspension | None = None
    ticks: SchedulerRecords = NO_TICKS
    """Set only on the flow `*`, which stands for the pipeline."""

    @property
    def state(self) -> State:
        return self.active.state if self.active else self.idle

    @property
    def forgotten(self) -> bool:
        return self.undo is not None and self.undo.forgot


@dataclass(frozen=True, slots=True)
class EndedPlan:
    """A plan as it was when it ended."""

    active: ActivePlan
    word: str
    """SUCCESS, SKIPPED or SUPERSEDED."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a rule decided. A store keeps all of it, or nothing."""

    flow_state: FlowState
    events: tuple[HistoryEvent, ...] = ()
    runs: tuple[RunRecord, ...] = ()
    """Runs to save: each replaces the stored run with the same plan and attempt, or is added."""
    ended: tuple[EndedPlan, ...] = ()
