"""Where every flow stands, according to the ledger. Asks no source and starts no Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from tidegauge.flows.names import flows_of, means, stage_flow, stage_of, table_named, table_of
from tidegauge.flows.selection.select_words import select_flows
from tidegauge.ledger.holder import is_abandoned
from tidegauge.ledger.open import open_ledger
from tidegauge.model.health import HealthLimits
from tidegauge.model.override import FORGET
from tidegauge.model.pending import Pending, describe_waiting
from tidegauge.model.position import (
    FilesPosition,
    Position,
    RowPosition,
    VersionPosition,
    to_json,
    to_moment,
    to_text,
)
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus, RunRecord
from tidegauge.model.spec import Project, Stage
from tidegauge.model.state import State, tell_state
from tidegauge.model.suspension import ALL, Suspension
from tidegauge.model.view_flow import in_flows
from tidegauge.model.watermark import Watermark


@dataclass(frozen=True)
class FlowSummary:
    flow: str
    state: State
    told_state: str
    """The state as people read it."""
    watermarks: dict[str, Position | None]
    checked: dict[str, Position | None]
    """How far each input was looked at; on an idle table that is further than its watermark."""
    lag_seconds: float | None
    last_run: RunRecord | None
    holder: str | None
    lease_until: datetime | None
    override: str | None = None
    """The kind of override that was begun and not ended, if there is one."""
    in_file: bool = True
    """Whether the project file still names the flow."""
    suspended: Suspension | None = None
    """The suspension of the flow or of the whole pipeline, if there is one."""
    batches_there: int | None = None
    """For a flow that reads a lake: how many batches the lake has, according to the ledger; else None."""
    rows_waiting: int = 0
    """Number of rows dated past the source's clock, when it was last looked at."""
    abandoned: bool = False
    """Whether it is RUNNING but its runner is gone or its lease has expired."""
    planned_at: datetime | None = None
    """When its plan was made; None: it has no plan."""

    @property
    def seconds(self) -> float | None:
        """Duration of the last run; None while it runs, or if there was none."""
        run = self.last_run
        return (
            None if run is None or run.ended_at is None else (run.ended_at - run.started_at).total_seconds()
        )

    @property
    def reads_versions(self) -> bool:
        """Whether it reads Delta tables, whose input names do not follow from the flow's name."""
        return any(isinstance(position, VersionPosition) for position in self.watermarks.values())

    @property
    def watermarks_text(self) -> dict[str, str]:
        return {name: self._describe(position) for name, position in self.watermarks.items()}

    def _describe(self, position: Position | None) -> str:
        there = self.batches_there
        if isinstance(position, FilesPosition) and there is not None and position.sequence <= there:
            return f"{to_text(position)} of {there:,}"
        return to_text(position)

    @property
    def checked_text(self) -> dict[str, str]:
        return {name: to_text(position) if position else "—" for name, position in self.checked.items()}

    @property
    def waits_for(self) -> str:
        if self.suspended:
            return f"`schedule resume`: suspended by {self.suspended.actor}: {self.suspended.reason}"
        if self.override:
            return f"the next run, which ends the override ({self.override})"
        if self.abandoned:
            return "the next run, which takes over: its runner is gone"
        if self.state is State.RUNNING and self.holder:
            return f"{self.holder}, lease until {self.lease_until:%H:%M:%S} UTC"
        if not self.in_file:
            return "nothing: this file does not name it; `tidegauge forget` takes it off this list"
        if self.last_run is not None and self.last_run.error:
            return str(self.last_run.error.get("message", ""))
        if self.state is State.PLANNED:
            return "the next run"
        return describe_waiting(self.rows_waiting) if self.rows_waiting else ""

    def to_json(self) -> dict[str, Any]:
        run = self.last_run
        return {
            "flow": self.flow,
            "state": self.state.value,
            "watermarks": {name: to_json(position) for name, position in self.watermarks.items()},
            "checked": {name: to_json(position) for name, position in self.checked.items()},
            "lag_seconds": self.lag_seconds,
            "rows_waiting": self.rows_waiting,
            "last_run": run_to_json(run) if run else None,
            "lease": {"owner": self.holder, "until": iso(self.lease_until)}
            if self.holder and self.lease_until
            else None,
            **({} if self.in_file else {"in_file": False}),
            **({"suspended": suspension_to_json(self.suspended)} if self.suspended else {}),
        }


