"""Reads rows again below the watermark, which stays; flows that read the lake load them as new."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegauge.errors import ColumnMissing, ConfigError, WrongState
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.downstream import find_downstream
from tidegauge.flows.selection.missing_tables import RecordedFlows, find_recorded
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.flows.table.backfill import BackfillRequest, find_window, plan_backfill
from tidegauge.flows.table.database import DatabaseFlow
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.position import Position, to_json, to_text
from tidegauge.model.protocols.source import Source
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Drift, Project, TableFlow
from tidegauge.model.suspension import ALL
from tidegauge.model.table import SourceTable
from tidegauge.observe.events import Listener
from tidegauge.outputs.open import open_output
from tidegauge.plan.draft import is_whole
from tidegauge.run.options import RunOptions
from tidegauge.run.report import RunReport
from tidegauge.run.runner import open_runner
from tidegauge.run.suspended import find_suspension
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class BackfillPreview:
    """What a backfill would read again from one table."""

    flow: TableFlow
    after: Position | None
    upto: Position | None
    rows: int
    unfinished: str | None = None
    """Description of the plan that has to end first, if there is one."""
    then: tuple[str, ...] = ()
    """Names of the flows that load the rows afterwards."""
    dangers: tuple[str, ...] = ()
    """Why it needs `--force`."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def window(self) -> str:
        return f"after {to_text(self.after)} up to {to_text(self.upto)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.name,
            "input": self.flow.input,
            "after": to_json(self.after),
            "upto": to_json(self.upto),
            "rows_read_again": self.rows,
            "unfinished": self.unfinished,
            "downstream": list(self.then),
            "dangers": list(self.dangers),
            "notes": list(self.notes),
        }


def preview_backfill(
    project: Project, selection: Sequence[str], request: BackfillRequest
) -> list[BackfillPreview]:
    """Show what would be read again, by table, and which flows load it afterwards. Changes nothing."""
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources:
        recorded = find_recorded(ledger, project.pipeline)
        flows = _choose(project, selection, sources, recorded).flows
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        suspended = [*statuses.values(), *ledger.status(project.pipeline, [ALL])]
        for why in filter(None, (find_suspension(suspended, flow.name) for flow in flows)):
            raise why
        heads = [flow for flow in flows if flow.reads is None]
        if not heads:
            raise ConfigError(
                f"{', '.join(selection)} reads the lake, and a backfill reads the database",
                hint="name the table itself; to load the lake again use `watermark reset --stage load`",
            )
        every = choose(project, (), sources, recorded=recorded).flows
        resources = resources_for(project, heads, sources, ledger.watermarks(project.pipeline))
        found = []
        for spec in heads:
            flow = open_flow(spec, resources)
            assert isinstance(flow, DatabaseFlow)
            found.append(_preview_one(flow, request, statuses.get(spec.name), find_downstream(spec, every)))
        return found


def run_backfill(
    project: Project,
    found: Sequence[BackfillPreview],
    request: BackfillRequest,
    *,
    reason: str,
    tell: Listener,
    stop: threading.Event,
    debug: bool = False,
) -> RunReport:
    """Carry out the previewed backfills. Each flow first ends the plan that an earlier run left unfinished.

    A backfill that is interrupted is a plan like any other: the next run ends it, with the same windows.
    """
    names = tuple(name for one in found for name in (one.name, *one.then))
    options = RunOptions(names, restores_columns=request.column is not None, debug=debug)
    plan_flow = partial(plan_backfill, request=request)
    with open_runner(project, options, tell=tell, stop=stop, plan_flow=plan_flow) as runner:
        recorded = find_recorded(runner.ledger, project.pipeline)
        choice = _choose(project, options.selection, runner.sources, recorded)
        for one in found:
            said = f"{reason} ({one.window})"
            runner.ledger.note(project.pipeline, one.name, "backfill", owner=this_process(), reason=said)
        return RunReport(runner.run_id, tuple(runner.make_jobs(choice.flows).run()))


def _choose(
    project: Project, selection: Sequence[str], sources: SourceConnections, recorded: RecordedFlows
) -> Selection:
    choice = choose(project, selection, sources, recorded=recorded)
    for error in (*(error for _, error in choice.faults), *choice.missing.values()):
        raise error
    return choice


def _preview_one(
    opened: DatabaseFlow,
    request: BackfillRequest,
    status: FlowStatus | None,
    readers: Sequence[TableFlow],
) -> BackfillPreview:
    flow = opened.spec
    if status is not None and status.override is not None:
        raise WrongState(
            f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began has not"
            " ended",
            hint="`tidegauge run` ends it; then repeat the backfill",
            retryable=True,
        )
    if is_whole(flow) or flow.options.snapshot:
        raise ConfigError(
            f"{flow.name}: each of its runs reads the whole table, not a window, so"
            " there is none to backfill",
            hint=f"`tidegauge run -t {flow.table}`",
        )
    source = opened.source()
    source_table, changes = _describe(opened, source, request, readers)
    window = find_window(opened, source_table, request, source)
    rows = source.count(source_table, window.after, window.upto) if window.upto is not None else 0
    notes = [*window.notes, *changes]
    if request.limit is not None and rows > request.limit:
        notes.append(f"stops at the limit of {request.limit:,} rows: the first of them in the cursor's order")
    plan = status.plan if status else None
    return BackfillPreview(
        flow=flow,
        after=window.after,
        upto=window.upto,
        rows=rows,
        unfinished=f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done"
        if plan
        else None,
        then=tuple(reader.name for reader in readers),
        dangers=tuple(_find_dangers([flow, *readers], rows)),
        notes=tuple(notes),
    )


def _find_dangers(flows: Sequence[TableFlow], rows: int) -> list[str]:
    return [
        f"{flow.name} appends: rows that are in {flow.output} already come a second time"
        for flow in flows
        if rows and flow.appends
    ]


def _describe(
    opened: DatabaseFlow, source: Source, request: BackfillRequest, readers: Sequence[TableFlow]
) -> tuple[SourceTable, tuple[str, ...]]:
    """Describe the table as it would be read. Raises if the requested column cannot reach every output."""
    flow = opened.spec
    source_table, changes = opened.describe(source)
    column = request.column
    if column is None:
        return source_table, changes
    there = [one.name for one in source.describe(flow.table, flow.options).columns]
    if column not in there:
        near = difflib.get_close_matches(column, there, n=3, cutoff=0.5)
        raise ColumnMissing(
            f"{flow.table} has no column '{column}'",
            hint=f"did you mean {', '.join(near)}?" if near else f"it has: {', '.join(there)}",
        )
    frozen = None if column in [one.name for one in source_table.columns] else flow
    for reader in readers:
        held = open_output(reader).layout() if reader.options.drift is Drift.FREEZE else None
        if held is not None and column not in [field.name for field in held]:
            frozen = frozen or reader
    if frozen is not None:
        raise ConfigError(
            f"{frozen.name}: column '{column}' does not reach {frozen.output}: `drift: freeze` leaves it out",
            hint="say `drift: evolve`, or add the column there yourself, then repeat the backfill",
            place=frozen.options.place,
        )
    return source_table, changes
