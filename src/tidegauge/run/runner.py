"""One run: finish the plans that earlier runs left, plan what is new, and execute plans side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from functools import partial

from tidegauge.errors import TidegaugeError
from tidegauge.flows.selection.known_sources import sources_for
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.open import open_ledger
from tidegauge.model.delta_flow import DataFlow
from tidegauge.model.plan import Plan
from tidegauge.model.spec import Project
from tidegauge.model.state import State
from tidegauge.model.view_flow import GraphFlow, WithoutData
from tidegauge.observe.events import FlowsChosen, Listener, Planning, RunStarted
from tidegauge.outputs.warehouse.kept_sessions import kept_open
from tidegauge.run.context import RunContext
from tidegauge.run.environment import Environment
from tidegauge.run.executor import PlanExecutor
from tidegauge.run.jobs import Job, JobRunner, PlannedJobs
from tidegauge.run.options import RunOptions
from tidegauge.run.planner import PlanFlow, Planner
from tidegauge.run.ready import drop_missing, find_ready
from tidegauge.run.report import FlowReport
from tidegauge.run.without_data import bring_up_to_date
from tidegauge.sources.connections import SourceConnections


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
    ):
        context = RunContext(
            project, options, ledger, heartbeat, tell, stop, environment=environment or Environment()
        )
        tell(RunStarted(context.run_id, project.pipeline))
        with closing(context.spark):
            yield Runner(context, sources, plan_flow)


class Runner:
    """One run. `sources` are the open databases of the thread that plans."""

    def __init__(
        self, context: RunContext, sources: SourceConnections, plan_flow: PlanFlow | None = None
    ) -> None:
        self.run_id = context.run_id
        self.ledger = context.ledger
        self.sources = sources
        self._context = context
        self._planner = Planner(context, plan_flow)
        self._executor = PlanExecutor(context)

    def make_jobs(
        self,
        flows: Sequence[DataFlow],
        missing: Mapping[str, TidegaugeError] | None = None,
        others: Sequence[WithoutData] = (),
    ) -> JobRunner:
        """Plan the flows and return their jobs, which also finish the plans that earlier runs left.
        `missing`: the flows whose table is gone, each with the error to report. `others`: views and optimize
        flows.
        """
        context, names = self._context, dict.fromkeys(flow.name for flow in (*flows, *others))
        context.spark.prepare_for((*flows, *others))
        context.tell(FlowsChosen((*flows, *others)))
        context.tell(Planning(len(flows)))
        flows = [context.options.with_readers(flow) for flow in flows]
        context.tables = len({flow.label for flow in flows})
        begun, later = self._begin_first(flows, names.keys(), missing)
        quick = {flow.name: flow for flow in later if flow.plans_quickly}
        following = self._make_following_jobs([flow for flow in later if flow.name not in quick], others)

        def follow(meant: Sequence[GraphFlow]) -> PlannedJobs:
            if meant[0].name not in quick:
                return PlannedJobs({}, [report for one in meant for report in following[one.name]()])
            with context.environment.sources() as sources:
                return self._begin([quick[one.name] for one in meant], sources)

        return JobRunner(context, begun, [*later, *others], follow, together=quick.keys(), order=[*names])

    def _begin_first(
        self,
        flows: Sequence[DataFlow],
        names: AbstractSet[str],
        missing: Mapping[str, TidegaugeError] | None,
    ) -> tuple[PlannedJobs, list[DataFlow]]:
        """Plan the flows that need not wait for others. Returns the result, and the flows to plan later.

        A flow that reads the output of another flow of this run waits for that one. A flow that plans by
        Spark is planned later too, side by side with others.
        """
        waiting = {flow.name: _reads(flow, names) for flow in flows if _waits(flow, names)}
        begun = self._begin([flow for flow in flows if flow.name not in waiting], self.sources, missing)
        # A flow need not wait if nothing that it reads changes in this run: a thousand are planned at once.
        at_once = {
            flow.name: flow
            for flow in flows
            if flow.name in waiting and flow.plans_quickly and waiting[flow.name] <= begun.quiet
        }
        more = self._begin([*at_once.values()], self.sources)
        both = PlannedJobs({**begun.jobs, **more.jobs}, [*begun.reports, *more.reports])
        return both, [flow for flow in flows if flow.name in waiting and flow.name not in at_once]

    def _begin(
        self,
        flows: Sequence[DataFlow],
        sources: SourceConnections,
        missing: Mapping[str, TidegaugeError] | None = None,
    ) -> PlannedJobs:
        """Plan flows that need not wait for others any more, and make their jobs."""
        standing = find_ready(self._context, flows)
        free, dropped = drop_missing(self._context, standing.free, standing.unfinished_plans, missing or {})
        new = [flow for flow in free if flow.name not in standing.unfinished_plans]
        planned, refused = self._planner.plan(new, sources)
        jobs: dict[str, Job] = {one.flow.spec.name: partial(self._executor.execute, one) for one in planned}
        jobs |= {
            flow.name: partial(self._resume, flow, standing.unfinished_plans[flow.name])
            for flow in free
            if flow.name in standing.unfinished_plans
        }
        quiet = frozenset(one.flow.spec.name for one in planned if one.plan is None)
        return PlannedJobs(jobs, [*standing.refused, *dropped, *refused], quiet)

    def _make_following_jobs(
        self, flows: Sequence[DataFlow], others: Sequence[WithoutData]
    ) -> dict[str, Job]:
        """By flow, the job that brings it up to date once the flows that it reads from have ended."""
        jobs: dict[str, Job] = {flow.name: partial(self._follow, flow) for flow in flows}
        return jobs | {one.name: partial(bring_up_to_date, self._context, one) for one in others}

    def make_resume_jobs(
        self, flows: Sequence[DataFlow], missing: Mapping[str, TidegaugeError] | None = None
    ) -> JobRunner:
        """Return jobs that only finish the plans that earlier runs left, with their own windows."""
        context = self._context
        context.spark.prepare_for(flows)
        context.tell(FlowsChosen(tuple(flows)))
        standing = find_ready(context, [context.options.with_readers(flow) for flow in flows])
        left = [flow for flow in standing.free if flow.name in standing.unfinished_plans]
        free, dropped = drop_missing(context, left, standing.unfinished_plans, missing or {})
        jobs = {
            flow.name: partial(self._resume, flow, standing.unfinished_plans[flow.name], only=True)
            for flow in free
        }
        return JobRunner(context, PlannedJobs(jobs, [*standing.refused, *dropped]))

    def _follow(self, flow: DataFlow) -> list[FlowReport]:
        """Bring one flow up to date, once the flows that it reads from have ended."""
        standing = find_ready(self._context, [flow])
        if standing.unfinished_plans:
            return [*standing.refused, *self._resume(flow, standing.unfinished_plans[flow.name])]
        with self._context.environment.sources() as sources:
            return [*standing.refused, *self._plan_and_execute(standing.free, sources)]

    def _resume(self, flow: DataFlow, plan: Plan, *, only: bool = False) -> list[FlowReport]:
        """Finish the plan of an earlier run, with its own windows; then plan and execute what is new since.

        `only`: do not go on with what is new.
        """
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
                # With a limit, what is new is left to another run: both plans together could exceed it.
                return [first]
            return [first, *self._plan_and_execute([flow], sources)]

    def _plan_and_execute(self, flows: Sequence[DataFlow], sources: SourceConnections) -> list[FlowReport]:
        planned, refused = self._planner.plan(flows, sources)
        return [*refused, *(report for one in planned for report in self._executor.execute(one))]


def _waits(flow: DataFlow, names: AbstractSet[str]) -> bool:
    """Whether the flow is planned when its turn comes, instead of before the first job begins."""
    return flow.plans_by_spark or bool(_reads(flow, names))


def _reads(flow: DataFlow, names: AbstractSet[str]) -> set[str]:
    """Find which of the named flows this flow reads from."""
    return {name for name in flow.upstreams if name in names}
