"""Changes watermarks by hand: previews the change, then makes it in three steps.

Once an override was begun, any process can do the last two steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from tidegauge.errors import ConfigError, OutputDisagrees, TidegaugeError
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.override.preview import (
    CopyOf,
    Import,
    OverridePreview,
    OverrideRequest,
    Refresh,
    Reset,
    SetTo,
    UndoLast,
)
from tidegauge.flows.selection.known_sources import KnownSources
from tidegauge.flows.selection.missing_tables import RecordedFlows
from tidegauge.flows.selection.select import Selection, choose
from tidegauge.ledger.holder import name_holders
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.override_rules import moved_error
from tidegauge.ledger.owner import this_process
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.override import FlowRevision
from tidegauge.model.position import to_json
from tidegauge.model.protocols.ledger import LedgerReader, LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, Stage
from tidegauge.observe.events import Listener, RunEvent
from tidegauge.run.end_override import end_override
from tidegauge.run.steps import OverrideStep, step
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class OverrideResult:
    preview: OverridePreview
    epoch: int | None
    error: TidegaugeError | None = None

    def to_json(self) -> dict[str, Any]:
        error = error_to_json(self.error) if self.error else None
        return {**self.preview.to_json(), "epoch": self.epoch, "error": error}


def preview_override(
    project: Project, selection: Sequence[str], request: OverrideRequest, *, stage: Stage | None = None
) -> list[OverridePreview]:
    """Show what would happen, by flow. Changes nothing.

    For a table with two stages, reset, refresh and undo mean both stages, the others only the first, unless
    `stage` says which.
    A source that cannot be reached is an error only if the request cannot be understood without it;
    otherwise its row counts are unknown.
    """
    with open_ledger(project.ledger, create=False) as ledger:
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        found = ledger.watermarks(project.pipeline)
        with KnownSources(project, tuple(statuses)) as sources:
            recorded: dict[str, str | None] = {mark.flow: mark.source_id for mark in found}
            if isinstance(request, UndoLast):
                # A forgotten flow can come back even if its table does not exist.
                recorded |= {name: None for name, one in statuses.items() if one.undo and one.undo.forgot}
            choice = _choose(project, selection, sources, recorded, stage)
            if isinstance(request, Reset | Refresh):
                # A flow whose table is gone could not be read again, so it is not reset.
                for lost in choice.missing.values():
                    raise lost
            every = _choose(project, (), sources, recorded).all_flows
            chosen = _narrow(choice.all_flows, request, statuses, selection, stage)
            resources = resources_for(project, every, sources, found)
            previews = [
                open_flow(flow, resources).preview_override(request, statuses.get(flow.name), every, ledger)
                for flow in chosen
            ]
            moving = [statuses[flow.name] for flow in chosen if flow.name in statuses]
            holders = name_holders(ledger, moving, leases=True)
    # An import names all its flows; those already at their position need no new epoch.
    return [
        replace(one, holder=holders.get(one.name))
        for one in previews
        if not isinstance(request, Import) or not one.unchanged
    ]


def _narrow(
    flows: Sequence[DataFlow],
    request: OverrideRequest,
    statuses: Mapping[str, FlowStatus],
    selection: Sequence[str],
    stage: Stage | None,
) -> Sequence[DataFlow]:
    """Return the flows of a selection that the request applies to."""
    match request:
        case Reset() | Refresh():
            return flows
        case UndoLast():
            return _find_undoable(flows, statuses)
        case Import():
            return _find_imported(request, flows)
        case SetTo():
            return flows if stage is not None else _keep_first_stages(flows)
        case CopyOf():
            chosen = flows if stage is not None else _keep_first_stages(flows)
            if len(chosen) > 1:
                raise ConfigError(
                    f"{', '.join(selection)} means {len(chosen)} flows, and a copy goes to one",
                    hint="name one flow in full",
                )
            return chosen
        case _:
            assert_never(request)


def _keep_first_stages(flows: Sequence[DataFlow]) -> tuple[DataFlow, ...]:
    """Leave out flows whose upstream is among `flows`, which keeps each table's first selected stage."""
    names = {flow.name for flow in flows}
    return tuple(flow for flow in flows if flow.upstream not in names)


