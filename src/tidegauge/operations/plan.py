"""Previews what a run would do, computed as a run does, without storing anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

from tidegauge.errors import (
    FlowSuspended,
    TableMissing,
    TidegaugeError,
    UnknownColumn,
    WrongState,
    share_types,
)
from tidegauge.flows.agreement import check_still_there
from tidegauge.flows.flow import FlowResources, resources_for
from tidegauge.flows.maintenance.base import output_of
from tidegauge.flows.maintenance.optimize import look_at
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.known_sources import sources_for
from tidegauge.flows.selection.missing_tables import find_recorded, refuse_forgotten
from tidegauge.flows.selection.remarks import find_remarks
from tidegauge.flows.selection.select import choose
from tidegauge.flows.view import View
from tidegauge.ledger.holder import find_held
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.plan import Draft
from tidegauge.model.position import to_text
from tidegauge.model.run import FlowStatus
from tidegauge.model.secret import mask
from tidegauge.model.spec import Project, Stage
from tidegauge.model.state import SUSPENDED, State
from tidegauge.model.suspension import ALL
from tidegauge.model.view_flow import GraphFlow, ViewFlow
from tidegauge.run.suspended import find_suspension
from tidegauge.spark.local_tasks import has_local_tasks


@dataclass(frozen=True)
class FlowPreview:
    flow: str
    state: State
    """PLANNED: there is work. SKIPPED: nothing new, or suspended. Else the state of the unfinished plan."""
    output: str
    draft: Draft | None = None
    done: int = 0
    error: TidegaugeError | None = None
    follows: str | None = None
    """A note about flows that run before this one and bring more rows, or hold it back."""
    held_back: bool = False
    """Whether it waits for an upstream flow that cannot run."""
    upstreams: tuple[str, ...] = ()
    """Names of the flows whose outputs it reads."""
    fingerprint: str | None = None
    """Fingerprint of the transform, if there is one."""
    remarks: tuple[str, ...] = ()
    """Notes about the transform."""
    moved_by: MovedBy | None = None
    """What will move the rows, as far as known; None for an unfinished plan."""
    suspended: bool = False
    """Whether no run takes the flow, because a person has suspended it."""

    @property
    def shown_state(self) -> str:
        return SUSPENDED if self.suspended else self.state.value

    @property
    def rows(self) -> int:
        return sum(batch.rows or 0 for batch in self.draft.batches[self.done :]) if self.draft else 0

    @property
    def counted(self) -> bool:
        """Whether the number of rows is known before they are read."""
        return self.draft is None or all(batch.rows is not None for batch in self.draft.batches[self.done :])

    @property
    def batches(self) -> int:
        return len(self.draft.batches) - self.done if self.draft else 0

    @property
    def brings(self) -> bool:
        """Whether downstream flows will have more to read after it has run."""
        return bool(self.batches or self.follows) or self.state is State.PLANNED

    @property
    def notes(self) -> tuple[str, ...]:
        if self.draft is None:
            return (*self.remarks, *([self.follows] if self.follows else []))
        nulls = self.draft.rows_null
        return (
            *self.draft.notes,
            *self.remarks,
            *([f"{nulls:,} rows have no cursor value"] if nulls else []),
            *([self.follows] if self.follows else []),
        )

    @property
    def after(self) -> str:
        return self._show_end("after")

    @property
    def upto(self) -> str:
        return self._show_end("upto")

    def _show_end(self, which: str) -> str:
        if self.draft is None or self.draft.inputs[0].window is None:
            return "—"
        return to_text(getattr(self.draft.inputs[0].window, which))

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.shown_state,
            "rows": self.rows if self.draft and self.counted else None,
            "batches": self.batches,
            "moved_by": self.moved_by,
            "output": self.output,
            "upstreams": list(self.upstreams),
            "fingerprint": self.fingerprint,
            "windows": self.draft.windows_to_json() if self.draft else [],
            "rows_waiting": self.draft.rows_waiting if self.draft else 0,
            "rows_null_cursor": self.draft.rows_null if self.draft else 0,
            "notes": [mask(note) for note in self.notes],
            "error": error_to_json(self.error) if self.error else None,
        }


def preview(
    project: Project,
    selection: Sequence[str],
    *,
    stage: Stage | None = None,
    limit: int | None = None,
    remark: Callable[[str], object] | None = None,
    resumed: bool = False,
) -> list[FlowPreview]:
    """Preview each selected flow; for a flow with an unfinished plan, what is left of the plan.

    `remark` is called with notes on parts of the file that have no effect, unless there is a selection.
    `resumed`: preview suspended flows as if they were resumed.
    """
    with open_ledger(project.ledger, create=False) as ledger, sources_for(project, ledger, stage) as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, recorded=recorded, views=True)
        if remark is not None and not selection and stage is None:
            for note in find_remarks(project, choice.flows, sources, recorded):
                remark(note)
        names = [flow.name for flow in choice.all_flows]
        statuses = {status.flow: status for status in ledger.status(project.pipeline, [*names, ALL])}
        find_suspended = partial(
            find_suspension, [one for one in statuses.values() if one.suspended is not None and not resumed]
        )
        held = find_held(ledger, statuses.values())
        found = ledger.watermarks(project.pipeline)
        every: list[GraphFlow] = [*choice.all_flows, *choice.without_data]
        resources = resources_for(project, every, sources, found)
        shown = [FlowPreview(name, State.FAILED, "—", error=error) for name, error in choice.faults]
        local = has_local_tasks(project.spark)
        for flow in choice.all_flows:
            status, gone = statuses.get(flow.name), choice.missing.get(flow.name)
            suspended, is_held = find_suspended(flow.name), flow.name in held
            one = _preview_one(flow, status, gone, suspended, resources, limit, held=is_held, local=local)
            shown.append(replace(one, upstreams=flow.upstreams))
        share_types(one.error for one in shown)
        shown += [_preview_view(view, resources, find_suspended(view.name)) for view in choice.views]
        shown += [_preview_optimize(one, resources, find_suspended(one.name)) for one in choice.optimizes]
    return _add_upstreams(shown, every)


def _preview_one(
    flow: DataFlow,
    status: FlowStatus | None,
    gone: TidegaugeError | None,
    suspended: FlowSuspended | None,
    resources: FlowResources,
    limit: int | None,
    *,
    held: bool,
    local: bool,
) -> FlowPreview:
    """`suspended`: why no run takes the flow; None: a run does. `held`: whether a runner is at work on it, so
    that its output may be ahead of the ledger."""
    where = flow.target
    if suspended is not None:
        return _preview_suspended(FlowPreview(flow.name, State.SKIPPED, where), suspended)
    if status is not None and status.override is not None:
        begun = WrongState(
            f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began"
            " has not ended",
            hint="`tidegauge run` ends it and goes on",
            retryable=True,
        )
        return FlowPreview(flow.name, status.state, where, error=begun)
    if gone is not None:
        return FlowPreview(flow.name, State.FAILED, where, error=gone)
    if status is not None and status.undo is not None and status.undo.forgot:
        back = refuse_forgotten(flow.name, status.undo)
        return FlowPreview(flow.name, State.FAILED, where, error=back)
    shown = FlowPreview(flow.name, State.FAILED, where)
    try:
        opened = open_flow(flow, resources)
        shown = replace(shown, fingerprint=opened.fingerprint)
        if status is not None and status.plan is not None:
            if not held:
                check_still_there(flow, opened.output, opened.mark)
            return replace(shown, state=status.state, draft=status.plan.draft, done=status.plan.done)
        remarks = opened.check_transform()
        work = opened.plan(limit=limit)
    except TidegaugeError as error:
        return replace(shown, error=error)
    state = State.PLANNED if work.draft.batches else State.SKIPPED
    moved_by = work.foresee_mover(local=local)
    return replace(shown, state=state, draft=work.draft, remarks=remarks, moved_by=moved_by)


def _preview_suspended(shown: FlowPreview, why: FlowSuspended) -> FlowPreview:
    """Preview a suspended flow as a run reports it, without a look at what it reads."""
    return replace(shown, state=State.SKIPPED, remarks=(f"{why.message}; {why.hint}",), suspended=True)


def _preview_view(spec: ViewFlow, resources: FlowResources, suspended: FlowSuspended | None) -> FlowPreview:
    view = View(spec, resources.delta_tables)
    shown = FlowPreview(
        spec.name,
        State.FAILED,
        spec.target,
        upstreams=spec.upstreams,
        fingerprint=view.fingerprint,
    )
    if suspended is not None:
        return _preview_suspended(shown, suspended)
    try:
        why = view.find_difference()
        remarks = view.check()
    except TidegaugeError as error:
        return replace(shown, error=error)
    made = () if why is None else (f"it is made: {why}",)
    return replace(shown, state=State.PLANNED if why else State.SKIPPED, remarks=(*made, *remarks))


def _preview_optimize(
    spec: OptimizeFlow, resources: FlowResources, suspended: FlowSuspended | None
) -> FlowPreview:
    """Preview which tables would be compacted, and why others would not, from the tables' logs."""
    shown = FlowPreview(spec.name, State.FAILED, "—", upstreams=spec.upstreams)
    if suspended is not None:
        return _preview_suspended(shown, suspended)
    said: list[str] = []
    left_alone: dict[str, list[str]] = {}
    for flow in spec.looks_after:
        try:
            size, reason = look_at(output_of(flow, resources.delta_tables))
        except TableMissing:
            reason = "not there yet"
        except TidegaugeError as error:
            return replace(shown, error=error)
        if reason is None:
            said.append(f"{flow.name}: {size} would be compacted")
        else:
            left_alone.setdefault(reason, []).append(flow.name)
    said += [f"{', '.join(names)}: left alone, {reason}" for reason, names in left_alone.items()]
    pays = len(said) > len(left_alone)
    return replace(shown, state=State.PLANNED if pays else State.SKIPPED, remarks=tuple(said))