def summarize_pipeline(project: Project, name: str) -> tuple[datetime, list[FlowSummary]]:
    """Return the store's time, and the flows of another pipeline of the ledger. Raises ConfigError if there
    is no such pipeline."""
    # Imported here because it imports the whole tracker, which is not needed for the project's own pipeline.
    from tidegauge.operations.tracker_pipelines import check_pipeline

    with open_ledger(project.ledger, create=False) as ledger:
        check_pipeline(ledger, name)
        now, statuses, found = ledger.now(), read_statuses(ledger, name), ledger.watermarks(name)
    return now, [_summarize(one, [mark for mark in found if mark.flow == one.flow], now) for one in statuses]


def summarize_flows(project: Project, selection: Sequence[str]) -> tuple[datetime, list[FlowSummary]]:
    """Return the store's time, and the selected flows."""
    selection = spread(project, selection)
    with open_ledger(project.ledger, create=False) as ledger:
        now = ledger.now()
        marks: dict[str, list[Watermark]] = {}
        for mark in ledger.watermarks(project.pipeline):
            marks.setdefault(mark.flow, []).append(mark)
        statuses = [
            one
            for one in read_statuses(ledger, project.pipeline)
            if selects(project, one.flow, selection) and not is_hidden(one, marks.get(one.flow, ()))
        ]
    return now, [
        replace(
            _summarize(status, marks.get(status.flow, []), now),
            in_file=is_named(project, status.flow),
            batches_there=_count_batches(status.flow, marks),
        )
        for status in statuses
    ]


def read_statuses(ledger: LedgerReader, pipeline: str) -> list[FlowStatus]:
    """Return where each flow stands. The suspension in a status is the flow's, or else its pipeline's."""
    above = next((one.suspended for one in ledger.status(pipeline, [ALL])), None)
    return [replace(one, suspended=one.suspended or above) for one in ledger.status(pipeline)]


def _count_batches(flow: str, marks: Mapping[str, Sequence[Watermark]]) -> int | None:
    """For a load, return how many batches the table's extract has written to the lake; else None."""
    if stage_of(flow) is not Stage.LOAD:
        return None
    return max((mark.seq for mark in marks.get(stage_flow(table_of(flow), Stage.EXTRACT), ())), default=None)


def is_hidden(status: FlowStatus, marks: Sequence[Watermark]) -> bool:
    """Whether the flow was forgotten and has not run since."""
    undo, run = status.undo, status.last_run
    if undo is None or undo.kind != FORGET or marks or status.plan is not None:
        return False
    return run is None or run.started_at <= undo.at


def is_named(project: Project, flow: str) -> bool:
    """Whether the project file names the flow, by a pattern too. Does not check that its table exists."""
    if any(delta_flow.name == flow for delta_flow in project.delta_flows):
        return True
    for sync in project.syncs:
        table = table_named(sync.source, flow)
        if flow in flows_of(sync, table) and means(sync, table):
            return True
    return False


def run_to_json(run: RunRecord) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "state": run.state.value,
        "attempt": run.attempt,
        "started_at": iso(run.started_at),
        "ended_at": iso(run.ended_at) if run.ended_at else None,
        "batches": run.batches,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "rows_inserted": run.rows_inserted,
        "rows_updated": run.rows_updated,
        "rows_deleted": run.rows_deleted,
        "error": run.error,
    }


