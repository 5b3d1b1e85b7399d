"""Events of a run, typed. The runner sends them; progress bars, logs and tests receive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegauge.model.state import State


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


@dataclass(frozen=True)
class FlowEnded:
    flow: str
    state: State
    rows: int
    seconds: float
    error: str | None


@dataclass(frozen=True)
class Comparing:
    """A target is being compared with its source."""

    table: str
    number: int
    of: int


RunEvent = (
    Planning
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
