"""Document 001's plan: a range of versions for each table, under one run_id until all are completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegauge.model.plan import InputPlan, Plan
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import FlowStatus, HistoryEvent
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.tracker.moment import aware
from tidegauge.tracker.pipeline_state import PipelineState

Range = tuple[int, int]


@dataclass(frozen=True)
class TablePlan:
    """One table's part of a plan: the versions from `start_version` to `end_version`, both included."""

    table: str
    start_version: int
    end_version: int
    last_processed_version: int | None
    """None: never completed before."""
    status: str
    """PLANNED, RUNNING or FAILED like the plan, SUCCESS once this table is completed."""
    schema_version: str | None = None
    commit_timestamp: datetime | None = None
    """When `end_version` was committed."""
    records_processed: int | None = None


@dataclass(frozen=True)
class ProcessingPlan:
    run_id: str
    pipeline: str
    state: State
    """SKIPPED: nothing is new, and there is no range."""
    ranges: Mapping[str, Range]
    """Of the tables that are not completed: first and last version, both included."""
    tables: Mapping[str, TablePlan]
    """All of them."""
    created_at: datetime
    updated_at: datetime
    attempt: int = 0
    error_message: str | None = None
    failed_at: datetime | None = None
    duration: float | None = None
    """Seconds of the last attempt, once it has ended."""
    notes: tuple[str, ...] = ()

    @property
    def plan_id(self) -> str:
        return self.run_id

    @property
    def status(self) -> str:
        return self.state.value


def from_standing(standing: PipelineState, events: Sequence[HistoryEvent] = ()) -> ProcessingPlan | None:
    """The plan that has not ended, if there is one. `events` tell the counts of completed tables."""
    status = standing.status
    if status is None or status.plan is None:
        return None
    return _built(status, status.plan, status.state, status.completed, standing, events)


def ended(
    before: PipelineState, after: FlowStatus, state: State, events: Sequence[HistoryEvent]
) -> ProcessingPlan:
    """The plan that was active in `before`, now that it has ended."""
    assert before.plan is not None
    completed = frozenset(part.input for part in before.plan.draft.inputs)
    return _built(after, before.plan, state, completed, before, events)


def skipped(pipeline: str, run_id: str, now: datetime, notes: tuple[str, ...]) -> ProcessingPlan:
    at = aware(now)
    return ProcessingPlan(run_id, pipeline, State.SKIPPED, {}, {}, at, at, notes=notes)


def _built(
    status: FlowStatus,
    plan: Plan,
    state: State,
    completed: frozenset[str],
    standing: PipelineState,
    events: Sequence[HistoryEvent],
) -> ProcessingPlan:
    run = status.last_run if status.last_run and status.last_run.plan_id == plan.plan_id else None
    done = {
        event.input: event for event in events if event.event == "advanced" and event.plan_id == plan.plan_id
    }
    tables = {}
    for part in plan.draft.inputs:
        first, last = span(part)
        mark = standing.marks.get(part.input)
        event = done.get(part.input)
        tables[part.input] = TablePlan(
            table=part.input,
            start_version=first,
            end_version=last,
            last_processed_version=last
            if part.input in completed
            else version(mark.position if mark else None),
            status=(State.SUCCESS if part.input in completed else state).value,
            schema_version=part.fingerprint or None,
            commit_timestamp=datetime.fromisoformat(part.stamp) if part.stamp else None,
            records_processed=event.rows if event else None,
        )
    made = status.planned_at or standing_made(standing) or (run.started_at if run else datetime(1970, 1, 1))
    over = run.ended_at if run else None
    failed = run is not None and state is State.FAILED
    return ProcessingPlan(
        run_id=plan.plan_id,
        pipeline=status.pipeline,
        state=state,
        ranges={name: span(part) for name, part in by_name(plan).items() if name not in completed},
        tables=tables,
        created_at=aware(made),
        updated_at=aware(over or (run.started_at if run else made)),
        attempt=run.attempt if run else 0,
        error_message=mask(str(run.error.get("message"))) if failed and run and run.error else None,
        failed_at=aware(over) if failed and over else None,
        duration=(over - run.started_at).total_seconds() if run and over else None,
        notes=plan.draft.notes,
    )


def standing_made(standing: PipelineState) -> datetime | None:
    return standing.status.planned_at if standing.status else None


def by_name(plan: Plan) -> dict[str, InputPlan]:
    return {part.input: part for part in plan.draft.inputs}


def span(part: InputPlan) -> Range:
    assert part.window is not None
    after, upto = version(part.window.after), version(part.window.upto)
    assert upto is not None
    return (0 if after is None else after + 1), upto


def version(position: Position | None) -> int | None:
    return position.version if isinstance(position, VersionPosition) else None