def iso(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds") + "Z"


def suspension_to_json(suspended: Suspension) -> dict[str, Any]:
    return {"reason": suspended.reason, "actor": suspended.actor, "at": iso(suspended.at)}


def spread(project: Project, selection: Sequence[str]) -> list[str]:
    """Replace `tag:` and `+` words of a selection by names and patterns, using the project file alone."""
    words: list[str] = []
    for word in selection:
        bare = word.strip("+")
        tag = bare.removeprefix("tag:") if bare.startswith("tag:") else None
        if tag is not None or bare != word:
            words += [flow.name for flow in select_flows([*in_flows(project), *project.optimizes], [word])[0]]
            words += [name for sync in project.syncs if tag in sync.tags for name in sync.tables]
        words += [bare] if tag is None else []
    return words or list(selection)


def is_wanted(flow: str, selection: Sequence[str]) -> bool:
    """Whether a selection means the flow, by its name or by its table's, which means both stages."""
    return not selection or any(
        name == word or fnmatchcase(name, word) or name.endswith(f".{word}")
        for word in selection
        for name in (flow, table_of(flow))
    )


def tags_of(project: Project, flow: str) -> frozenset[str]:
    """Return the flow's tags, from the project file."""
    own = [one.tags for one in project.delta_flows if one.name == flow]
    own += [sync.tags for sync in project.syncs if means(sync, table_named(sync.source, flow))]
    return frozenset(tag for tags in own for tag in tags)


def selects(project: Project, flow: str, selection: Sequence[str]) -> bool:
    """Whether a selection means the flow, as in `is_wanted` or by `tag:WORD`."""
    tagged = [word.removeprefix("tag:") for word in selection if word.startswith("tag:")]
    return is_wanted(flow, selection) or not tags_of(project, flow).isdisjoint(tagged)


def limits_named(project: Project, name: str, tags: Collection[str]) -> HealthLimits:
    for word, limits in project.health.per_flow.items():
        if word.removeprefix("tag:") in tags if word.startswith("tag:") else is_wanted(name, [word]):
            return limits
    return project.health.limits


def _summarize(status: FlowStatus, marks: list[Watermark], now: datetime) -> FlowSummary:
    lags = [lag for mark in marks if (lag := lag_of(mark, now)) is not None]
    running = status.state is State.RUNNING and status.owner is not None
    abandoned = is_abandoned(status, now)
    return FlowSummary(
        flow=status.flow,
        state=status.shown_state,
        told_state=tell_state(
            status.shown_state,
            suspended=status.suspended is not None,
            prevented=status.ended_as_skipped,
            gone=abandoned,
        ),
        watermarks={mark.input: mark.position for mark in marks},
        checked={mark.input: mark.checked for mark in marks},
        lag_seconds=max(lags) if lags else None,
        last_run=status.last_run,
        holder=f"{status.owner.actor}, process {status.owner.pid}" if running and status.owner else None,
        lease_until=status.lease_until if running else None,
        override=status.override.kind if status.override else None,
        suspended=status.suspended,
        rows_waiting=count_waiting(marks),
        abandoned=abandoned,
        planned_at=status.planned_at if status.plan else None,
    )


def count_waiting(marks: Sequence[Watermark]) -> int:
    return sum(Pending(mark.pending).waiting for mark in marks if mark.pending)


def lag_of(mark: Watermark, now: datetime) -> float | None:
    """Return how many seconds delivery is behind the clock; None if the cursor is not a timestamp.

    Counts from how far the source was looked at; during a plan, from how far its batches have got.
    """
    if mark.cursor != "timestamp":
        return None
    places = (mark.checked, mark.position)
    seen = [moment for place in places if (moment := _reached_at(place)) is not None]
    return round(max((now - max(seen)).total_seconds(), 0.0), 3) if seen else None


def _reached_at(position: Position | None) -> datetime | None:
    moment = to_moment(position, "timestamp", None)
    text = position.cursor.text if isinstance(position, RowPosition) else ""
    if moment and len(text) == len("2025-01-01") and "-" in text:
        return moment + timedelta(days=1)  # a date stands for the whole day
    return moment
