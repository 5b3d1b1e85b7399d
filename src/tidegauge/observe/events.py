"""Events of a run, typed. The runner sends them; progress bars, logs and tests receive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.model.state import State, tell_state

if TYPE_CHECKING:
    from tidegauge.model.plan import Draft
    from tidegauge.model.table import Layout
    from tidegauge.model.view_flow import GraphFlow


@dataclass(frozen=True)
class RunStarted:
    run_id: str
    pipeline: str


@dataclass(frozen=True)
class FlowsChosen:
    """Gives listeners the spec of every chosen flow; other events have only the flow's name."""

    specs: tuple[GraphFlow, ...]


@dataclass(frozen=True)
class Planning:
    """Sources are being asked what is new."""

    flows: int


@dataclass(frozen=True)
class FlowPlanned:
    flow: str
    rows: int | None
    batches: int
    resumed: bool
    """Whether an earlier plan is continued, with its frozen windows."""
    notes: tuple[str, ...]
    draft: Draft | None = None
    """The plan with its frozen windows."""


@dataclass(frozen=True)
class NoteAdded:
    """The run found something that a person should know."""

    flow: str
    note: str


@dataclass(frozen=True)
class SparkStarting:
    pass


@dataclass(frozen=True)
class StepBegun:
    flow: str
    step: str


@dataclass(frozen=True)
class StepDone:
    flow: str
    step: str


@dataclass(frozen=True)
class BatchCommitted:
    flow: str
    number: int
    of: int
    rows: int
    found: bool
    """Whether the batch was already in the output, written by an earlier attempt."""
    layout: Layout | None = None
    """Columns of the batch's rows, if this attempt wrote them."""


@dataclass(frozen=True)
class FlowEnded:
    flow: str
    state: State
    rows: int
    seconds: float
    error: str | None
    counts: Mapping[str, int | None] = field(default_factory=dict)
    """Rows by what became of them: read, written, inserted, updated, deleted, quarantined; None: unknown."""
    reason: str | None = None
    """Why the flow was skipped; None if only because there was nothing new."""
    suspended: bool = False
    """Whether a person has suspended the flow, so it was not run; `error` or `reason` says who and why."""

    @property
    def told_state(self) -> str:
        return tell_state(self.state, suspended=self.suspended, prevented=self.reason is not None)


@dataclass(frozen=True)
class Comparing:
    """A target is being compared with its source."""

    table: str
    number: int
    of: int


RunEvent = (
    RunStarted
    | FlowsChosen
    | Planning
    | FlowPlanned
    | NoteAdded
    | SparkStarting
    | StepBegun
    | StepDone
    | BatchCommitted
    | FlowEnded
    | Comparing
)
Listener = Callable[[RunEvent], None]
