"""Bring views and optimize flows up to date within a run. They have no data, so no plan, claim or batches.

The ledger only records in its history which tables were compacted: a compaction is one commit of the table
itself, and the next run repeats one that died. A view has no rows to lose.
"""

from __future__ import annotations

from contextlib import nullcontext

from tidegauge.errors import Stopped, TableMissing, TidegaugeError, unexpected_error
from tidegauge.flows.maintenance.base import MaintainedTable, Maintenance, MaintenanceResult, output_of
from tidegauge.flows.maintenance.optimize import optimize
from tidegauge.flows.view import View
from tidegauge.model.optimize_flow import OptimizeFlow
from tidegauge.model.state import State
from tidegauge.model.view_flow import ViewFlow, WithoutData
from tidegauge.run.context import RunContext
from tidegauge.run.report import FlowReport


def bring_up_to_date(run: RunContext, spec: WithoutData) -> list[FlowReport]:
    """Do the work of one view or optimize flow. Errors are reported, and never raised."""
    began = run.clock()
    if run.stop.is_set():
        stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
        return [FlowReport(spec.name, State.READY, 0.0, error=stopped)]
    try:
        run.environment.check_java(run.project.spark)
        found = _make_view(run, spec) if isinstance(spec, ViewFlow) else _optimize_tables(run, spec)
        return [run.end(found)]
    except TidegaugeError as error:
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=error))]
    except Exception as fault:
        # An unexpected error of one flow must not end the others.
        bug = unexpected_error(fault, flow=spec.name)
        return [run.end(FlowReport(spec.name, State.FAILED, run.since(began), error=bug))]


def _make_view(run: RunContext, spec: ViewFlow) -> FlowReport:
    """Report SUCCESS if the view was created or replaced, SKIPPED if it already is as the file defines it."""
    began = run.clock()
    why = View(spec, run.delta_tables).bring_up_to_date()
    state = State.SKIPPED if why is None else State.SUCCESS
    noted = () if why is None else (f"made: {why}",)
    return FlowReport(spec.name, state, run.since(began), noted=noted)


def _optimize_tables(run: RunContext, spec: OptimizeFlow) -> FlowReport:
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
