"""A flow's page: its watermarks, the rest of its plan, its runs, and its settings in the project file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegauge.dashboard.positions import Axis, axis_over, place_of, second_of
from tidegauge.dashboard.settings import FlowSetting, settings_of
from tidegauge.dashboard.snapshot import FleetSnapshots, SeenFlow
from tidegauge.ledger.holder import is_held
from tidegauge.ledger.open import open_ledger
from tidegauge.model.plan import Batch, Plan
from tidegauge.model.position import Position, Window, to_text
from tidegauge.model.run import FlowStatus, HistoryEvent, RunRecord
from tidegauge.model.state import State
from tidegauge.model.watermark import Tally, Watermark
from tidegauge.operations.stats import seconds_of
from tidegauge.operations.status import lag_of

_RUNS, _EVENTS, _BATCHES = 40, 12, 200


@dataclass(frozen=True)
class MarkPoint:
    name: str
    """`watermark`, `checked`, `plan` or `now`."""
    text: str
    place: float | None
    """The place on the axis; None if the position has none."""


@dataclass(frozen=True)
class MarkLine:
    """One input: how far it is delivered, how far it was checked, and how far the plan goes."""

    input: str
    cursor: str
    epoch: int
    seq: int
    points: tuple[MarkPoint, ...]
    axis: Axis | None
    lag_seconds: float | None
    updated_at: datetime


@dataclass(frozen=True)
class BatchLine:
    seq: int
    windows: tuple[str, ...]
    rows: int | None
    done: bool
    word: str
    """What is special about the batch, such as `read again`; mostly empty."""


@dataclass(frozen=True)
class PlanView:
    plan_id: str
    planned_at: datetime | None
    epoch: int
    done: int
    batches: int
    lines: tuple[BatchLine, ...]
    """The last batches that are done, and the next ones to do."""
    hidden: int
    covers: str
    """A sentence that says what the next run or a retry reads."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class FlowPage:
    at: datetime
    seen: SeenFlow
    status: FlowStatus
    held: bool
    """Whether a runner is working on the flow."""
    marks: tuple[MarkLine, ...]
    plan: PlanView | None
    runs: tuple[RunRecord, ...]
    """The last runs, newest first."""
    error: dict[str, Any] | None
    """The error of the last run; None if it had none."""
    tally: Tally
    events: tuple[HistoryEvent, ...]
    settings: tuple[FlowSetting, ...]
    own: bool
    """Whether the flow is of this project's pipeline, not of another one in the same ledger."""

    @property
    def rows(self) -> tuple[float, ...]:
        """The rows written by each run that ended with SUCCESS or FAILED, oldest first."""
        return tuple(float(run.rows_written) for run in self._find_ended_runs())

    @property
    def seconds(self) -> tuple[float, ...]:
        return tuple(seconds_of(run) or 0.0 for run in self._find_ended_runs())

    def _find_ended_runs(self) -> list[RunRecord]:
        return [run for run in reversed(self.runs) if run.state in (State.SUCCESS, State.FAILED)]


def make_flow_page(snapshots: FleetSnapshots, pipeline: str, flow: str) -> FlowPage | None:
    """The page of this flow; None if the ledger has no such flow."""
    seen = snapshots.read().find(pipeline, flow)
    with open_ledger(snapshots.project.ledger, create=False) as ledger:
        now, statuses = ledger.now(), ledger.status(pipeline, [flow])
        if seen is None or not statuses:
            return None
        [status] = statuses
        marks = ledger.watermarks(pipeline, [flow])
        runs = ledger.runs(pipeline, flow=flow, limit=_RUNS)
        tally = ledger.tallies(pipeline, [flow]).get(flow, Tally())
        events = ledger.history(pipeline, flow=flow, limit=_EVENTS)
    own = pipeline == snapshots.project.pipeline
    spec = snapshots.spec_of(flow) if own else None
    return FlowPage(
        at=now,
        seen=seen,
        status=status,
        held=is_held(status, now),
        marks=tuple(_make_line(mark, status.plan, now) for mark in marks),
        plan=_make_plan_view(status) if status.plan else None,
        runs=tuple(runs),
        error=status.last_run.error if status.last_run else None,
        tally=tally,
        events=tuple(events),
        settings=settings_of(spec) if spec is not None else (),
        own=own,
    )


def _make_line(mark: Watermark, plan: Plan | None, now: datetime) -> MarkLine:
    points = [_make_point("watermark", mark.position, mark.cursor)]
    if mark.checked is not None:
        points.append(_make_point("checked", mark.checked, mark.cursor))
    for part in plan.draft.inputs if plan else ():
        if part.input == mark.input and part.window is not None:
            points.append(_make_point("plan", part.window.upto, mark.cursor))
    lag = lag_of(mark, now)
    if lag is not None:
        points.append(MarkPoint("now", f"{now:%Y-%m-%d %H:%M:%S}", second_of(now)))
    places = [one.place for one in points if one.place is not None]
    axis = axis_over(places, margin=0.04) if len(set(places)) > 1 else None
    return MarkLine(mark.input, mark.cursor, mark.epoch, mark.seq, tuple(points), axis, lag, mark.updated_at)


def _make_point(name: str, position: Position | None, cursor: str) -> MarkPoint:
    return MarkPoint(name, to_text(position), place_of(position, cursor))


def _make_plan_view(status: FlowStatus) -> PlanView:
    plan = status.plan
    assert plan is not None
    batches = plan.draft.batches
    first = max(0, plan.done - 5)
    shown = list(enumerate(batches))[first : first + _BATCHES]
    return PlanView(
        plan_id=plan.plan_id,
        planned_at=status.planned_at,
        epoch=plan.epoch,
        done=plan.done,
        batches=len(batches),
        lines=tuple(_make_batch_line(plan, index, batch) for index, batch in shown),
        hidden=len(batches) - len(shown),
        covers=_describe_rest(batches[plan.done :], plan),
        notes=plan.draft.notes,
    )


def _make_batch_line(plan: Plan, index: int, batch: Batch) -> BatchLine:
    words = {
        "rows without a cursor": batch.nulls,
        "read again": batch.rereads,
        "makes the empty table": batch.creates_output,
        "deletes": batch.deletes,
        "empties the target": batch.empties_output,
        "repairs": batch.repairs is not None,
    }
    return BatchLine(
        plan.first_seq + index,
        tuple(map(show_window, batch.windows)),
        batch.rows,
        index < plan.done,
        ", ".join(word for word, holds in words.items() if holds),
    )


def show_window(window: Window) -> str:
    return f"({to_text(window.after)}, {to_text(window.upto)}]"


def _describe_rest(left: Sequence[Batch], plan: Plan) -> str:
    if not left:
        return "nothing: every batch is committed, and only the end of the plan is left to write down"
    many = f"{len(left):,} of {len(plan.draft.batches):,} batches"
    known = [batch.rows for batch in left if batch.rows is not None]
    rows = f", about {sum(known):,} rows" if len(known) == len(left) else ""
    ends = [
        f"{part.input} {show_window(Window(left[0].windows[place].after, left[-1].windows[place].upto))}"
        for place, part in enumerate(plan.draft.inputs)
        if place < len(left[0].windows)
    ]
    return f"{many}{rows}: {'; '.join(ends)}"
