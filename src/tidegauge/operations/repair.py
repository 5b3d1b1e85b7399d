"""Moves only the rows that differ between a source and its warehouse; the watermark stays where it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegauge.errors import ConfigError, WrongState
from tidegauge.flows.flow import resources_for
from tidegauge.flows.open import open_flow
from tidegauge.flows.selection.missing_tables import RecordedFlows, find_recorded
from tidegauge.flows.selection.select import choose
from tidegauge.flows.table.base import TableFlowBase
from tidegauge.flows.table.repair import RepairComparison, compare_for_repair, plan_repair
from tidegauge.ledger.open import open_ledger
from tidegauge.ledger.owner import this_process
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.state import State
from tidegauge.observe.events import Comparing, Listener
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.runner import open_runner
from tidegauge.sources.connections import SourceConnections


@dataclass(frozen=True)
class RepairPreview:
    """What a repair would move and delete for one table."""

    flow: TableFlow
    unlike: RepairComparison
    deletes: bool
    unfinished: str | None = None
    """Description of the plan that has to end first, if there is one."""

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
        """The counts in words, for the history."""
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


def preview_repair(
    project: Project, selection: Sequence[str], *, deletes: bool, tell: Listener | None = None
) -> list[RepairPreview]:
    """Show what would be moved, by table. Changes nothing."""
    with open_ledger(project.ledger, create=False) as ledger, SourceConnections() as sources:
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
            found.append(RepairPreview(spec, compare_for_repair(flow), deletes, unfinished))
        return found


def run_repair(
    project: Project,
    found: Sequence[RepairPreview],
    *,
    reason: str,
    tell: Listener,
    stop: threading.Event,
    debug: bool = False,
) -> RunReport:
    """Carry out the previewed repairs. Under each flow's claim, the differences are searched again.

    Each flow first ends the plan that an earlier run or repair left unfinished.
    """
    options = RunOptions(tuple(one.name for one in found), debug=debug)
    shown = {one.name: one.unlike for one in found}
    plan_flow = partial(plan_repair, shown=shown, deletes=any(one.deletes for one in found))
    with open_runner(project, options, tell=tell, stop=stop, plan_flow=plan_flow) as runner:
        before = {one.name: _find_extracted(runner.ledger, one.flow) for one in found}
        for one in found:
            said = f"{reason} ({one.counted})"
            runner.ledger.note(project.pipeline, one.name, "repair", owner=this_process(), reason=said)
        reports = runner.make_jobs([one.flow for one in found]).run()
        flows = {one.name: one.flow for one in found}
        judged = [_judge(runner.ledger, flows[one.flow], before[one.flow], one) for one in reports]
        return RunReport(runner.run_id, tuple(judged))


def _find_extracted(ledger: LedgerReader, flow: TableFlow) -> tuple[int, int]:
    """Return the epoch and batch of the flow's extract. Raises WrongState while the extract has a plan, which
    may have read rows before they were corrected and bring them after the repair."""
    if flow.upstream is None:
        return 0, 0
    if any(one.plan is not None for one in ledger.status(flow.pipeline, [flow.upstream])):
        raise WrongState(
            f"{flow.upstream} is under way, and may bring rows that are older than the repaired ones",
            hint="`tidegauge run` ends it; then repeat the repair",
            retryable=True,
        )
    marks = ledger.watermarks(flow.pipeline, [flow.upstream])
    return next(((one.epoch, one.seq) for one in marks), (0, 0))


def _judge(ledger: LedgerReader, flow: TableFlow, before: tuple[int, int], report: FlowReport) -> FlowReport:
    """Make the report a failure if the extract ran meanwhile. A plan is in the ledger before anything is read
    for it, so an extract that began since `before` has a plan or another batch by now."""
    if report.error is not None:
        return report
    try:
        moved = _find_extracted(ledger, flow) != before
    except WrongState:
        moved = True
    if not moved:
        return report
    error = WrongState(
        f"{flow.upstream} ran while {flow.name} was repaired, and may have read rows before they were"
        " repaired",
        hint=f"`tidegauge run -t {flow.table}`, then `tidegauge verify -t {flow.table}` says whether one is"
        " left to repair",
        retryable=True,
    )
    return replace(report, state=State.FAILED, error=error)


def _choose(
    project: Project, selection: Sequence[str], sources: SourceConnections, recorded: RecordedFlows
) -> list[TableFlow]:
    """Choose the last flow of each table: the one whose output people read."""
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
