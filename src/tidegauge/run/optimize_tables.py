"""Optimize the tables of other flows within a run.

The ledger only records in its history which tables were compacted. It needs no plan or watermark: a
compaction is one commit of the table itself, and the next run repeats one that died.
"""

from __future__ import annotations

from contextlib import nullcontext

from tidegauge.errors import Stopped, TableMissing
from tidegauge.flows.maintenance.base import MaintainedTable, Maintenance, MaintenanceResult, output_of
from tidegauge.flows.maintenance.optimize import optimize
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.state import State
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport


def optimize_tables(run: RunContext, spec: OptimizeFlow) -> FlowReport:
    """Report SUCCESS if files of any table were written or removed, SKIPPED if no table was worth it."""
    began = run.clock()
    maintenance = Maintenance(run.project, run.delta_tables, lambda: nullcontext(run.ledger))
    targets: list[MaintainedTable] = []
    absent: list[MaintenanceResult] = []
    for flow in spec.looks_after:
        try:
            targets.append(output_of(flow, run.delta_tables))
        except TableMissing:
            nowhere = MaintainedTable(flow.output.table, flow.target, flow)
            absent.append(MaintenanceResult(nowhere, absent=True))

    def one(target: MaintainedTable) -> MaintenanceResult:
        if run.stop.is_set():
            raise Stopped("stopped as asked, before it began", hint="the next run goes on from here")
        return optimize(maintenance, target, clean=spec.vacuum, rarely=True)

    found = (*maintenance.work_on(targets, one), *absent)
    for result in found:
        if result.compacted and result.target.delta_flow is not None:
            run.ledger.note(
                run.project.pipeline,
                result.target.delta_flow.name,
                "optimized",
                owner=run.environment.owner,
                reason=f"by the flow {spec.name}",
            )
    worked = any(result.compacted or result.removed for result in found)
    # Real errors first: a stop is no failure, and must not hide one.
    errors = sorted(
        (result.error for result in found if result.error is not None),
        key=lambda error: isinstance(error, Stopped),
    )
    if errors:
        state = State.READY if isinstance(errors[0], Stopped) else State.FAILED
        return FlowReport(spec.name, state, run.since(began), error=errors[0], optimized=found)
    state = State.SUCCESS if worked else State.SKIPPED
    return FlowReport(spec.name, state, run.since(began), optimized=found)
