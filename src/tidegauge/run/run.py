"""Run flows: finish what an earlier run left, plan what is new, and execute the plans side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from tidegauge.errors import TidegaugeError
from tidegauge.flows.known_sources import sources_for
from tidegauge.flows.missing_tables import find_recorded
from tidegauge.flows.remarks import remarks
from tidegauge.flows.select import Sources, choose
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import AnyFlow
from tidegauge.model.plan import Plan
from tidegauge.model.protocols.ledger import LedgerReader
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.suspension import ALL
from tidegauge.model.view_flow import WithoutData
from tidegauge.observe.events import FlowsChosen, Listener, Planning, RunStarted
from tidegauge.outputs.warehouse.open_files import kept_open
from tidegauge.outputs.warehouse.open_sessions import kept_sessions
from tidegauge.run.context import RunContext
from tidegauge.run.environment import Environment
from tidegauge.run.executor import Executor
from tidegauge.run.options import RunOptions
from tidegauge.run.planner import PlanFlow, Planner
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.scheduler import Job, Schedule
from tidegauge.run.standing import drop_missing, find_standing
from tidegauge.run.without_data import bring_up_to_date


def run(
    project: Project,
    options: RunOptions,
    *,
    tell: Listener,
    stop: threading.Event,
    environment: Environment | None = None,
) -> RunReport:
    """Bring every selected flow up to date. One flow's failure never stops another's."""
    with open_runner(project, options, tell=tell, stop=stop, environment=environment) as runner:
        recorded = find_recorded(runner.ledger, project.pipeline)
        choice = choose(
            project, options.selection, runner.sources, stage=options.stage, recorded=recorded, views=True
        )
        whole = not options.selection and options.stage is None
        whole = whole and options.remarks
        notes = remarks(project, choice.flows, runner.sources, recorded) if whole else ()
        without = choice.without_data
        without = () if without and _is_suspended(runner.ledger, project) else without
        reports = runner.schedule(choice.all_flows, choice.missing, without).run()
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports), notes)


@contextmanager
def open_runner(
    project: Project,
    options: RunOptions,
    *,
    tell: Listener,
    stop: threading.Event,
    plan_flow: PlanFlow | None = None,
    environment: Environment | None = None,
) -> Iterator[Runner]:
    with (
        open_ledger(project.ledger, create=True) as ledger,
        sources_for(project, ledger, options.stage) as sources,
        Heartbeat(ledger, project.lease) as heartbeat,
        kept_open(),
        kept_sessions(),
    ):
        context = RunContext(
            project, options, ledger, heartbeat, tell, stop, environment=environment or Environment()
        )
        tell(RunStarted(context.run_id, project.pipeline))
        yield Runner(context, sources, plan_flow)


class Runner:
    """One run, with the databases of the thread that plans."""

    def __init__(self, context: RunContext, sources: Sources, plan_flow: PlanFlow | None = None) -> None:
        self.run_id = context.run_id
        self.ledger = context.ledger
        self.sources = sources
        self._context = context
        self._planner = Planner(context, plan_flow)
        self._executor = Executor(context)

    def schedule(
        self,
        flows: Sequence[AnyFlow],
        missing: Mapping[str, TidegaugeError] | None = None,
        others: Sequence[WithoutData] = (),
    ) -> Schedule:
        """Plan the flows; the schedule finishes what was left of them, and executes the plans.

        `missing`: the flows whose table is gone, and what to report of them.
        """
        context, names = self._context, [flow.name for flow in (*flows, *others)]
        context.spark.prepare_for((*flows, *others))
        context.tell(FlowsChosen((*flows, *others)))
        context.tell(Planning(len(flows)))
        flows = [context.options.with_readers(flow) for flow in flows]
        context.tables = len({flow.label for flow in flows})
        # A flow that reads what another one here writes comes after it; the others begin at once. One that
        # asks Spark what is new is planned beside the others, when its turn comes.
        later = [flow for flow in flows if _waits(flow, names)]
        standing = find_standing(context, [flow for flow in flows if flow not in later])
        free, dropped = drop_missing(context, standing.free, standing.left, missing or {})
        new = [flow for flow in free if flow.name not in standing.left]
        planned, refused = self._planner.plan(new, self.sources)
        jobs: dict[str, Job] = {one.flow.spec.name: partial(self._executor.execute, one) for one in planned}
        jobs |= {
            flow.name: partial(self._resume, flow, standing.left[flow.name])
            for flow in free
            if flow.name in standing.left
        }
        before = [*standing.refused, *dropped, *refused]
        following = self._following(later, others)
        return Schedule(context, jobs, [*later, *others], lambda one: following[one.name](), before, names)

    def _following(self, flows: Sequence[AnyFlow], others: Sequence[WithoutData]) -> dict[str, Job]:
        """By name, what brings one up to date after those that it reads from."""
        jobs: dict[str, Job] = {flow.name: partial(self._follow, flow) for flow in flows}
        return jobs | {one.name: partial(bring_up_to_date, self._context, one) for one in others}

    def schedule_left(
        self, flows: Sequence[AnyFlow], missing: Mapping[str, TidegaugeError] | None = None
    ) -> Schedule:
        """Finish the plans that earlier runs left, with their own windows, and make no new ones."""
        context = self._context
        context.spark.prepare_for(flows)
        context.tell(FlowsChosen(tuple(flows)))
        standing = find_standing(context, [context.options.with_readers(flow) for flow in flows])
        left = [flow for flow in standing.free if flow.name in standing.left]
        free, dropped = drop_missing(context, left, standing.left, missing or {})
        jobs = {flow.name: partial(self._resume, flow, standing.left[flow.name], only=True) for flow in free}
        return Schedule(context, jobs, before=[*standing.refused, *dropped])

    def _follow(self, flow: AnyFlow) -> list[FlowReport]:
        """Bring one flow up to date, after those that it reads from."""
        standing = find_standing(self._context, [flow])
        if standing.left:
            return [*standing.refused, *self._resume(flow, standing.left[flow.name])]
        with self._context.environment.sources() as sources:
            return [*standing.refused, *self._plan_and_execute(standing.free, sources)]

    def _resume(self, flow: AnyFlow, plan: Plan, *, only: bool = False) -> list[FlowReport]:
        """Finish what an earlier run froze, with its own windows; then go on with what has come since."""
        context, began = self._context, self._context.clock()
        with context.environment.sources() as sources:
            try:
                planned = self._planner.resume(flow, plan, sources)
            except TidegaugeError as error:
                report = FlowReport(
                    flow.name, State.FAILED, context.since(began), draft=plan.draft, error=error
                )
                return [context.end(report)]
            [first] = self._executor.execute(planned)
            if first.error is not None or only or context.options.limit is not None:
                # With a limit: what has come since is for another run, or the two would be more than it.
                return [first]
            return [first, *self._plan_and_execute([flow], sources)]

    def _plan_and_execute(self, flows: Sequence[AnyFlow], sources: Sources) -> list[FlowReport]:
        planned, refused = self._planner.plan(flows, sources)
        return [*refused, *(report for one in planned for report in self._executor.execute(one))]


def _is_suspended(ledger: LedgerReader, project: Project) -> bool:
    """The whole pipeline is. Views are not in the ledger, and go by it alone."""
    statuses = ledger.status(project.pipeline, [ALL])
    return any(one.flow == ALL and one.suspended for one in statuses)


def _waits(flow: AnyFlow, names: Sequence[str]) -> bool:
    """Whether it is planned when its turn comes, and not with the others before anything begins."""
    return flow.plans_by_spark or any(name in names for name in flow.upstreams)
