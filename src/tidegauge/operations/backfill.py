"""Read rows again below the watermark, which stays where it is; readers of the lake load them as new."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegauge.errors import ColumnMissing, ConfigError, WrongState
from tidegauge.flows.downstream import downstream
from tidegauge.flows.missing_tables import Known, known_flows
from tidegauge.flows.prepare import Ends, Prepared, agree, describe_for_output, prepare
from tidegauge.flows.select import Selection, Sources, choose
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.position import Position, RowPosition, compare, to_json, to_text
from tidegauge.model.protocols.source import Source
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Drift, Project, TableFlow
from tidegauge.model.table import SourceTable
from tidegauge.model.watermark import Watermark
from tidegauge.observe.events import Listener
from tidegauge.operations import override_position as asked
from tidegauge.outputs.open import open_output
from tidegauge.plan.backfill import Span, limited, span, under_limit
from tidegauge.plan.backfill import backfill as draft_backfill
from tidegauge.plan.draft import batch_step, check_identity, is_whole
from tidegauge.run.environment import open_reader
from tidegauge.run.options import RunOptions
from tidegauge.run.report import RunReport
from tidegauge.run.runner import Runner


@dataclass(frozen=True)
class BackfillRequest:
    """As the user wrote it; every part may be left out."""

    first: str | None = None
    """The first cursor value that counts; left out: where the flow itself began."""
    last: str | None = None
    """The last one; left out: the watermark."""
    column: str | None = None
    """The column that the rows are read again for."""
    limit: int | None = None


@dataclass(frozen=True)
class Backfill:
    """What would be read again of one table."""

    flow: TableFlow
    after: Position | None
    upto: Position | None
    rows: int
    unfinished: str | None = None
    """The plan that is ended first, in words."""
    then: tuple[str, ...] = ()
    """The flows that load what it reads."""
    dangers: tuple[str, ...] = ()
    """Why it needs force."""
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


def preview(project: Project, selection: Sequence[str], request: BackfillRequest) -> list[Backfill]:
    """What would be read again, table by table, and who follows; changes nothing."""
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        known = known_flows(ledger, project.pipeline)
        flows = _chosen(project, selection, sources, known).flows
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        marks = {mark.flow: mark for mark in ledger.watermarks(project.pipeline)}
        heads = [flow for flow in flows if flow.reads is None]
        if not heads:
            raise ConfigError(
                f"{', '.join(selection)} reads the lake, and a backfill reads the database",
                hint="name the table itself; to load the lake again use `watermark reset --stage load`",
            )
        every = choose(project, (), sources, known=known).flows
        found = []
        for flow in heads:
            ends = Ends(
                source=partial(sources.of, flow.source),
                reader=open_reader(flow),
                output=open_output(flow),
                mark=marks.get(flow.name),
                upstream=None,
            )
            readers = downstream(flow, every)
            found.append(_look(flow, ends, request, statuses.get(flow.name), readers))
        return found


def run_backfill(
    project: Project,
    found: Sequence[Backfill],
    request: BackfillRequest,
    *,
    reason: str,
    tell: Listener,
    stop: threading.Event,
    debug: bool = False,
) -> RunReport:
    """Do what was shown. Each flow first ends the plan that an earlier run left of it.

    A backfill that stops half-way is a plan like any other: the next run ends it, with its own windows.
    """
    order = RunOptions(tuple(name for one in found for name in (one.name, *one.then)), debug=debug)
    with open_ledger(project.ledger, create=True) as ledger, Sources() as sources:
        choice = _chosen(project, order.selection, sources, known_flows(ledger, project.pipeline))
        for one in found:
            said = f"{reason} ({one.window})"
            ledger.note(project.pipeline, one.name, "backfill", owner=this_process(), reason=said)
        with Heartbeat(ledger, project.lease) as heartbeat:
            runner = Runner(
                project, order, ledger, heartbeat, tell, stop, preparer=partial(_prepare, request=request)
            )
            return RunReport(runner.run_id, tuple(runner.everything(choice.flows, sources)))


def _chosen(project: Project, selection: Sequence[str], sources: Sources, known: Known) -> Selection:
    choice = choose(project, selection, sources, known=known)
    for error in (*(error for _, error in choice.faults), *choice.gone.values()):
        raise error
    return choice


def _look(
    flow: TableFlow,
    ends: Ends,
    request: BackfillRequest,
    status: FlowStatus | None,
    readers: Sequence[TableFlow],
) -> Backfill:
    if status is not None and status.override is not None:
        raise WrongState(
            f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began has not"
            " ended",
            hint="`tidegauge run` ends it; then repeat the backfill",
            retryable=True,
        )
    if is_whole(flow):
        raise ConfigError(
            f"{flow.name} overwrites: each of its runs reads the whole table, so there is none to backfill",
            hint=f"`tidegauge run -t {flow.table}`",
        )
    source = ends.source()
    source_table, changes = _source_table(flow, source, ends, request, readers)
    window = _window(flow, source_table, ends.mark, request, source)
    rows = source.count(source_table, window.after, window.upto) if window.upto is not None else 0
    notes = [*window.notes, *changes]
    if request.limit is not None and rows > request.limit:
        notes.append(f"stops at the limit of {request.limit:,} rows: the first of them in the cursor's order")
    plan = status.plan if status else None
    return Backfill(
        flow=flow,
        after=window.after,
        upto=window.upto,
        rows=rows,
        unfinished=f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done"
        if plan
        else None,
        then=tuple(reader.name for reader in readers),
        dangers=tuple(_dangers([flow, *readers], rows)),
        notes=tuple(notes),
    )


def _dangers(flows: Sequence[TableFlow], rows: int) -> list[str]:
    return [
        f"{flow.name} appends: rows that are in {flow.output} already come a second time"
        for flow in flows
        if rows and flow.appends
    ]


def _prepare(flow: TableFlow, ends: Ends, *, request: BackfillRequest) -> Prepared:
    """As `prepare` does for what is new; flows that read the lake just do that."""
    if flow.reads is not None:
        return prepare(flow, ends)
    mark = ends.mark
    agree(flow, ends.output, mark, lost=True)
    if request.limit is not None:
        flow = under_limit(flow, request.limit)
    source = ends.source()
    source_table, changes = describe_for_output(flow, source, ends)
    window = _window(flow, source_table, mark, request, source)
    step = batch_step(flow)
    cuts = source.cuts(source_table, window.after, window.upto, step) if window.upto is not None else ()
    made = draft_backfill(flow, source_table, window, cuts, pending=mark.pending if mark else None)
    if request.limit is not None:
        made = limited(made, request.limit, step=step)
    seen = (mark.epoch, mark.seq) if mark else (0, 0)
    made = replace(made, seen=seen, notes=(*made.notes, *changes))
    return Prepared(
        made, lambda batch: replace(ends.reader.batch_data(source_table, batch), anew=True), changes
    )


def _window(
    flow: TableFlow,
    source_table: SourceTable,
    mark: Watermark | None,
    request: BackfillRequest,
    source: Source,
) -> Span:
    check_identity(flow, source_table, mark.source_id if mark else None)
    stands = mark.position if mark else None
    assert stands is None or isinstance(stands, RowPosition)
    like = source.latest(source_table) or (stands.cursor if stands else None)
    first, last = (
        None if text is None else asked.from_text(source_table, text, like)
        for text in (request.first, request.last)
    )
    moments = source_table.cursor_kind == "timestamp"
    if first is not None and last is not None and compare(first, last, moments=moments) == 1:
        raise ConfigError(
            f"{flow.name}: --from {request.first} lies after --to {request.last}", hint="turn them round"
        )
    if first is not None and stands is not None and compare(first, stands, moments=moments) == 1:
        raise ConfigError(
            f"{flow.name}: --from {request.first} lies past the watermark, {to_text(stands)}",
            hint="what lies there is the next run's: `tidegauge run`",
        )
    return span(flow, source_table, stands, first, last, count=partial(source.count, source_table))


def _source_table(
    flow: TableFlow, source: Source, ends: Ends, request: BackfillRequest, readers: Sequence[TableFlow]
) -> tuple[SourceTable, tuple[str, ...]]:
    """The table as it would be read; the column that is asked for has to reach every output."""
    source_table, changes = describe_for_output(flow, source, ends)
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
