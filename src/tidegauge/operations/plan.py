"""What a run would do, found out the same way a run finds it out, and nothing kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegauge.errors import TableMissing, TidegaugeError, WrongState
from tidegauge.flows.agreement import check_still_there
from tidegauge.flows.flow import FlowResources, resources_for
from tidegauge.flows.known_sources import sources_for
from tidegauge.flows.missing_tables import find_recorded, refuse_forgotten
from tidegauge.flows.open import open_flow
from tidegauge.flows.remarks import remarks
from tidegauge.flows.select import choose
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import is_gone
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.plan import Draft
from tidegauge.model.position import to_text
from tidegauge.model.run import FlowStatus
from tidegauge.model.secret import mask
from tidegauge.model.spec import Project, Stage
from tidegauge.model.state import State
from tidegauge.run.report import windows_to_json


@dataclass(frozen=True)
class Preview:
    flow: str
    state: State
    """PLANNED: there is work. SKIPPED: nothing new. Otherwise what an open plan is in."""
    output: str
    draft: Draft | None = None
    done: int = 0
    error: TidegaugeError | None = None
    follows: str | None = None
    """What comes before it and brings more."""

    @property
    def rows(self) -> int:
        return sum(batch.rows or 0 for batch in self.draft.batches[self.done :]) if self.draft else 0

    @property
    def batches(self) -> int:
        return len(self.draft.batches) - self.done if self.draft else 0

    @property
    def notes(self) -> tuple[str, ...]:
        if self.draft is None:
            return (self.follows,) if self.follows else ()
        waiting, nulls = self.draft.rows_waiting, self.draft.rows_null
        return (
            *self.draft.notes,
            *([f"{waiting:,} rows are dated past the source's clock and wait"] if waiting else []),
            *([f"{nulls:,} rows have no cursor value"] if nulls else []),
            *([self.follows] if self.follows else []),
        )

    @property
    def after(self) -> str:
        return self._end("after")

    @property
    def upto(self) -> str:
        return self._end("upto")

    def _end(self, which: str) -> str:
        if self.draft is None or self.draft.inputs[0].window is None:
            return "—"
        return to_text(getattr(self.draft.inputs[0].window, which))

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state.value,
            "rows": self.rows if self.draft else None,
            "batches": self.batches,
            "output": self.output,
            "windows": windows_to_json(self.draft) if self.draft else [],
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
) -> list[Preview]:
    """One entry for each selected flow; a flow with an open plan shows what is left of that.

    `remark` hears what the file says in vain, unless there is a selection.
    """
    with open_ledger(project.ledger, create=False) as ledger, sources_for(project, ledger, stage) as sources:
        recorded = find_recorded(ledger, project.pipeline)
        choice = choose(project, selection, sources, stage=stage, recorded=recorded)
        if remark is not None and not selection and stage is None:
            for note in remarks(project, choice.flows, sources, recorded):
                remark(note)
        names = [flow.name for flow in choice.all_flows]
        statuses = {status.flow: status for status in ledger.status(project.pipeline, names)}
        found = ledger.watermarks(project.pipeline)
        resources = resources_for(project, choice.all_flows, sources, found)
        shown = [Preview(name, State.FAILED, "—", error=error) for name, error in choice.faults]
        shown += [
            _preview_one(flow, statuses.get(flow.name), choice.missing.get(flow.name), resources, limit)
            for flow in choice.all_flows
        ]
    return _with_followers(shown, choice.all_flows)


def _preview_one(
    flow: AnyFlow,
    status: FlowStatus | None,
    gone: TidegaugeError | None,
    resources: FlowResources,
    limit: int | None,
) -> Preview:
    where = flow.target
    if status is not None and status.override is not None:
        begun = WrongState(
            f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began"
            " has not ended",
            hint="`tidegauge run` ends it and goes on",
            retryable=True,
        )
        return Preview(flow.name, status.state, where, error=begun)
    if gone is not None:
        return Preview(flow.name, State.FAILED, where, error=gone)
    if status is not None and status.undo is not None and status.undo.forgot:
        back = refuse_forgotten(flow.name, status.undo)
        return Preview(flow.name, State.FAILED, where, error=back)
    try:
        opened = open_flow(flow, resources)
        if status is not None and status.plan is not None:
            if status.state is not State.RUNNING or (status.owner and is_gone(status.owner)):
                check_still_there(flow, opened.output, opened.mark)
            return Preview(flow.name, status.state, where, status.plan.draft, status.plan.done)
        draft = opened.plan(limit=limit).draft
    except TidegaugeError as error:
        return Preview(flow.name, State.FAILED, where, error=error)
    return Preview(flow.name, State.PLANNED if draft.batches else State.SKIPPED, where, draft)


def _with_followers(shown: Sequence[Preview], flows: Sequence[AnyFlow]) -> list[Preview]:
    """A flow that reads what another one here writes does so after it: what that brings is not there yet."""
    above = {flow.name: flow.upstreams for flow in flows}
    brings = {one.flow: f": {one.rows:,} rows" if one.rows else "" for one in shown if one.batches}
    followed = []
    for one in shown:
        before = next((name for name in above.get(one.flow, ()) if name in brings), None)
        if before is None or not (one.error is None or isinstance(one.error, TableMissing)):
            followed.append(one)
            continue
        # What it reads may not even be there yet.
        state = State.PLANNED if one.error else one.state
        said = f"what {before} brings comes after that{brings[before]}"
        followed.append(replace(one, state=state, error=None, follows=said))
    return followed
