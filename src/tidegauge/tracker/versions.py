"""Ranges of versions over many tables: planned once, completed together or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.errors import ConfigError, TidegaugeError, WrongState
from tidegauge.ledger.owner import is_gone
from tidegauge.model.claim import Claim
from tidegauge.model.plan import Draft, Plan
from tidegauge.model.state import State
from tidegauge.tracker.completion import Processing, Records, count_records
from tidegauge.tracker.latest import Latest, Names, Tables, as_names, look_up, raise_first, read_given
from tidegauge.tracker.ledger import TRIES, Error, TrackerLedger, busy_error, describe_error, new_id
from tidegauge.tracker.moment import with_utc
from tidegauge.tracker.pipeline_state import VERSION, PipelineState, kind_of, peek
from tidegauge.tracker.processing import (
    ProcessingPlan,
    Range,
    build_ended_plan,
    build_plan,
    build_skipped_plan,
    version_of,
)
from tidegauge.tracker.ranges import Baseline, check_active, draft_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BY_VERSION, BY_TIMESTAMP = "version", "timestamp"


class Versions:
    def __init__(self, tracker_ledger: TrackerLedger) -> None:
        self._tracker_ledger = tracker_ledger

    def prepare(
        self,
        pipeline: str,
        schemas: Names | None,
        *,
        spark: SparkSession | None,
        tables: Tables | None,
        latest_versions: Mapping[str, Any] | None,
        baseline: Baseline,
        allow_schema_change: bool,
        by: str = BY_VERSION,
    ) -> ProcessingPlan:
        tracker_ledger = self._tracker_ledger
        until = self._read_until(by, latest_versions)
        for number in range(TRIES):
            # The ledger is read first, so that its checkpoints are never ahead of what the tables show.
            pipeline_state = tracker_ledger.look(pipeline, VERSION)
            found: dict[str, Latest | TidegaugeError] = {}
            if latest_versions is not None:
                found = {**read_given(latest_versions, schemas, tables)}
            elif pipeline_state.plan is None or schemas or tables:
                # An active plan may go further than the moment of this call, so it is not cut to that.
                found = look_up(spark, schemas, tables, until=None if pipeline_state.plan else until)
            if pipeline_state.plan is not None:
                looked = latest_versions is None and bool(schemas or tables)
                check_active(pipeline_state, found, looked=looked, schemas=schemas)
                return self._show(pipeline_state)
            wanted = draft_ranges(
                pipeline_state,
                raise_first(found),
                baseline=baseline,
                allow_schema_change=allow_schema_change,
                schemas=schemas,
                # After a lost race, another runner may have moved past what the caller saw.
                late=latest_versions is not None and number > 0,
            )
            if until is not None:
                wanted = _note_moment(wanted, until)
            run_id = new_id()
            kept = tracker_ledger.ledger.plan([wanted], owner=tracker_ledger.owner, run_id=run_id)
            if kept:
                # Our plan, or that of another runner who was faster.
                pipeline_state = tracker_ledger.look(pipeline, VERSION)
                if pipeline_state.plan is not None:
                    return self._show(pipeline_state)
            elif not wanted.batches:
                return build_skipped_plan(pipeline, run_id, tracker_ledger.ledger.now(), wanted.notes)
        raise busy_error(pipeline)

    def _read_until(self, by: str, latest_versions: Mapping[str, Any] | None) -> datetime | None:
        """The one moment up to which all tables are planned, taken before any is read; None by version."""
        if by == BY_VERSION:
            return None
        if by != BY_TIMESTAMP:
            raise ConfigError(f"by={by!r} is no way to plan", hint="by='version' or by='timestamp'")
        if latest_versions is not None:
            raise ConfigError(
                "by='timestamp' asks the tables' own logs, and latest_versions asks nobody",
                hint="give tables={name: path}, or schemas and spark=…",
            )
        return min(with_utc(self._tracker_ledger.ledger.now()), datetime.now(UTC))

    def complete(
        self, run_id: str, tables: Names | None, *, records: Records | None, pipeline: str | None
    ) -> ProcessingPlan:
        tracker_ledger = self._tracker_ledger
        named = None if tables is None else as_names(tables, what="table")
        if named is not None and not named:
            raise ConfigError("no table is named", hint="leave `tables` out to complete all that are left")
        found = self._find(run_id, pipeline)
        if isinstance(found, ProcessingPlan):
            if named:
                raise ConfigError(
                    f"the plan {run_id} has no tables: nothing was new", hint="nothing is to do"
                )
            return found
        pipeline_state, plan = found
        assert pipeline_state.status is not None
        rows = count_records(pipeline_state.status, plan, named, records)
        holder = pipeline_state.status.owner
        if holder is not None and is_gone(holder):
            claim = tracker_ledger.claim(plan, pipeline_state.status, run_id=run_id)
            status = tracker_ledger.complete(claim, rows)
            if status.plan is not None and status.plan.plan_id == plan.plan_id:
                tracker_ledger.finish(claim, State.PLANNED, None)
        else:
            status = tracker_ledger.ledger.complete(
                pipeline_state.pipeline,
                pipeline_state.pipeline,
                plan.plan_id,
                owner=tracker_ledger.owner,
                run_id=run_id,
                rows=rows,
            )
        if status.plan is not None and status.plan.plan_id == plan.plan_id:
            return self._show(tracker_ledger.look(pipeline_state.pipeline, VERSION))
        return build_ended_plan(pipeline_state, status, State.SUCCESS, self._events(plan))

    def fail(self, run_id: str, error: Error, *, pipeline: str | None) -> ProcessingPlan:
        tracker_ledger = self._tracker_ledger
        pipeline_state, plan = self._find_active(run_id, pipeline)
        assert pipeline_state.status is not None
        holder = pipeline_state.status.owner
        if holder is not None and is_gone(holder):
            tracker_ledger.finish(
                tracker_ledger.claim(plan, pipeline_state.status, run_id=run_id),
                State.FAILED,
                describe_error(error),
            )
        else:
            tracker_ledger.ledger.fail(
                pipeline_state.pipeline,
                pipeline_state.pipeline,
                plan.plan_id,
                describe_error(error),
                owner=tracker_ledger.owner,
                run_id=run_id,
            )
        return self._show(tracker_ledger.look(pipeline_state.pipeline, VERSION))

    def retry(self, run_id: str, *, pipeline: str | None) -> ProcessingPlan:
        tracker_ledger = self._tracker_ledger
        pipeline_state, plan = self._find_active(run_id, pipeline)
        assert pipeline_state.status is not None
        if pipeline_state.status.state is not State.PLANNED:
            tracker_ledger.finish(
                tracker_ledger.claim(plan, pipeline_state.status, run_id=run_id), State.PLANNED, None
            )
        return self._show(tracker_ledger.look(pipeline_state.pipeline, VERSION))

    def checkpoints(self, tables: Names | None, *, pipeline: str) -> dict[str, int]:
        wanted = None if tables is None else as_names(tables, what="table")
        marks = self._tracker_ledger.look(pipeline, VERSION).marks
        done = {name: version_of(mark.position) for name, mark in marks.items()}
        return {
            name: number
            for name, number in done.items()
            if number is not None and (wanted is None or name in wanted)
        }

    def ranges(self, pipeline: str) -> dict[str, Range]:
        plan = self.current(pipeline)
        return dict(plan.ranges) if plan else {}

    def current(self, pipeline: str) -> ProcessingPlan | None:
        pipeline_state = self._tracker_ledger.look(pipeline, VERSION)
        return self._show(pipeline_state) if pipeline_state.plan else None

    def find_stuck(self, older_than: timedelta, pipeline: str | None) -> list[ProcessingPlan]:
        ledger = self._tracker_ledger.ledger
        before = ledger.now() - older_than
        found = []
        for name in ledger.pipelines() if pipeline is None else [pipeline]:
            pipeline_state = (
                peek(ledger, name) if pipeline is None else self._tracker_ledger.look(name, VERSION)
            )
            if pipeline_state is None or pipeline_state.status is None or pipeline_state.plan is None:
                continue
            made = pipeline_state.status.planned_at
            if kind_of(pipeline_state) == VERSION and made is not None and made < before:
                found.append(self._show(pipeline_state))
        return sorted(found, key=lambda plan: plan.created_at)

    @contextmanager
    def process(self, pipeline: str, schemas: Names | None, **options: Any) -> Iterator[Processing]:
        tracker_ledger = self._tracker_ledger
        plan = self.prepare(pipeline, schemas, **options)
        if plan.state is State.SKIPPED:
            yield Processing(tracker_ledger, plan, None)
            return
        pipeline_state = tracker_ledger.look(plan.pipeline, VERSION)
        if pipeline_state.plan is None or pipeline_state.plan.plan_id != plan.run_id:
            raise WrongState(
                f"{plan.pipeline}: another runner has ended this plan", hint="prepare again", retryable=True
            )
        claim = tracker_ledger.claim(pipeline_state.plan, pipeline_state.status, run_id=plan.run_id)
        try:
            yield Processing(tracker_ledger, plan, claim)
        except BaseException as error:
            try:
                tracker_ledger.finish(claim, State.FAILED, describe_error(error))
            except TidegaugeError as fault:
                error.add_note(f"and the ledger did not take that it failed: {fault.sentence}")
            raise
        self._end(claim)

    def _end(self, claim: Claim) -> None:
        """Complete what is left; the block may have completed all of it."""
        draft = claim.plan.draft
        [status] = self._tracker_ledger.ledger.status(draft.pipeline, [draft.flow])
        if status.fence == claim.fence and status.plan is None and status.state is State.SUCCESS:
            self._tracker_ledger.release(claim)
            return
        left = [part.input for part in draft.inputs if part.input not in status.completed]
        self._tracker_ledger.complete(claim, dict.fromkeys(left))

    def _find(self, run_id: str, pipeline: str | None) -> tuple[PipelineState, Plan] | ProcessingPlan:
        """The active plan with its pipeline's state; or a plan that was SKIPPED, with nothing to complete.
        Raises WrongState for a plan that has ended."""
        ledger = self._tracker_ledger.ledger
        known = ledger.find_plan(run_id)
        if known is None:
            return self._find_skipped(run_id, pipeline)
        owner, flow, active = known
        if pipeline is not None and pipeline != owner:
            raise ConfigError(
                f"the plan {run_id} is of the pipeline '{owner}', not '{pipeline}'",
                hint="fetch_current_processing_plan(pipeline) has the run_id of each",
            )
        if flow != owner:
            raise ConfigError(
                f"the plan {run_id} is of a project's flow, '{flow}'", hint="`tidegauge run` ends those"
            )
        pipeline_state = self._tracker_ledger.look(owner, VERSION)
        if not active or pipeline_state.plan is None or pipeline_state.plan.plan_id != run_id:
            raise WrongState(
                f"{owner}: the plan {run_id} has ended already", hint="prepare again for what is new"
            )
        return pipeline_state, pipeline_state.plan

    def _find_active(self, run_id: str, pipeline: str | None) -> tuple[PipelineState, Plan]:
        found = self._find(run_id, pipeline)
        if isinstance(found, ProcessingPlan):
            raise WrongState(f"the plan {run_id} was SKIPPED: nothing was new", hint="prepare again")
        return found

    def _find_skipped(self, run_id: str, pipeline: str | None) -> ProcessingPlan:
        ledger = self._tracker_ledger.ledger
        for name in ledger.pipelines() if pipeline is None else [pipeline]:
            for status in ledger.status(name, [name]):
                run = status.last_run
                if run is not None and run.run_id == run_id and run.state is State.SKIPPED:
                    return build_skipped_plan(name, run_id, run.started_at, ())
        raise ConfigError(
            f"no plan has the run_id '{str(run_id)[:80]}'",
            hint="prepare_processing_plan_for_schemas answers a plan with its run_id",
        )

    def _show(self, pipeline_state: PipelineState) -> ProcessingPlan:
        plan, status = pipeline_state.plan, pipeline_state.status
        assert plan is not None
        assert status is not None
        made = build_plan(pipeline_state, self._events(plan) if status.completed else ())
        assert made is not None
        return made

    def _events(self, plan: Plan) -> list[Any]:
        draft = plan.draft
        # Every table is planned once and advances once; the other events are of attempts.
        limit = 2 * len(draft.inputs) + 1000
        return list(self._tracker_ledger.ledger.history(draft.pipeline, flow=draft.flow, limit=limit))


def _note_moment(draft: Draft, until: datetime) -> Draft:
    return replace(draft, notes=(*draft.notes, f"every table up to {until:%Y-%m-%d %H:%M:%S.%f} UTC"))
