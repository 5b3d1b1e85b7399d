"""Events of a run, typed. The runner sends them; progress bars, logs and tests receive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.model.state import State

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
    """For listeners who want to know more of a flow than its name."""

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
    """An earlier plan is continued, with its frozen windows."""
    notes: tuple[str, ...]
    draft: Draft | None = None
    """The frozen windows."""


@dataclass(frozen=True)
class NoteAdded:
    """Something that a person should know was found during the run."""

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
    """It was already in the output: an earlier attempt had got that far."""
    layout: Layout | None = None
    """The columns of its rows, where it was written now."""


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
    """Why it was skipped, where that is not because there is nothing new."""


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
