"""Move just the rows in which a source and its warehouse differ; the watermark stays where it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegauge.errors import ConfigError, WrongState
from tidegauge.flows.flow import resources_for
from tidegauge.flows.missing_tables import RecordedFlows, find_recorded
from tidegauge.flows.open import open_flow
from tidegauge.flows.repair import Unlike, find_unlike, plan_repair
from tidegauge.flows.select import Sources, choose
from tidegauge.flows.table import TableFlowBase
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, TableFlow
from tidegauge.observe.events import Comparing, Listener
from tidegauge.run.options import RunOptions
from tidegauge.run.report import RunReport
from tidegauge.run.run import open_runner


@dataclass(frozen=True)
class Repair:
    """What would be moved of one table."""

    flow: TableFlow
    unlike: Unlike
    deletes: bool
    unfinished: str | None = None
    """The plan that is ended first, in words."""

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def moved(self) -> int:
        return self.unlike.difference.missing + self.unlike.difference.different

    @property
    def deleted(self) -> int:
        return self.unlike.difference.extra if self.deletes else 0

    @property
    def notes(self) -> tuple[str, ...]:
        found = self.unlike.difference
        notes = list(found.notes)
        if found.extra and not self.deletes:
            rows = f"{found.extra:,} row{' stays' if found.extra == 1 else 's stay'}"
            notes.append(f"{rows} that only the target has: --deletes takes them away")
        if found.repeated:
            notes.append(
                f"{found.repeated:,} of the different keys are in the target more than once, which moving"
                f" rows does not mend: `tidegauge sync -t {self.flow.table} --full-refresh` does"
            )
        if self.flow.reads is not None:
            notes.append("rows go from the source to the warehouse: the lake is left as it is")
        return tuple(notes)

    @property
    def counted(self) -> str:
        """For the history."""
        found = self.unlike.difference
        extra = f"{found.extra} extra {'deleted' if self.deletes else 'left'}"
        return f"{found.missing} missing, {found.different} different, {extra}"

    def to_json(self) -> dict[str, Any]:
        found = self.unlike.difference
        return {
            "flow": self.name,
            "table": str(self.flow.table),
            "missing": found.missing,
            "different": found.different,
            "extra": found.extra,
            "rows_to_move": self.moved,
            "rows_to_delete": self.deleted,
            "newer": found.newer,
            "method": found.method,
            "examples": [{"kind": kind, "key": key} for kind, key in found.examples],
            "unfinished": self.unfinished,
            "notes": list(self.notes),
        }


def preview(
    project: Project, selection: Sequence[str], *, deletes: bool, tell: Listener | None = None
) -> list[Repair]:
    """What would be moved, table by table; changes nothing."""
    with open_ledger(project.ledger, create=False) as ledger, Sources() as sources:
        flows = _choose(project, selection, sources, find_recorded(ledger, project.pipeline))
        statuses = {status.flow: status for status in ledger.status(project.pipeline)}
        resources = resources_for(project, flows, sources, ledger.watermarks(project.pipeline))
        found = []
        for number, spec in enumerate(flows, start=1):
            if tell is not None:
                tell(Comparing(spec.label, number, len(flows)))
            flow = open_flow(spec, resources)
            assert isinstance(flow, TableFlowBase)
            unfinished = _find_unfinished(spec, statuses.get(spec.name))
            found.append(Repair(spec, find_unlike(flow), deletes, unfinished))
        return found


def run_repair(
    project: Project,
    found: Sequence[Repair],
    *,
    reason: str,
    tell: Listener,
    stop: threading.Event,
    debug: bool = False,
) -> RunReport:
    """Do what was shown, under the flow's claim; what is wrong is looked for again there.

    Each flow first ends the plan that an earlier run left of it. A repair that stops half-way is such a plan.
    """
    options = RunOptions(tuple(one.name for one in found), debug=debug)
    shown = {one.name: one.unlike for one in found}
    plan_flow = partial(plan_repair, shown=shown, deletes=any(one.deletes for one in found))
    with open_runner(project, options, tell=tell, stop=stop, plan_flow=plan_flow) as runner:
        for one in found:
            said = f"{reason} ({one.counted})"
            runner.ledger.note(project.pipeline, one.name, "repair", owner=this_process(), reason=said)
        return RunReport(runner.run_id, tuple(runner.schedule([one.flow for one in found]).run()))


def _choose(
    project: Project, selection: Sequence[str], sources: Sources, recorded: RecordedFlows
) -> list[TableFlow]:
    """Of each table the flow that ends where people read it."""
    choice = choose(project, selection, sources, recorded=recorded)
    for error in (*(error for _, error in choice.faults), *choice.missing.values()):
        raise error
    if choice.delta_flows:
        raise ConfigError(
            f"{choice.delta_flows[0].name} is a flow between Delta tables, which is not repaired key by key",
            hint=f"`tidegauge run --select {choice.delta_flows[0].name} --full-refresh` fills it again",
        )
    passed = {flow.upstream for flow in choice.flows}
    flows = [flow for flow in choice.flows if flow.name not in passed]
    if not flows:
        raise ConfigError("nothing was selected", hint="`tidegauge status` lists what there is")
    return flows


def _find_unfinished(flow: TableFlow, status: FlowStatus | None) -> str | None:
    if status is not None and status.override is not None:
        raise WrongState(
            f"{flow.name}: an override ({status.override.kind}) that {status.override.actor} began has not"
            " ended",
            hint="`tidegauge run` ends it; then repeat the repair",
            retryable=True,
        )
    plan = status.plan if status else None
    return f"plan {plan.plan_id}, {plan.done} of {len(plan.draft.batches)} batches done" if plan else None
