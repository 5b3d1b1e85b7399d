"""A plan of version ranges, one for each table, under one run_id until all are completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.model.plan import InputPlan, Plan
from tidegauge.model.position import Position, VersionPosition
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.secret import mask
from tidegauge.model.state import State
from tidegauge.tracker.moment import with_utc
from tidegauge.tracker.pipeline_state import PipelineState

Range = tuple[int, int]
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class TablePlan:
    """One table's part of a plan: the versions from `start_version` to `end_version`, both included."""

    table: str
    start_version: int
    end_version: int
    last_processed_version: int | None
    """The last version of the table that was completed; None if none was."""
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
    """SKIPPED if nothing was new: then there are no ranges."""
    ranges: Mapping[str, Range]
    """First and last version, both included, of each table that is not completed yet."""
    tables: Mapping[str, TablePlan]
    """All tables of the plan."""
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


def build_plan(pipeline_state: PipelineState, events: Sequence[HistoryEvent] = ()) -> ProcessingPlan | None:
    """The plan that has not ended, or None. `events` have the row counts of completed tables."""
    status = pipeline_state.status
    if status is None or status.plan is None:
        return None
    return _build(status, status.plan, status.state, status.completed, pipeline_state, events)


def build_ended_plan(
    before: PipelineState, after: FlowStatus, state: State, events: Sequence[HistoryEvent]
) -> ProcessingPlan:
    """The plan that was active in `before`, now that it has ended."""
    assert before.plan is not None
    completed = frozenset(part.input for part in before.plan.draft.inputs)
    return _build(after, before.plan, state, completed, before, events)


def build_skipped_plan(pipeline: str, run_id: str, now: datetime, notes: tuple[str, ...]) -> ProcessingPlan:
    at = with_utc(now)
    return ProcessingPlan(run_id, pipeline, State.SKIPPED, {}, {}, at, at, notes=notes)


def _build(
    status: FlowStatus,
    plan: Plan,
    state: State,
    completed: frozenset[str],
    pipeline_state: PipelineState,
    events: Sequence[HistoryEvent],
) -> ProcessingPlan:
    run = status.last_run if status.last_run and status.last_run.plan_id == plan.plan_id else None
    made = status.planned_at or _planned_at(pipeline_state) or (run.started_at if run else _EPOCH)
    return ProcessingPlan(
        run_id=plan.plan_id,
        pipeline=status.pipeline,
        state=state,
        ranges={
            name: version_range(part) for name, part in inputs_by_name(plan).items() if name not in completed
        },
        tables=_build_tables(plan, state, completed, pipeline_state, events),
        created_at=with_utc(made),
        notes=plan.draft.notes,
        **_describe_run(run, state, made),
    )


def _build_tables(
    plan: Plan,
    state: State,
    completed: frozenset[str],
    pipeline_state: PipelineState,
    events: Sequence[HistoryEvent],
) -> dict[str, TablePlan]:
    rows = {
        event.input: event.rows
        for event in events
        if event.event == "advanced" and event.plan_id == plan.plan_id
    }
    tables = {}
    for name, part in inputs_by_name(plan).items():
        first, last = version_range(part)
        mark, done = pipeline_state.marks.get(name), name in completed
        tables[name] = TablePlan(
            table=name,
            start_version=first,
            end_version=last,
            last_processed_version=last if done else version_of(mark.position if mark else None),
            status=(State.SUCCESS if done else state).value,
            schema_version=part.fingerprint or None,
            commit_timestamp=datetime.fromisoformat(part.stamp) if part.stamp else None,
            records_processed=rows.get(name),
        )
    return tables


def _describe_run(run: RunRecord | None, state: State, made: datetime) -> dict[str, Any]:
    """The fields of a plan that its last attempt fills."""
    if run is None:
        return {"updated_at": with_utc(made)}
    over, failed = run.ended_at, state is State.FAILED
    return {
        "updated_at": with_utc(over or run.started_at),
        "attempt": run.attempt,
        "error_message": mask(str(run.error.get("message"))) if failed and run.error else None,
        "failed_at": with_utc(over) if failed and over else None,
        "duration": (over - run.started_at).total_seconds() if over else None,
    }


def _planned_at(pipeline_state: PipelineState) -> datetime | None:
    return pipeline_state.status.planned_at if pipeline_state.status else None


def inputs_by_name(plan: Plan) -> dict[str, InputPlan]:
    return {part.input: part for part in plan.draft.inputs}


def version_range(part: InputPlan) -> Range:
    assert part.window is not None
    after, upto = version_of(part.window.after), version_of(part.window.upto)
    assert upto is not None
    return (0 if after is None else after + 1), upto


def version_of(position: Position | None) -> int | None:
    return position.version if isinstance(position, VersionPosition) else None
