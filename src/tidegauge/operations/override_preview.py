"""What a change by hand would do to each flow: rows skipped or read again, and who is in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegauge.errors import ConfigError
from tidegauge.flows.known_sources import KnownSources
from tidegauge.flows.missing_tables import Known
from tidegauge.flows.select import Selection, Sources, choose
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, Stage, TableFlow
from tidegauge.model.watermark import Watermark
from tidegauge.operations.override import (
    CopyOf,
    Import,
    OverridePreview,
    OverrideRequest,
    Refresh,
    Reset,
    SetTo,
    UndoLast,
)
from tidegauge.operations.override_look import OverrideLook
from tidegauge.operations.override_look_delta import DeltaOverrideLook
from tidegauge.operations.override_look_load import LoadOverrideLook
from tidegauge.operations.override_look_table import TableOverrideLook


def preview(
    project: Project, selection: Sequence[str], request: OverrideRequest, *, stage: Stage | None = None
) -> list[OverridePreview]:
    """What would happen, flow by flow; changes nothing.

    Of a table with two stages a reset, a refresh and an undo mean both, the others only the first, unless
    `stage` says which.
    A source that cannot be reached is no reason to refuse, except where only it can say what was meant:
    what it would have counted is unknown then.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        found = ledger.watermarks(project.pipeline)
        marks = {mark.flow: mark for mark in found}
        with KnownSources(project, tuple(statuses)) as sources:
            known: dict[str, str | None] = {mark.flow: mark.source_id for mark in found}
            if isinstance(request, UndoLast):
                # What was forgotten comes back, also while its table is not there.
                known |= {name: None for name, one in statuses.items() if one.undo and one.undo.forgot}
            choice = _chosen(project, selection, sources, known, stage)
            if isinstance(request, Reset | Refresh):
                # What cannot be read again is not thrown away.
                for lost in choice.gone.values():
                    raise lost
            chosen = choice.all_flows
            every = _chosen(project, (), sources, known).all_flows
            if isinstance(request, SetTo | CopyOf) and stage is None:
                chosen = _nearest(chosen)
            if isinstance(request, UndoLast):
                chosen = _undoable(chosen, statuses)
            match request:
                case Import():
                    chosen = _imported(request, chosen)
                case CopyOf() if len(chosen) > 1:
                    raise ConfigError(
                        f"{', '.join(selection)} means {len(chosen)} flows, and a copy goes to one",
                        hint="name one flow in full",
                    )
            moves = [
                DeltaOverrideLook(
                    flow, statuses.get(flow.name), [mark for mark in found if mark.flow == flow.name]
                ).move(request, every)
                if isinstance(flow, DeltaFlow)
                else _look(ledger, sources, flow, statuses, marks).move(request, every)
                for flow in chosen
            ]
    # A document is about all its flows; those that stand there already need no new life.
    return [move for move in moves if not isinstance(request, Import) or move.before != move.after]


def _look(
    ledger: LedgerReader,
    sources: Sources,
    flow: TableFlow,
    statuses: Mapping[str, FlowStatus],
    marks: Mapping[str, Watermark],
) -> OverrideLook:
    status, mark = statuses.get(flow.name), marks.get(flow.name)
    if flow.reads is not None:
        return LoadOverrideLook(flow, status, mark, marks.get(flow.upstream or ""))
    return TableOverrideLook(ledger, sources, flow, status, mark)


def _nearest(flows: Sequence[AnyFlow]) -> tuple[AnyFlow, ...]:
    """Of each table the flow nearest to its source; a flow that is asked for by itself is meant."""
    names = {flow.name for flow in flows}
    return tuple(flow for flow in flows if flow.upstream not in names)


def _undoable(flows: Sequence[AnyFlow], statuses: Mapping[str, FlowStatus]) -> tuple[AnyFlow, ...]:
    """Those with something to undo; all of them where there is none, so that each says so itself."""

    def has(flow: AnyFlow) -> bool:
        status = statuses.get(flow.name)
        return status is not None and (status.undo is not None or status.override is not None)

    return tuple(flow for flow in flows if has(flow)) or tuple(flows)


def _chosen(
    project: Project,
    selection: Sequence[str],
    sources: Sources,
    known: Known,
    stage: Stage | None = None,
) -> Selection:
    choice = choose(project, selection, sources, stage=stage, known=known)
    for _, error in choice.faults:
        if not choice.all_flows:
            raise error
    return choice


def _imported(request: Import, flows: Sequence[AnyFlow]) -> tuple[AnyFlow, ...]:
    there = {flow.name for flow in flows}
    for name in request.marks:
        if name not in there:
            raise ConfigError(
                f"{request.shown} has a watermark of '{name}', which is no flow of this project",
                hint="export with --select just the flows that both have, or take it out of the file",
            )
    return tuple(flow for flow in flows if flow.name in request.marks)
