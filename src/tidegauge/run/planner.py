"""Plan flows: ask each flow what is new, and freeze all their windows in one ledger transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegauge.errors import (
    LedgerError,
    OutputDisagrees,
    OutputNotEmpty,
    Stopped,
    TidegaugeError,
    TypeNotHeld,
    share_types,
)
from tidegauge.flows.agreement import check_still_there
from tidegauge.flows.flow import Flow, PlannedWork
from tidegauge.flows.selection.missing_tables import refuse_forgotten
from tidegauge.flows.table.target_check import check_targets
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.override import Undo
from tidegauge.model.plan import Plan
from tidegauge.model.state import State
from tidegauge.run.context import RunContext
from tidegauge.run.ready import end_overrides, find_forgotten, find_newer
from tidegauge.run.report import FlowReport
from tidegauge.run.steps import Step, step
from tidegauge.sources.connections import SourceConnections

_LOOKS = 5
"""How often the ledger may refuse a plan because the flow moved on, while its watermark has not moved.

A runner that moves a flow on moves its watermark too. So after this many looks the ledger contradicts itself.
"""

PlanFlow = Callable[[Flow], PlannedWork]
"""Finds out what the next plan of a flow is. The default calls `Flow.plan`; a backfill or repair differs."""


@dataclass(frozen=True)
class PlannedFlow:
    """A flow that was asked what is new, and the plan that froze its windows."""

    flow: Flow
    work: PlannedWork
    plan: Plan | None
    """The plan in the ledger; None: there is nothing new, or it is not frozen yet."""
    seconds: float
    resumed: bool = False
    """Whether an earlier run made the plan."""


class Planner:
    def __init__(self, run: RunContext, plan_flow: PlanFlow | None = None) -> None:
        self._run = run
        self._plan_flow = plan_flow or self._plan_new

    def plan(
        self, specs: Sequence[DataFlow], sources: SourceConnections
    ) -> tuple[list[PlannedFlow], list[FlowReport]]:
        """Ask every flow what is new, then keep all their windows in one transaction of the ledger.

        A flow that another runner moved on meanwhile is asked again, because its answer is out of date.
        Returns the planned flows, and reports of the flows that could not be planned.
        """
        run = self._run
        ready: list[PlannedFlow] = []
        reports: list[FlowReport] = []
        looks: Counter[tuple[str, tuple[int, int] | None]] = Counter()
        while specs:
            found, again = self._examine(specs, sources, reports)
            if run.stop.is_set():
                stopped = Stopped("stopped as asked, while planning", hint="nothing was changed")
                rest = [*(one.flow.spec for one in found), *again]
                reports += [FlowReport(spec.name, State.READY, 0.0, error=stopped) for spec in rest]
                break
            plans = self._freeze(found)
            for one in found:
                plan = one.plan or plans.get(one.flow.spec.name)
                if plan is None and one.work.draft.batches:
                    look = one.flow.spec.name, one.work.draft.seen
                    looks[look] += 1
                    if looks[look] < _LOOKS:
                        again.append(one.flow.spec)
                    else:
                        reports.append(
                            run.refuse(one.flow.spec.name, _contradiction_error(*look), run.clock())
                        )
                else:
                    ready.append(replace(one, plan=plan))
            specs, _, refused = end_overrides(run, again)
            reports += refused
        return ready, reports

    def resume(self, spec: DataFlow, plan: Plan, sources: SourceConnections) -> PlannedFlow:
        """Open the plan that an earlier run froze. Raises TidegaugeError if the flow cannot go on with it."""
        run, began = self._run, self._run.clock()
        [flow] = run.open_flows([spec], sources)
        flow.output.prepare()
        try:
            check_still_there(spec, flow.output, flow.mark)
        except OutputDisagrees:
            # Maybe another runner is at work, and its batches were not in the ledger a moment ago.
            if not find_newer(run, flow)[1]:
                raise
        work = flow.resume(plan, confirm_deletes=run.options.confirm_deletes)
        run.spark.by_jdbc |= work.through_jvm
        return PlannedFlow(flow, work, plan, run.since(began), resumed=True)

    def _plan_new(self, flow: Flow) -> PlannedWork:
        options = self._run.options
        return flow.plan(limit=options.limit, confirm_deletes=options.confirm_deletes)

    def _freeze(self, found: Sequence[PlannedFlow]) -> dict[str, Plan]:
        run = self._run
        movers = {run.spark.foresee_mover(one.work) for one in found}
        if MovedBy.SPARK in movers:
            # Before a plan is kept: one that cannot be executed here would block the flow.
            run.environment.check_java(run.project.spark)
        if MovedBy.PROCESSES in movers and (local := run.spark.local_tasks()):
            local.warm_up(
                max(len(batch.split_points) + 1 for one in found for batch in one.work.draft.batches)
            )
        drafts = [one.work.draft for one in found if one.plan is None]
        if not drafts:
            return {}
        with step(Step.PLAN, run.project.pipeline, run.tell):
            return run.ledger.plan(drafts, owner=run.environment.owner, run_id=run.run_id)

    def _examine(
        self, specs: Sequence[DataFlow], sources: SourceConnections, reports: list[FlowReport]
    ) -> tuple[list[PlannedFlow], list[DataFlow]]:
        """Ask each flow what is new. Returns the answers, and the flows to ask again.

        Flows that cannot be planned are added to `reports`.
        """
        run = self._run
        flows = run.open_flows(specs, sources)
        forgotten = find_forgotten(run, [flow.spec.name for flow in flows if flow.mark is None])
        check_targets(flows)
        found: list[PlannedFlow] = []
        again: list[DataFlow] = []
        unheld: list[tuple[str, TypeNotHeld, float]] = []
        for place, flow in enumerate(flows):
            if run.stop.is_set():
                again += specs[place:]
                break
            began = run.clock()
            try:
                found.append(self._examine_one(flow, forgotten.get(flow.spec.name), began))
            except (OutputDisagrees, OutputNotEmpty) as error:
                # Maybe another runner is at work, and its batches were not in the ledger a moment ago.
                plan, moved = find_newer(run, flow)
                if plan is not None:
                    work = flow.resume(plan, confirm_deletes=run.options.confirm_deletes)
                    found.append(PlannedFlow(flow, work, plan, run.since(began)))
                elif moved:
                    again.append(flow.spec)
                else:
                    reports.append(run.refuse(flow.spec.name, error, began))
            except TypeNotHeld as error:
                unheld.append((flow.spec.name, error, began))
            except TidegaugeError as error:
                reports.append(run.refuse(flow.spec.name, error, began))
        share_types(error for _, error, _ in unheld)
        reports += [run.refuse(*one) for one in unheld]
        return found, again

    def _examine_one(self, flow: Flow, forgotten: Undo | None, began: float) -> PlannedFlow:
        run = self._run
        if forgotten is not None:
            raise refuse_forgotten(flow.spec.name, forgotten)
        if not flow.target_checked:
            flow.output.prepare()
        work = self._plan_flow(flow)
        run.spark.by_jdbc |= work.through_jvm
        strategy = run.options.strategy_of(flow.spec, run.tables)
        work = replace(work, draft=replace(work.draft, strategy=strategy))
        return PlannedFlow(flow, work, None, run.since(began))


def _contradiction_error(name: str, seen: tuple[int, int] | None) -> LedgerError:
    epoch, seq = seen or (0, 0)
    return LedgerError(
        f"{name}: the ledger contradicts itself: the watermark is of batch {seq} in epoch {epoch}, and its"
        " row in `flows` names another batch",
        hint="somebody deleted or changed a row of it: bring it back from a copy of the ledger; or delete the"
        " flow's rows from all of the ledger's tables, and let the output tell:"
        f" tidegauge ledger rebuild --select {name}",
    )
