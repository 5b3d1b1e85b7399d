"""Run flows: end what an earlier run left, plan what is new, and walk the plans side by side."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from tidegauge.errors import (
    FlowHeld,
    LeaseLost,
    LimitReached,
    OutputDisagrees,
    OutputNotEmpty,
    Stopped,
    TidegaugeError,
    WrongState,
)
from tidegauge.flows.delta_places import Places
from tidegauge.flows.known_sources import sources_for
from tidegauge.flows.missing_tables import known_flows, refuse_forgotten
from tidegauge.flows.prepare import Approach, Ends, Prepared, prepare, recall, still_there
from tidegauge.flows.remarks import remarks
from tidegauge.flows.select import Sources, choose, needs_of
from tidegauge.ledger.heartbeat import Heartbeat
from tidegauge.ledger.open import open_ledger
from tidegauge.model.claim import Claim
from tidegauge.model.delta_flow import AnyFlow, DeltaFlow
from tidegauge.model.error_json import error_to_json
from tidegauge.model.override import Undo
from tidegauge.model.plan import Plan, Receipt
from tidegauge.model.protocols.ledger import LedgerWriter
from tidegauge.model.protocols.output import Output
from tidegauge.model.run import FlowStatus
from tidegauge.model.spec import Project, TableFlow
from tidegauge.model.state import State
from tidegauge.model.watermark import Watermark
from tidegauge.observe.events import FlowEnded, FlowPlanned, Listener, Planning, SparkStarting
from tidegauge.outputs.warehouse.open_files import kept_open
from tidegauge.run.end_override import end_override
from tidegauge.run.environment import Environment
from tidegauge.run.execute import Tools, execute
from tidegauge.run.options import RunOptions
from tidegauge.run.report import FlowReport, RunReport
from tidegauge.run.steps import Step, step
from tidegauge.spark.jars import Needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAP = 0.05
_POLL = 0.5
"""Seconds between two tries for a flow that another runner holds, under `--wait`."""


def run(project: Project, order: RunOptions, *, tell: Listener, stop: threading.Event) -> RunReport:
    """Bring every selected flow up to date. One flow's failure never stops another's."""
    with (
        open_ledger(project.ledger, create=True) as ledger,
        sources_for(project, ledger, order.stage) as sources,
    ):
        known = known_flows(ledger, project.pipeline)
        choice = choose(project, order.selection, sources, stage=order.stage, known=known)
        whole = not order.selection and order.stage is None
        notes = remarks(project, choice.flows, sources, known) if whole else ()
        with Heartbeat(ledger, project.lease) as heartbeat:
            runner = Runner(project, order, ledger, heartbeat, tell, stop)
            reports = runner.everything(choice.all_flows, sources, choice.gone)
        failed = [FlowReport(name, State.FAILED, 0.0, error=error) for name, error in choice.faults]
        return RunReport(runner.run_id, (*failed, *reports), notes)


@dataclass(frozen=True)
class _Ready:
    """A flow that has been looked at: what there is to read, and the plan that froze it."""

    flow: AnyFlow
    prepared: Prepared
    plan: Plan | None
    """None: nothing new."""
    seconds: float


Preparer = Callable[[TableFlow, Ends], Prepared]
"""Finds out what the next plan of a flow is; `prepare` unless somebody wants another one."""


class Runner:
    def __init__(
        self,
        project: Project,
        order: RunOptions,
        ledger: LedgerWriter,
        heartbeat: Heartbeat,
        tell: Listener,
        stop: threading.Event,
        environment: Environment | None = None,
        preparer: Preparer | None = None,
    ) -> None:
        self.run_id = uuid.uuid4().hex
        self._project = project
        self._order = order
        self._ledger = ledger
        self._heartbeat = heartbeat
        self._tell = tell
        self._stop = stop
        self._environment = environment or Environment()
        self._prepare = preparer or partial(prepare, limit=order.limit, confirmed=order.confirm_deletes)
        self._owner = self._environment.owner
        self._needs = {Needs.JDBC}
        self._by_jdbc = False
        """Whether rows of any flow go through Java."""
        self._tables = 0
        self._session: SparkSession | None = None
        self._starting = threading.Lock()
        self._places = Places(self._spark)

    @kept_open()
    def everything(
        self, flows: Sequence[AnyFlow], sources: Sources, gone: Mapping[str, TidegaugeError] | None = None
    ) -> list[FlowReport]:
        """`gone`: those whose table has gone, and what to say of them."""
        self._needs |= needs_of(flows)
        self._tell(Planning(len(flows)))
        names = [flow.name for flow in flows]
        flows = [self._order.readers(flow) for flow in flows]
        self._tables = len({flow.label for flow in flows})
        # Who reads what another one here writes comes after it; the others begin at once.
        later = [flow for flow in flows if any(name in names for name in flow.upstreams)]
        heads, left, reports = self._standing([flow for flow in flows if flow not in later])
        heads, lost = self._without(heads, left, gone or {})
        reports += lost
        ready, refused = self._freeze([flow for flow in heads if flow.name not in left], sources)
        reports += refused
        jobs = {one.flow.name: partial(self._go, one) for one in ready}
        jobs |= {
            flow.name: partial(self._take_up, flow, left[flow.name]) for flow in heads if flow.name in left
        }
        reports += self._side_by_side(jobs, later, reports)
        order = {name: place for place, name in enumerate(names)}
        return sorted(reports, key=lambda report: order[report.flow])

    @kept_open()
    def left_behind(
        self, flows: Sequence[AnyFlow], gone: Mapping[str, TidegaugeError] | None = None
    ) -> list[FlowReport]:
        """End the plans that earlier runs left, with their own windows, and make no new ones."""
        self._needs |= needs_of(flows)
        flows = [self._order.readers(flow) for flow in flows]
        free, left, reports = self._standing(flows)
        free, lost = self._without([flow for flow in free if flow.name in left], left, gone or {})
        reports += lost
        jobs = {flow.name: partial(self._take_up, flow, left[flow.name], only=True) for flow in free}
        return [*reports, *self._side_by_side(jobs)]

    def _side_by_side(
        self,
        jobs: Mapping[str, Callable[[], list[FlowReport]]],
        later: Sequence[AnyFlow] = (),
        before: Sequence[FlowReport] = (),
    ) -> list[FlowReport]:
        """Do the jobs, and begin each of the `later` ones once all that it reads from has ended well.

        `before` are the reports of flows that never got as far as a job.
        """
        reports: list[FlowReport] = []
        ended = {report.flow: report for report in before}
        expected = {*jobs, *ended, *(flow.name for flow in later)}
        held: set[str] = set()
        with self._environment.threads(self._order.side_by_side) as pool:
            walks = {pool.submit(job): name for name, job in jobs.items()}
            while walks or later:
                for flow in (waiting := later):
                    above = [name for name in flow.upstreams if name in expected]
                    if any(name not in ended for name in above):
                        continue
                    waiting = [one for one in waiting if one is not flow]
                    bad = next((name for name in above if name in held or not ended[name].ok), None)
                    if bad is None:
                        walks[pool.submit(partial(self._follow, flow))] = flow.name
                    else:
                        held.add(flow.name)
                        ended[flow.name] = self._held_back(flow, ended[bad])
                        reports.append(ended[flow.name])
                if len(waiting) < len(later):
                    later = waiting
                    continue
                # In short naps: a signal may reach any thread, and only an awake main thread acts on it.
                done, _ = wait(walks, timeout=_NAP, return_when=FIRST_COMPLETED)
                for walked in done:
                    found = walked.result()
                    ended[walks.pop(walked)] = found[-1]
                    reports += found
        return reports

    def _follow(self, flow: AnyFlow) -> list[FlowReport]:
        """Bring one flow up to date, after those that it reads from."""
        with self._environment.sources() as sources:
            free, left, refused = self._standing([flow])
            if left:
                return [*refused, *self._take_up(flow, left[flow.name])]
            ready, faults = self._freeze(free, sources)
            return [*refused, *faults, *(done for one in ready for done in self._go(one))]

    def _held_back(self, flow: AnyFlow, before: FlowReport) -> FlowReport:
        """What is not begun because a flow that it reads from did not end well."""
        if isinstance(before.error, Stopped):
            stopped = Stopped("stopped as asked, before it began", hint="the next run goes on from here")
            return FlowReport(flow.name, State.READY, 0.0, error=stopped)
        reason = f"{before.flow} did not end well"
        return self._ended(FlowReport(flow.name, State.SKIPPED, 0.0, reason=reason + flow.skip_hint))

    def _standing(self, flows: Sequence[AnyFlow]) -> tuple[list[AnyFlow], dict[str, Plan], list[FlowReport]]:
        """The flows that nothing stands in the way of, and the plans that earlier runs left of them."""
        free, statuses, refused = self._end_overrides(flows)
        left = {
            status.flow: status.plan
            for status in statuses
            if status.plan is not None and status.override is None
        }
        return free, left, refused

    def _without(
        self, flows: Sequence[AnyFlow], left: Mapping[str, Plan], gone: Mapping[str, TidegaugeError]
    ) -> tuple[list[AnyFlow], list[FlowReport]]:
        """The flows whose table is there, and the reports of the others."""
        reports = []
        for flow in flows:
            error, plan, began = gone.get(flow.name), left.get(flow.name), self._environment.clock()
            if error is None:
                continue
            if plan is None:
                reports.append(self._refused(flow, error, began))
                continue
            # Who holds it finds out by himself; it is not ours to say.
            with contextlib.suppress(FlowHeld, WrongState, Stopped):
                self._ledger.finish(self._claim(plan), State.FAILED, error_to_json(error))
            report = FlowReport(flow.name, State.FAILED, self._since(began), draft=plan.draft, error=error)
            reports.append(self._ended(report))
        return [flow for flow in flows if flow.name not in gone], reports

    def _freeze(self, flows: Sequence[AnyFlow], sources: Sources) -> tuple[list[_Ready], list[FlowReport]]:
        """Look at every flow's source, then keep all their windows in one transaction of the ledger.

        Who finds that another runner came between looks again: what it saw is not what is new any more.
        """
        ready: list[_Ready] = []
        reports: list[FlowReport] = []
        while flows:
            looked, again = self._look(flows, sources, reports)
            if self._stop.is_set():
                stopped = Stopped("stopped as asked, while planning", hint="nothing was changed")
                rest = [*(one.flow for one in looked), *again]
                reports += [FlowReport(flow.name, State.READY, 0.0, error=stopped) for flow in rest]
                return ready, reports
            drafts = [one.prepared.draft for one in looked if one.plan is None]
            plans: dict[str, Plan] = {}
            if any(one.prepared.by_spark and one.prepared.draft.batches for one in looked):
                # Before anything is kept: a plan that nobody here can walk would only be in the way.
                self._environment.check_java(self._project.spark)
            if drafts:
                with step(Step.PLAN, self._project.pipeline, self._tell):
                    plans = self._ledger.plan(drafts, owner=self._owner, run_id=self.run_id)
            for one in looked:
                plan = one.plan or plans.get(one.flow.name)
                if plan is None and one.prepared.draft.batches:
                    again.append(one.flow)
                else:
                    ready.append(replace(one, plan=plan))
            flows, _, refused = self._end_overrides(again)
            reports += refused
        return ready, reports

    def _end_overrides(
        self, flows: Sequence[AnyFlow]
    ) -> tuple[list[AnyFlow], list[FlowStatus], list[FlowReport]]:
        """End what somebody began to change by hand, and did not live to end; whose flows cannot be freed is
        reported. The statuses are from before that."""
        statuses = self._ledger.status(self._project.pipeline, [flow.name for flow in flows]) if flows else []
        begun = {status.flow: status.override for status in statuses if status.override is not None}
        free: list[AnyFlow] = []
        refused: list[FlowReport] = []
        for flow in flows:
            began = self._environment.clock()
            try:
                if flow.name in begun:
                    end_override(self._ledger, self._output(flow), flow, begun[flow.name], self._tell)
                free.append(flow)
            except TidegaugeError as error:
                refused.append(self._refused(flow, error, began))
        return free, statuses, refused

    def _look(
        self, flows: Sequence[AnyFlow], sources: Sources, reports: list[FlowReport]
    ) -> tuple[list[_Ready], list[AnyFlow]]:
        """What there is to read of each flow, and whom to look at again; who cannot be read is reported."""
        marks = self._marks(flows)
        forgotten = self._forgotten([flow.name for flow in flows if flow.name not in marks])
        looked: list[_Ready] = []
        again: list[AnyFlow] = []
        for place, flow in enumerate(flows):
            if self._stop.is_set():
                return looked, [*again, *flows[place:]]
            began = self._environment.clock()
            approach = self._approach(flow, sources, marks)
            try:
                if flow.name in forgotten:
                    raise refuse_forgotten(flow.name, forgotten[flow.name])
                approach.output.prepare()
                prepared = approach.prepare()
                self._by_jdbc |= prepared.by_jdbc
                strategy = self._order.followed(flow, self._tables)
                prepared = replace(prepared, draft=replace(prepared.draft, strategy=strategy))
                looked.append(_Ready(flow, prepared, None, self._since(began)))
            except (OutputDisagrees, OutputNotEmpty) as error:
                # Unless it is another runner at work, whose batches the ledger did not know a moment ago.
                plan, moved = self._overtaken(flow, approach.mark)
                if plan is not None:
                    looked.append(_Ready(flow, approach.recall(plan), plan, self._since(began)))
                elif moved:
                    again.append(flow)
                else:
                    reports.append(self._refused(flow, error, began))
            except TidegaugeError as error:
                reports.append(self._refused(flow, error, began))
        return looked, again

    def _marks(self, flows: Sequence[AnyFlow]) -> dict[str, list[Watermark]]:
        names = {name for flow in flows for name in (flow.name, *flow.upstreams)}
        marks: dict[str, list[Watermark]] = {}
        for mark in self._ledger.watermarks(self._project.pipeline, sorted(names)):
            marks.setdefault(mark.flow, []).append(mark)
        return marks

    def _forgotten(self, names: Sequence[str]) -> dict[str, Undo]:
        statuses = self._ledger.status(self._project.pipeline, names) if names else []
        return {one.flow: one.undo for one in statuses if one.undo is not None and one.undo.forgot}

    def _approach(self, flow: AnyFlow, sources: Sources, marks: Mapping[str, list[Watermark]]) -> Approach:
        mine, output = marks.get(flow.name, []), self._output(flow)
        mark = mine[0] if mine else None
        if isinstance(flow, DeltaFlow):
            # Not before it is needed: a run of tables alone shall not wait for a parser of SQL.
            from tidegauge.flows.delta import DeltaPreparer

            layering = DeltaPreparer(flow, output, mine, self._places)
            return Approach(output, mark, layering.prepare, layering.recall)
        ends = Ends(
            source=lambda: sources.of(flow.source),
            reader=self._environment.reader(flow),
            output=output,
            mark=mark,
            upstream=next(iter(marks.get(flow.upstream or "", [])), None),
        )
        return Approach(
            output,
            mark,
            partial(self._prepare, flow, ends),
            partial(recall, flow, ends=ends, confirmed=self._order.confirm_deletes),
        )

    def _output(self, flow: AnyFlow, plan: Plan | None = None) -> Output:
        return (
            self._places.output(flow, plan) if isinstance(flow, DeltaFlow) else self._environment.output(flow)
        )

    def _overtaken(self, flow: AnyFlow, mark: Watermark | None) -> tuple[Plan | None, bool]:
        """The plan that another runner has made since, and whether the watermark moved or is going to."""
        statuses = self._ledger.status(flow.pipeline, [flow.name])
        if any(status.override is not None for status in statuses):
            return None, True
        plans = [status.plan for status in statuses]
        stood = (mark.epoch, mark.seq) if mark else (0, 0)
        stands = [(now.epoch, now.seq) for now in self._ledger.watermarks(flow.pipeline, [flow.name])]
        return next(iter(plans), None), any(now != stood for now in stands)

    def _refused(self, flow: AnyFlow, error: TidegaugeError, began: float) -> FlowReport:
        # WrongState: another runner's plan stands, and that we cannot plan is ours alone to report.
        with contextlib.suppress(WrongState):
            self._ledger.refuse(
                flow.pipeline, flow.name, error_to_json(error), owner=self._owner, run_id=self.run_id
            )
        return self._ended(FlowReport(flow.name, State.FAILED, self._since(began), error=error))

    def _take_up(self, flow: AnyFlow, plan: Plan, *, only: bool = False) -> list[FlowReport]:
        """End what an earlier run froze, with its own windows; then go on with what has come since."""
        began = self._environment.clock()
        with self._environment.sources() as sources:
            try:
                approach = self._approach(flow, sources, self._marks([flow]))
                approach.output.prepare()
                self._check_kept(flow, approach)
                prepared = approach.recall(plan)
                self._by_jdbc |= prepared.by_jdbc
            except TidegaugeError as error:
                report = FlowReport(
                    flow.name, State.FAILED, self._since(began), draft=plan.draft, error=error
                )
                return [self._ended(report)]
            first = self._walk(flow, plan, prepared, resumed=True)
            if first.error is not None or only or self._order.limit is not None:
                # With a limit: what has come since is for another run, or the two would be more than it.
                return [first]
            ready, refused = self._freeze([flow], sources)
            return [first, *refused, *(report for one in ready for report in self._go(one))]

    def _check_kept(self, flow: AnyFlow, approach: Approach) -> None:
        """Whoever goes on with a plan has to find what its batches before left."""
        try:
            still_there(flow, approach.output, approach.mark)
        except OutputDisagrees:
            _, moved = self._overtaken(flow, approach.mark)
            if not moved:
                raise

    def _go(self, ready: _Ready) -> list[FlowReport]:
        if ready.plan is not None:
            return [self._walk(ready.flow, ready.plan, ready.prepared, resumed=False)]
        draft = ready.prepared.draft
        self._tell(FlowPlanned(ready.flow.name, 0, 0, resumed=False, notes=draft.notes))
        return [self._ended(FlowReport(ready.flow.name, State.SKIPPED, ready.seconds, draft=draft))]

    def _walk(self, flow: AnyFlow, plan: Plan, prepared: Prepared, *, resumed: bool) -> FlowReport:
        began = self._environment.clock()
        draft = plan.draft
        rows = sum(batch.rows or 0 for batch in draft.batches[plan.done :])
        self._tell(FlowPlanned(flow.name, rows, len(draft.batches) - plan.done, resumed, draft.notes))

        notes: list[str] = []

        def report(
            state: State, receipts: tuple[Receipt, ...] = (), error: TidegaugeError | None = None
        ) -> FlowReport:
            done = FlowReport(flow.name, state, self._since(began), receipts, draft, error, resumed)
            return self._ended(replace(done, noted=tuple(notes)))

        try:
            with step(Step.CLAIM, flow.name, self._tell):
                claim = self._claim(plan)
        except (FlowHeld, Stopped) as error:
            state = State.RUNNING if isinstance(error, FlowHeld) else State.PLANNED
            return report(state, error=error)
        except WrongState:
            # Another runner ended this very plan since we saw it: its rows are there, and not by us.
            return report(State.SKIPPED)
        except TidegaugeError as error:
            return report(State.FAILED, error=error)
        with self._heartbeat.hold(claim), contextlib.ExitStack() as opened:
            spark = self._spark
            if isinstance(flow, DeltaFlow):
                delta_flow = flow
                spark = cache(lambda: opened.enter_context(self._places.session(delta_flow)))
            tools = Tools(
                ledger=self._ledger,
                output=self._output(flow, plan),
                spark=spark,
                stop=self._stop,
                tell=self._tell,
                lease=self._project.lease,
                limit=self._order.limit,
                notes=notes,
            )
            if prepared.changes:
                said = "; ".join(prepared.changes)
                self._ledger.note(flow.pipeline, flow.name, "schema_changed", owner=self._owner, reason=said)
            walked = execute(claim, prepared.read_batch, tools)
            failure = walked.error
            if not isinstance(failure, LeaseLost):
                try:
                    with step(Step.FINISH, flow.name, self._tell):
                        told = failure is not None and not isinstance(failure, LimitReached)
                        self._ledger.finish(
                            claim, _ending(failure), error_to_json(failure) if failure and told else None
                        )
                except TidegaugeError as fault:
                    failure = failure or fault
        return report(_ending(failure), walked.receipts, failure)

    def _claim(self, plan: Plan) -> Claim:
        """Take the flow; wait for it as long as the user allows, and never for a process that is gone."""
        until = self._environment.clock() + self._order.wait.total_seconds()
        while True:
            if self._stop.is_set():
                raise Stopped("stopped as asked, before it began", hint="the next run takes up the same plan")
            [status] = self._ledger.status(plan.draft.pipeline, [plan.draft.flow])
            dead = (
                status.owner if status.owner is not None and self._environment.is_gone(status.owner) else None
            )
            try:
                return self._ledger.claim(
                    plan,
                    owner=self._owner,
                    run_id=self.run_id,
                    lease=self._project.lease,
                    dead=dead,
                )
            except FlowHeld:
                if self._environment.clock() >= until:
                    raise
                self._environment.sleep(_POLL)

    def _spark(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                self._tell(SparkStarting())
                self._session = self._environment.spark(
                    self._project.spark, self._needs, not self._by_jdbc, self._order.debug
                )
            return self._session

    def _since(self, began: float) -> float:
        return self._environment.clock() - began

    def _ended(self, report: FlowReport) -> FlowReport:
        error = report.error.message if report.error else None
        self._tell(FlowEnded(report.flow, report.state, report.rows, report.seconds, error))
        return report


def _ending(error: TidegaugeError | None) -> State:
    """The state a walk leaves its flow in."""
    match error:
        case None:
            return State.SUCCESS
        case Stopped():
            return State.PLANNED
        case LeaseLost():
            return State.RUNNING
        case _:
            return State.FAILED