def _add_upstreams(shown: Sequence[FlowPreview], flows: Sequence[GraphFlow]) -> list[FlowPreview]:
    """Complete each preview with what its upstream flows in `shown` will bring before it runs."""
    found = {one.flow: one for one in shown}
    above = {flow.name: [name for name in flow.upstreams if name in found] for flow in flows}
    for name in TopologicalSorter(above).static_order():
        found[name] = _add_upstream(found[name], [found[upper] for upper in above[name]])
    return [found[one.flow] for one in shown]


def _add_upstream(one: FlowPreview, uppers: Sequence[FlowPreview]) -> FlowPreview:
    if one.error is not None and not isinstance(one.error, TableMissing | UnknownColumn):
        return one
    bad = next((upper for upper in uppers if upper.error is not None or upper.held_back), None)
    if bad is not None:
        said = f"held back: {bad.flow} cannot run, and it reads from that"
        state = State.SKIPPED if one.error else one.state
        return replace(one, state=state, error=None, follows=said, held_back=True)
    before = next((upper for upper in uppers if upper.brings), None)
    if before is None or one.suspended:
        return one
    # A missing table or column may be made by the upstream flow.
    state = State.PLANNED if one.error else one.state
    said = f"what {before.flow} brings comes after that{f': {before.rows:,} rows' if before.rows else ''}"
    if isinstance(one.error, UnknownColumn):
        said = f"{said}; unless it brings the column: {one.error.sentence}"
    return replace(one, state=state, error=None, follows=said)
