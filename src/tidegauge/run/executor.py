"""Execute planned flows: claim each plan, commit its batches in order, and finish it in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegauge.errors import (
    FlowHeld,
    FlowSuspended,
    LeaseLost,
    LimitReached,
    Stopped,
    TidegaugeError,
    WrongState,
    unexpected_error,
)
from tidegauge.model.claim import Claim
from tidegauge.model.error_json import error_to_json
from tidegauge.model.moved_by import MovedBy
from tidegauge.model.plan import Plan, Receipt
from tidegauge.model.state import State
from tidegauge.observe.events import FlowPlanned
from tidegauge.run.claim import claim_plan
from tidegauge.run.commit_batch import CommitResources, commit_batch
from tidegauge.run.context import RunContext
from tidegauge.run.planner import PlannedFlow
from tidegauge.run.report import FlowReport
from tidegauge.run.steps import Step, step


class PlanExecutor:
    def __init__(self, run: RunContext) -> None:
        self._run = run

    def execute(self, planned: PlannedFlow) -> list[FlowReport]:
        """Commit the remaining batches of the plan, in order, up to the first that fails or may not begin.

        The report's error says why it ended early: Stopped on request, LimitReached at the row limit,
        LeaseLost when another runner took the flow.
        """
        if planned.plan is None:
            return [self._skip(planned)]
        run, plan, began = self._run, planned.plan, self._run.clock()
        self._announce(planned, plan)
        claim = self._claim(plan)
        if isinstance(claim, FlowReport):
            return [run.end(replace(claim, seconds=run.since(began), resumed=planned.resumed))]
        receipts: list[Receipt] = []
        moved_by: list[MovedBy] = []
        error: TidegaugeError | None = None
        with run.heartbeat.hold(claim), planned.flow.session(run.spark.start) as start:
            spark = run.spark.for_work(planned.work, start)
            tools = CommitResources(
                run.ledger, planned.flow.open_output(plan), spark, run.tell, run.project.lease
            )
            self._note_changes(planned)
            try:
                for index in self._batches_left(claim.plan, receipts):
                    receipts.append(commit_batch(claim, index, planned.work.read_batch, tools))
                    moved_by.append(MovedBy.DATABASE if planned.work.inside else spark.take_mover())
            except TidegaugeError as fault:
                error = fault
            except Exception as fault:
                # An unexpected error of one flow must not end the others, nor leave its lease behind.
                error = unexpected_error(fault, flow=plan.draft.flow)
            ended = error is None and bool(receipts)  # the advance past the last batch ended the attempt
            error = self._finish(claim, error, ended=ended)
        report = FlowReport(
            plan.draft.flow,
            _state_after(error),
            run.since(began),
            tuple(receipts),
            plan.draft,
            error,
            planned.resumed,
            noted=tuple(tools.notes),
            moved_by=tuple(dict.fromkeys(moved_by)),
        )
        return [run.end(report)]

    def _skip(self, planned: PlannedFlow) -> FlowReport:
        name, draft = planned.flow.spec.name, planned.work.draft
        self._run.tell(FlowPlanned(name, 0, 0, resumed=False, notes=draft.notes, draft=draft))
        return self._run.end(FlowReport(name, State.SKIPPED, planned.seconds, draft=draft))

    def _announce(self, planned: PlannedFlow, plan: Plan) -> None:
        left = plan.draft.batches[plan.done :]
        rows = None if any(batch.rows is None for batch in left) else sum(batch.rows or 0 for batch in left)
        notes = plan.draft.notes
        self._run.tell(FlowPlanned(plan.draft.flow, rows, len(left), planned.resumed, notes, plan.draft))

    def _claim(self, plan: Plan) -> Claim | FlowReport:
        """Claim the flow, or return the report that says why it cannot be claimed."""
        flow, draft = plan.draft.flow, plan.draft
        try:
            with step(Step.CLAIM, flow, self._run.tell):
                return claim_plan(self._run, plan, begins=True)
        except FlowHeld as error:
            return FlowReport(flow, State.RUNNING, 0.0, draft=draft, error=error)
        except Stopped as error:
            return FlowReport(flow, State.PLANNED, 0.0, draft=draft, error=error)
        except FlowSuspended as error:
            # Suspended after it was planned. The plan stays for a later run.
            reason = f"{error.message}; {error.hint}"
            return FlowReport(flow, State.SKIPPED, 0.0, draft=draft, reason=reason, suspended=True)
        except WrongState:
            # Another runner has ended this plan since we read it: the rows are there, written by that run.
            return FlowReport(flow, State.SKIPPED, 0.0, draft=draft)
        except TidegaugeError as error:
            return FlowReport(flow, State.FAILED, 0.0, draft=draft, error=error)

    def _note_changes(self, planned: PlannedFlow) -> None:
        spec, changes = planned.flow.spec, planned.work.changes
        if changes:
            self._run.ledger.note(
                spec.pipeline,
                spec.name,
                "schema_changed",
                owner=self._run.environment.owner,
                reason="; ".join(changes),
            )

    def _batches_left(self, plan: Plan, receipts: Sequence[Receipt]) -> Iterator[int]:
        """Yield the index of each batch to commit. Raises Stopped or LimitReached where it has to end."""
        limit = self._run.options.limit
        for index in range(plan.done, len(plan.draft.batches)):
            if self._run.stop.is_set():
                raise Stopped(
                    "stopped as asked, after the batch in hand", hint="the next run goes on from here"
                )
            if limit is not None and sum(one.rows for one in receipts) >= limit:
                raise LimitReached(
                    f"stopped at the limit of {limit:,} rows", hint="the next run goes on from here"
                )
            yield index

    def _finish(self, claim: Claim, error: TidegaugeError | None, *, ended: bool) -> TidegaugeError | None:
        """End the attempt in the ledger, unless it has `ended` there already.

        Returns the error that was passed in, else the error of ending it, else None.
        """
        if isinstance(error, LeaseLost):
            return error
        kept = None if error is None or isinstance(error, LimitReached) else error_to_json(error)
        try:
            with step(Step.FINISH, claim.plan.draft.flow, self._run.tell):
                if not ended:
                    self._run.ledger.finish(claim, _state_after(error), kept)
        except TidegaugeError as fault:
            return error or fault
        return error


def _state_after(error: TidegaugeError | None) -> State:
    """The state of a flow whose attempt ended with this error; None: with none."""
    match error:
        case None:
            return State.SUCCESS
        case Stopped():
            return State.PLANNED
        case LeaseLost():
            return State.RUNNING
        case _:
            return State.FAILED