def _find_undoable(flows: Sequence[DataFlow], statuses: Mapping[str, FlowStatus]) -> tuple[DataFlow, ...]:
    """Return the flows with something to undo; if there is none, all, so that each raises its own error."""

    def has(flow: DataFlow) -> bool:
        status = statuses.get(flow.name)
        return status is not None and (status.undo is not None or status.override is not None)

    return tuple(flow for flow in flows if has(flow)) or tuple(flows)


def _choose(
    project: Project,
    selection: Sequence[str],
    sources: SourceConnections,
    recorded: RecordedFlows,
    stage: Stage | None = None,
) -> Selection:
    choice = choose(project, selection, sources, stage=stage, recorded=recorded)
    for _, error in choice.faults:
        if not choice.all_flows:
            raise error
    return choice


def _find_imported(request: Import, flows: Sequence[DataFlow]) -> tuple[DataFlow, ...]:
    there = {flow.name for flow in flows}
    for name in request.marks:
        if name not in there:
            raise ConfigError(
                f"{request.shown} has a watermark of '{name}', which is no flow of this project",
                hint="export with --select just the flows that both have, or take it out of the file",
            )
    return tuple(flow for flow in flows if flow.name in request.marks)


def name_preview(previews: Sequence[OverridePreview]) -> str:
    """Return a digest that changes if the previewed flows have moved or something else would happen to them,
    but not if rows come or go in the source."""
    facts = [
        [preview.name, preview.kind, {name: to_json(one) for name, one in preview.positions.items()},
         preview.revision.fence, preview.revision.plan_id, preview.revision.done, len(preview.dangers)]
        for preview in previews
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def check_previewed(previews: Sequence[OverridePreview], previewed: str | None) -> None:
    """Raise WrongState if `previewed`, a digest of `name_preview`, no longer fits. None: no check."""
    if previewed is not None and previewed != name_preview(previews):
        raise moved_error(", ".join(preview.name for preview in previews[:3]) or "the flow")


def run_override(
    project: Project,
    previews: Sequence[OverridePreview],
    *,
    reason: str,
    tell: Listener | None = None,
    unmoved: bool = False,
) -> list[OverrideResult]:
    """Make the previewed changes. An error of one flow is in its result, and does not stop the others.

    `unmoved`: a flow that has moved since the preview is not changed, and gets an error.
    """
    done: list[OverrideResult] = []
    with open_ledger(project.ledger, create=True) as ledger, SourceConnections() as sources:
        resources = resources_for(project, [preview.flow for preview in previews], sources)
        for preview in previews:
            try:
                output = open_flow(preview.flow, resources).output
                expected = preview.revision if unmoved else None
                epoch = _one(ledger, output, preview, reason, tell or _ignore_event, expected)
                done.append(OverrideResult(preview, epoch))
            except TidegaugeError as error:
                done.append(OverrideResult(preview, None, error))
    return done


def _one(
    ledger: LedgerWriter,
    output: Output,
    preview: OverridePreview,
    reason: str,
    tell: Listener,
    expected: FlowRevision | None,
) -> int:
    flow = preview.flow
    output.prepare()
    for status in ledger.status(flow.pipeline, [flow.name]):
        if status.override is not None:
            end_override(ledger, output, flow, status.override, tell)
    _check_continues(ledger, output, flow, preview.kind)
    with step(OverrideStep.BEGIN, flow.name, tell):
        begun = ledger.begin_override(
            flow.pipeline,
            flow.name,
            preview.kind,
            preview.positions,
            owner=this_process(),
            reason=reason,
            expected=expected,
        )
    end_override(ledger, output, flow, begun, tell)
    return begun.epoch


def _check_continues(ledger: LedgerReader, output: Output, flow: DataFlow, kind: str) -> None:
    """Raise before the override begins, if the output could not open its epoch: it could never be ended."""
    found: list[tuple[int, int]] = []
    if kind == "undo":
        undos = (status.undo for status in ledger.status(flow.pipeline, [flow.name]))
        found = [undo.continues for undo in undos if undo]
    elif kind not in ("reset", "refresh"):
        found = [(mark.epoch, mark.seq) for mark in ledger.watermarks(flow.pipeline, [flow.name])]
    gap = next((gap for continues in found if (gap := output.lacks(continues))), None)
    if gap is not None:
        raise OutputDisagrees(
            f"{flow.name}: {gap}, which the ledger says was committed, is not in {output.place}",
            hint="bring the files back; to start afresh there use `tidegauge watermark reset`",
        )


def _ignore_event(_: RunEvent) -> None:
    pass
